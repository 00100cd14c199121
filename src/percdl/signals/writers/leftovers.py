"""What a killed process has left behind, told from what a living one works on.

Whoever writes holds a lock, which the system takes back when the process ends, however it ends.
What bears the name of this machine and is held by nobody is nobody's any more, and is deleted.
Other machines are left alone, since not all shared disks share their locks; so is everything
where the system knows no such locks.
"""

from __future__ import annotations

import os
import platform
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

ENDING = ".percdl-part"
# Of a long name so much is kept, lest the name of what is unfinished be too long.
_LETTERS = 40


def machine() -> str:
    """Return what files of this machine are known by."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def unique() -> str:
    """Return a name that no other process gives."""
    return f"{machine()}-{uuid4().hex}"


def part_of(path: Path) -> Path:
    """Return a name, beside a file to be, for what is not finished yet."""
    return path.with_name(f".{path.name[:_LETTERS]}.{unique()}{ENDING}")


def parts_in(folder: Path) -> list[Path]:
    """Return what this machine has not finished in a folder."""
    return list(folder.glob(f".*.{machine()}-*{ENDING}"))


def sweep_parts(folder: Path) -> None:
    """Delete what killed processes of this machine have not finished in a folder."""
    sweep(parts_in(folder))


def hold(path: Path) -> int | None:
    """Lock a file or folder; return the descriptor to `release`, None where there are no locks.

    Raises
    ------
    BlockingIOError
        Where another process holds it.
    """
    if fcntl is None:
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:  # a disk without locks, where nothing is swept either
        os.close(descriptor)
        return None
    return descriptor


def release(descriptor: int | None) -> None:
    """Give back what `hold` has returned."""
    if descriptor is not None:
        os.close(descriptor)


def make_held(name: Callable[[], Path], make: Callable[[Path], object]) -> tuple[Path, int | None]:
    """Make a file or folder under a new name, and hold it."""
    while True:
        path = name()
        make(path)
        # Between the two, somebody may have taken it for abandoned.
        with suppress(BlockingIOError, FileNotFoundError):
            held = hold(path)
            if path.exists():
                return path, held
            release(held)


def sweep(paths: Iterable[Path], is_needed: Callable[[Path], bool] = lambda path: False) -> None:
    """Delete those files and folders that no living process holds and that are not needed.

    What is closed to this account, so that nothing can be found out about it, is left alone.
    """
    for path in paths:
        with suppress(OSError):
            held = None if is_needed(path) else hold(path)
            if held is None:
                continue
            try:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            finally:
                release(held)


def make_private(folder: Path) -> None:
    """Make a folder that no other account may look into, wherever it lies, be it ``/tmp``."""
    folder.mkdir(0o700)


@contextmanager
def scratch_folder(parent: Path, name: str) -> Iterator[Path]:
    """Yield a private folder that goes when it is left; those of killed processes go first."""
    sweep_parts(parent)
    path, held = make_held(lambda: part_of(parent / name), make_private)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        release(held)
