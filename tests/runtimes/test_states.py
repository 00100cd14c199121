"""The states of partitions on disk, and the order in which sums are added."""

import errno
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from percdl.algorithm.exchange import BRANCHES, add_in_tree
from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.runtimes.states import States, read_state, write_state
from percdl.signals.files import part_of, release

LINK, LINKED = (f"state-{letter * 8}-{letter * 32}" for letter in "ab")


def run_round(states):
    """Stand for a round: each partition's state is the number of rounds it has seen."""
    for i in range(states.n_partitions):
        before = states.before(i)
        seen = 0 if before is None else int(read_state(before)["seen"][0])
        write_state(states.after(i), {"seen": np.array([seen + 1])})
    states.advance()


def written(states, path):
    """Stand for a checkpoint: a file that speaks of the states."""
    snapshot = states.snapshot(path)
    path.write_bytes(snapshot["folder"].tobytes())
    states.settle()
    return snapshot


def seen(states):
    return [int(read_state(states.before(i))["seen"][0]) for i in range(states.n_partitions)]


def test_a_round_leads_from_state_to_state(tmp_path):
    states = States(tmp_path, 3)
    assert states.before(0) is None
    for n_rounds in (1, 2, 3):
        run_round(states)
        assert seen(states) == [n_rounds] * 3
    assert len(list(tmp_path.rglob("*.state"))) == 3
    states.close()
    assert not list(tmp_path.iterdir())


def test_a_round_that_was_broken_off_can_be_run_again(tmp_path):
    states = States(tmp_path, 3)
    run_round(states)
    write_state(states.after(1), {"seen": np.array([99])})
    run_round(states)
    assert seen(states) == [2] * 3


@pytest.mark.parametrize("rounds_after", [0, 1, 2, 3])
def test_a_snapshot_is_good_until_the_next(tmp_path, rounds_after):
    states = States(tmp_path, 2)
    run_round(states)
    written(states, tmp_path / "file")
    run_round(states)
    snapshot = written(states, tmp_path / "file")
    for _ in range(rounds_after):
        run_round(states)
    states.close(keep=True)
    again = States(tmp_path, 2)
    again.restore(snapshot)
    assert seen(again) == [2, 2]
    run_round(again)
    assert seen(again) == [3, 3]
    assert list(tmp_path.glob("state-*")) == [states.folder]


@pytest.mark.parametrize("rounds_after", [0, 1, 2])
def test_a_snapshot_on_disk_is_good_until_the_next_is_on_disk(tmp_path, rounds_after):
    states = States(tmp_path, 2)
    run_round(states)
    snapshot = written(states, tmp_path / "file")
    for _ in range(rounds_after):
        run_round(states)
        states.snapshot(tmp_path / "file")  # which could not be written
    states.close(keep=True)
    again = States(tmp_path, 2)
    again.restore(snapshot)
    assert seen(again) == [1, 1]


def test_states_in_use_are_not_taken_over(tmp_path):
    states = States(tmp_path, 2)
    run_round(states)
    snapshot = written(states, tmp_path / "file")
    again = States(tmp_path, 2)
    with pytest.raises(InvalidParameterError, match="Another process is at work"):
        again.restore(snapshot)
    states.close(keep=True)
    again.restore(snapshot)


def forge(snapshot, name):
    return {**snapshot, "folder": np.frombuffer(name.encode(), np.uint8)}


