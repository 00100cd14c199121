"""A file is written whole or not at all, despite other writers and leftovers."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from percdl import Cohort, write_shards
from percdl.signals import files as leftovers
from percdl.signals.files import hold, part_of, release, replace_file, replacing, scratch_folder

pytestmark = pytest.mark.skipif(leftovers.fcntl is None, reason="this system has no such locks")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_on_disk_before_its_name_and_the_name_before_the_end(tmp_path, monkeypatch):
    """What a loss of power may take: nothing, once the call is over."""
    steps = []
    flush, rename = os.fsync, os.replace

    def note_flush(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append("flush folder" if is_folder else f"flush {os.fstat(descriptor).st_size}")
        flush(descriptor)

    def note_rename(*paths):
        steps.append("rename")
        rename(*paths)

    monkeypatch.setattr(os, "fsync", note_flush)
    monkeypatch.setattr(os, "replace", note_rename)
    replace_file(tmp_path / "a", b"12345")
    assert steps == ["flush 5", "rename", "flush folder"]


CANNOT = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
LOST = {errno.EIO, errno.ENOSPC, errno.EDQUOT}


@pytest.mark.parametrize(
    ("is_folder", "tolerated", "raised"),
    [(True, CANNOT, LOST), (False, CANNOT, LOST)],
)
def test_disks_that_cannot_flush_are_no_reason_to_fail(
    is_folder, tolerated, raised, tmp_path, monkeypatch
):
    """Disks on a network or in user space; one that is full or broken always is."""
    flush, fault = os.fsync, []

    def refuse(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) == is_folder:
            raise OSError(fault[-1], os.strerror(fault[-1]))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    for number in tolerated:
        fault.append(number)
        replace_file(tmp_path / "a", str(number).encode())
        assert (tmp_path / "a").read_bytes() == str(number).encode()
    for number in raised:
        fault.append(number)
        with pytest.raises(OSError, match=os.strerror(number)):
            replace_file(tmp_path / "a", b"")
    assert names(tmp_path) == ["a"]


def test_an_error_names_the_file_and_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "a"
    replace_file(path, b"old")

    def refuse(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left on device") as caught:
        replace_file(path, b"new")
    assert caught.value.filename == str(path)
    assert (names(tmp_path), path.read_bytes()) == (["a"], b"old")


def test_an_error_about_another_file_names_that_one(tmp_path):
    """What is written may come from files that the caller reads meanwhile."""
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "a"):
        (tmp_path / "source").read_bytes()
    assert caught.value.filename == str(tmp_path / "source")
    with pytest.raises(IsADirectoryError) as caught:
        replace_file(tmp_path, b"new")
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path), None)
    assert names(tmp_path) == []


def test_a_file_that_would_grow_too_large_is_not_begun(tmp_path):
    """A limit on the size of files, as a quota: real, and for every user."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from percdl.signals.files import replace_file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "replace_file(Path(sys.argv[1]), bytes(10_000))\n"
    )
    path = tmp_path / "a"
    replace_file(path, b"old")
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert f"OSError: [Errno 27] File too large: '{path}'" in done.stderr
    assert (names(tmp_path), path.read_bytes()) == (["a"], b"old")


def test_what_a_killed_process_has_left_is_swept_by_the_next(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from percdl.signals.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "a"
    replace_file(path, b"old")
    for _ in range(2):  # however often
        done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
        assert done.returncode == -signal.SIGKILL
        assert [left.read_bytes() for left in tmp_path.glob(".*.percdl-part")] == [b"half"]
        assert path.read_bytes() == b"old"
    replace_file(tmp_path / "another", b"new")
    assert names(tmp_path) == ["a", "another"]


def test_the_folder_is_read_as_often_for_many_shards_as_for_few(tmp_path, monkeypatch):
    listed, glob = [], Path.glob
    monkeypatch.setattr(Path, "glob", lambda *given: listed.append(given) or glob(*given))
    counts = []
    for n_shards in (2, 9):
        folder = tmp_path / str(n_shards)
        folder.mkdir()
        left = part_of(folder / "shard-000003.npy")  # by a process that was killed
        left.touch()
        cohort = Cohort.from_arrays(np.ones((n_shards, 4)), sfreq=1)
        written = write_shards(cohort, folder, recordings_per_shard=1)
        counts.append(len(listed))
        listed.clear()
        assert len(written.shards) == n_shards
        assert not left.exists()
    assert counts[0] == counts[1] > 0


def test_what_is_being_written_is_left_alone(tmp_path):
    with replacing(tmp_path / "a") as file, scratch_folder(tmp_path, "work") as folder:
        file.write(b"slow")
        replace_file(tmp_path / "a", b"quick")
        replace_file(tmp_path / "b", b"quick")
        assert folder.is_dir()
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == b"slow"


def test_other_machines_and_other_files_are_left_alone(tmp_path):
    left = part_of(tmp_path / "a").name
    far = left.replace(leftovers.machine(), "00000000")
    others = [far, ".a.swp", ".hidden", "a.percdl-part", left.removesuffix("-part")]
    for name in (left, *others):
        (tmp_path / name).touch()
    replace_file(tmp_path / "a", b"new")
    assert names(tmp_path) == sorted(["a", *others])


def test_a_disk_without_locks_is_never_swept(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(leftovers.fcntl, "flock", refuse)
    left = part_of(tmp_path / "a")
    left.touch()
    replace_file(tmp_path / "a", b"new")
    assert names(tmp_path) == sorted([left.name, "a"])


def test_what_was_taken_for_abandoned_is_made_again(tmp_path, monkeypatch):
    """Another process sweeps between the making of a file and the lock on it."""
    takers = []

    def hold_late(path):
        if not takers:
            takers.append(path)
            path.unlink()
        return hold(path)

    monkeypatch.setattr(leftovers, "hold", hold_late)
    replace_file(tmp_path / "a", b"new")
    assert (names(tmp_path), (tmp_path / "a").read_bytes()) == (["a"], b"new")


def test_locks_are_exclusive(tmp_path):
    held = hold(tmp_path)
    with pytest.raises(BlockingIOError):
        hold(tmp_path)
    release(held)
    release(hold(tmp_path))


@pytest.mark.parametrize("name", ["x" * 255, "ä" * 127])
def test_long_names(tmp_path, name):
    replace_file(tmp_path / name, b"new")
    assert names(tmp_path) == [name]


def test_two_processes_that_write_the_same_file(tmp_path):
    """One of the two, never a mix; and neither stumbles over the other."""
    code = (
        "import sys; from pathlib import Path\n"
        "from percdl.signals.files import replace_file\n"
        "for _ in range(15): replace_file(Path(sys.argv[1]), sys.argv[2].encode() * 200_000)\n"
    )
    path = tmp_path / "a"
    replace_file(path, b"0" * 200_000)
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(path), letter], stderr=subprocess.PIPE)
        for letter in "12"
    ]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(path.read_bytes())
    complaints = [writer.communicate()[1] for writer in writers]
    assert complaints == [b"", b""]
    seen.add(path.read_bytes())
    assert seen <= {letter * 200_000 for letter in (b"0", b"1", b"2")}
    assert names(tmp_path) == ["a"]
    assert Path(path).read_bytes()[:1] in (b"1", b"2")


def test_a_scratch_folder_is_private(tmp_path):
    with scratch_folder(tmp_path, "work") as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
