"""The states of partitions on disk, and the order in which sums are added."""

import numpy as np
import pytest

from percdl.algorithm.exchange import BRANCHES, add_in_tree
from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.runtimes.states import States, read_state, write_state


def run_round(states):
    """Stand for a round: each partition's state is the number of rounds it has seen."""
    for i in range(states.n_partitions):
        before = states.before(i)
        seen = 0 if before is None else int(read_state(before)["seen"][0])
        write_state(states.after(i), {"seen": np.array([seen + 1])})
    states.advance()


def seen(states):
    return [int(read_state(states.before(i))["seen"][0]) for i in range(states.n_partitions)]


def test_a_round_leads_from_state_to_state(tmp_path):
    states = States(tmp_path / "state", 3)
    assert states.before(0) is None
    for n_rounds in (1, 2, 3):
        run_round(states)
        assert seen(states) == [n_rounds] * 3
    assert len(list(tmp_path.rglob("*.safetensors"))) == 3
    states.delete()
    assert not list(tmp_path.iterdir())


def test_a_round_that_was_broken_off_can_be_run_again(tmp_path):
    states = States(tmp_path / "state", 3)
    run_round(states)
    write_state(states.after(1), {"seen": np.array([99])})
    run_round(states)
    assert seen(states) == [2] * 3


@pytest.mark.parametrize("rounds_after", [0, 1, 2, 3])
def test_a_snapshot_is_good_until_the_next(tmp_path, rounds_after):
    states = States(tmp_path / "state", 2)
    run_round(states)
    states.snapshot()
    run_round(states)
    snapshot = states.snapshot()
    for _ in range(rounds_after):
        run_round(states)
    again = States(tmp_path / "another", 2)
    again.restore(snapshot)
    assert seen(again) == [2, 2]
    run_round(again)
    assert seen(again) == [3, 3]
    assert not (tmp_path / "another").exists()


def test_states_that_are_gone_are_told(tmp_path):
    states = States(tmp_path / "state", 2)
    run_round(states)
    snapshot = states.snapshot()
    states.before(1).unlink()
    with pytest.raises(InvalidParameterError, match=r"1 of 2 states .* gone, .*000001"):
        States(tmp_path / "another", 2).restore(snapshot)
    with pytest.raises(UnreadableFileError, match="missing or damaged"):
        read_state(tmp_path / "nothing")


def test_a_state_in_memory_is_another_thing(tmp_path):
    with pytest.raises(InvalidParameterError, match="interrupted in memory"):
        States(tmp_path / "state", 2).restore({"chunk0/0": np.zeros(3)})


@pytest.mark.parametrize("count", [1, 2, BRANCHES, BRANCHES + 1, 3 * BRANCHES**2 + 5])
def test_the_tree_holds_every_part_once_and_in_order(count):
    def flatten(tree):
        return [leaf for part in tree for leaf in flatten(part)] if type(tree) is list else [tree]

    tree = add_in_tree(list(range(count)), list)
    assert flatten(tree) == list(range(count))