@pytest.mark.parametrize(
    "name",
    [
        "/{0}/precious",
        "../home/precious",
        "precious",
        "",
        ".",
        "..",
        "../{1}",
        "{1}/../precious",
        "{1}\0",
        "state-short",
        LINK,
        LINKED,
    ],
)
def test_a_forged_checkpoint_cannot_lead_elsewhere(tmp_path, name):
    """Nothing is made, replaced or deleted outside the folder of a fit."""
    home = tmp_path / "home"
    states = States(home, 2)
    run_round(states)
    snapshot = written(states, tmp_path / "file")
    states.close(keep=True)
    own = states.folder.name
    for folder in (home / "precious", tmp_path / own, tmp_path / "elsewhere"):
        shutil.copytree(states.folder, folder)
    (home / LINK).symlink_to(tmp_path / "elsewhere")
    shutil.copytree(states.folder, home / LINKED)
    (home / LINKED / "round-0002").rmdir()
    (home / LINKED / "round-0002").symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    again = States(home, 2)
    with pytest.raises(InvalidParameterError, match="not the folder of a fit in"):
        again.restore(forge(snapshot, name.format(tmp_path, own)))
    again.close()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_damaged_state_is_told(tmp_path):
    write_state(tmp_path / "state", {"seen": np.arange(20.0), "none": np.zeros((0, 3))})
    whole = (tmp_path / "state").read_bytes()
    for position in range(0, 8 * len(whole), 37):
        content = bytearray(whole)
        content[position // 8] ^= 1 << (position % 8)
        (tmp_path / "state").write_bytes(content)
        try:
            same = read_state(tmp_path / "state")
        except UnreadableFileError:
            continue
        assert np.array_equal(same["seen"], np.arange(20.0))
        assert same["none"].shape == (0, 3)


def abandon(states):
    """Simulate kill -9: no process holds the states, and nothing else was done."""
    release(states._held)
    return states.folder


def swept(parent):
    """Start another fit there; return what is left of the others."""
    other = States(parent, 1)
    other.sweep_others()
    other.close()
    return sorted(parent.glob("state-*"))


def test_states_stay_while_a_file_speaks_of_them(tmp_path):
    states, file = States(tmp_path, 1), tmp_path / "file"
    run_round(states)
    written(states, file)
    assert swept(tmp_path) == [states.folder]  # it is at work
    abandon(states)
    assert swept(tmp_path) == [states.folder]
    file.write_bytes(b"of another fit, or of the end of this one")
    assert swept(tmp_path) == []


def test_a_file_that_was_moved_may_come_back(tmp_path):
    states, file = States(tmp_path, 1), tmp_path / "file"
    run_round(states)
    snapshot = written(states, file)
    abandon(states)
    file.rename(tmp_path / "elsewhere")
    assert swept(tmp_path) == [states.folder]
    again = States(tmp_path, 1)
    again.restore(snapshot)
    assert seen(again) == [1]


@pytest.mark.parametrize(
    "end", [abandon, lambda states: states.close(keep=True)], ids=["kill", "interruption"]
)
def test_an_end_right_after_a_first_checkpoint_loses_nothing(tmp_path, end):
    states, file = States(tmp_path, 1), tmp_path / "file"
    run_round(states)
    snapshot = states.snapshot(file)
    file.write_bytes(snapshot["folder"].tobytes())
    end(states)  # before `settle`
    assert swept(tmp_path) == [states.folder]
    again = States(tmp_path, 1)
    again.restore(snapshot)
    assert seen(again) == [1]


def test_states_whose_checkpoint_was_never_written_go_with_the_fit(tmp_path):
    states = States(tmp_path, 1)
    run_round(states)
    states.snapshot(tmp_path / "file")
    states.close(keep=True)
    assert not list(tmp_path.iterdir())


def test_a_second_checkpoint_that_was_never_written_does_not_replace_the_first(tmp_path):
    states, first, second = States(tmp_path, 1), tmp_path / "first", tmp_path / "second"
    run_round(states)
    snapshot = written(states, first)
    second.write_bytes(b"of another fit")
    states.snapshot(second)
    abandon(states)  # before `second` is written
    again = States(tmp_path, 1)
    again.restore(snapshot)
    abandon(again)
    assert swept(tmp_path) == [states.folder]


def test_states_that_no_file_speaks_of_are_swept(tmp_path):
    first, second = States(tmp_path, 1), States(tmp_path, 1)
    run_round(first)
    run_round(second)
    second.snapshot(tmp_path / "never written")
    for states in (first, second):
        abandon(states)
    far = first.folder.rename(tmp_path / "state-00000000-of-another-machine")
    assert swept(tmp_path) == [far]


def test_states_are_private(tmp_path):
    assert stat.S_IMODE(States(tmp_path, 1).folder.stat().st_mode) == 0o700


def test_states_of_another_account_are_left_alone(tmp_path, monkeypatch):
    """Neither they nor the checkpoint of their owner can be looked at."""
    other = States(tmp_path, 1)
    run_round(other)
    written(other, tmp_path / "file")
    abandon(other)
    look = Path.stat

    def refuse(path, **options):
        if path.parent == other.folder:
            raise PermissionError(errno.EACCES, "Permission denied")
        return look(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    states = States(tmp_path, 1)
    states.sweep_others()
    states.close()
    assert list(tmp_path.glob("state-*")) == [other.folder]


def test_rounds_broken_off_again_and_again_leave_no_more_than_one(tmp_path):
    states = States(tmp_path, 1)
    run_round(states)
    snapshot = written(states, tmp_path / "file")
    abandon(states)
    for _ in range(3):
        again = States(tmp_path, 1)
        again.restore(snapshot)
        part_of(again.after(0)).touch()  # killed while it writes
        abandon(again)
        assert len(list(tmp_path.rglob("*.percdl-part"))) == 1


def test_fits_killed_before_their_first_round_leave_no_more_than_one(tmp_path):
    states = States(tmp_path, 1)
    run_round(states)
    written(states, tmp_path / "file")
    abandon(states)
    for _ in range(3):
        fresh = abandon(States(tmp_path, 1))
        assert set(tmp_path.glob("state-*")) == {states.folder, fresh}


def test_states_that_are_gone_are_told(tmp_path):
    states = States(tmp_path, 2)
    run_round(states)
    snapshot = written(states, tmp_path / "file")
    states.before(1).unlink()
    with pytest.raises(InvalidParameterError, match=r"1 of 2 states .* gone, .*000001"):
        States(tmp_path, 2).restore(snapshot)
    with pytest.raises(UnreadableFileError, match="missing or damaged"):
        read_state(tmp_path / "nothing")


def test_a_state_in_memory_is_another_thing(tmp_path):
    with pytest.raises(InvalidParameterError, match="interrupted in memory"):
        States(tmp_path, 2).restore({"chunk0/0": np.zeros(3)})


@pytest.mark.parametrize("count", [1, 2, BRANCHES, BRANCHES + 1, 3 * BRANCHES**2 + 5])
def test_the_tree_holds_every_part_once_and_in_order(count):
    def flatten(tree):
        return [leaf for part in tree for leaf in flatten(part)] if type(tree) is list else [tree]

    tree = add_in_tree(list(range(count)), list)
    assert flatten(tree) == list(range(count))
