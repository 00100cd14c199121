"""Atomic writes, and the removal of files that killed processes left behind.

A file is written next to its target and then renamed. While a process writes, it holds a lock on
the unfinished file, which the system releases when the process ends. Unfinished files of this
machine without a lock are therefore leftovers. Files of other machines are kept, since not all
shared disks share their locks.

filelock would truncate the file, or need a second one that a killed process leaves behind as well.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# Access modes: as the umask allows, or for this account only.
COMMON, PRIVATE = 0o666, 0o600
ENDING = ".percdl-part"
# Errors of file systems that cannot flush, e.g. on a network: writing continues. A full or broken
# disk gives other errors.
_NO_FLUSH = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def replace_file(path: Path, payload: bytes, mode: int = COMMON) -> None:
    """Write bytes to a file atomically; see `replacing`."""
    with replacing(path, mode=mode) as file:
        file.write(payload)


@contextmanager
def replacing(
    path: Path, *, flush: bool = True, tidy: bool = True, mode: int = COMMON
) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` when the block ends without an error.

    ``tidy`` calls `sweep_parts` first. Without ``flush``, a power failure may lose the file.
    ``mode`` is the access mode, reduced by the umask. Errors name ``path``.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} to write {path.name} to.")
    if tidy:
        sweep_parts(path.parent)
    try:
        # `tempfile` makes files that other accounts cannot read, even after renaming.
        part, held = make_held(
            lambda: part_of(path),
            lambda new: os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)),
        )
        try:
            with open(part, "wb") as file:
                yield file
                if flush:
                    flush_file(file)
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        finally:
            release(held)
        if flush:
            flush_entries(path.parent)
    except OSError as error:
        ours = error.filename is None or str(error.filename).endswith(ENDING)
        if error.errno is not None and ours:
            error.filename, error.filename2 = os.fspath(path), None
        raise


def append_private(path: Path, line: bytes) -> None:
    """Append a line to a file that only this account can read, and flush it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE)
    with open(descriptor, "ab") as file:
        file.write(line)
        flush_file(file)


def make_private_folder(folder: Path) -> None:
    """Make a folder and its parents for this account only; existing folders stay as they are."""
    for place in reversed([folder, *folder.parents]):
        if not place.is_dir():
            place.mkdir(0o700, exist_ok=True)


def flush_file(file: BinaryIO) -> None:
    """Flush a file to disk."""
    file.flush()
    _flush(file.fileno())


def flush_entries(folder: Path) -> None:
    """Flush the names in a folder to disk."""
    with suppress(PermissionError):  # a folder closed to this account, or on Windows
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            _flush(descriptor)
        finally:
            os.close(descriptor)


def _flush(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FLUSH:
            raise


def machine() -> str:
    """Return a short name of this machine, part of the names of its unfinished files."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def unique() -> str:
    """Return a name that no other process uses."""
    return f"{machine()}-{uuid4().hex}"


def part_of(path: Path) -> Path:
    """Return a new name next to a file, for its unfinished content; long names are cut."""
    return path.with_name(f".{path.name[:40]}.{unique()}{ENDING}")


def sweep_parts(folder: Path) -> None:
    """Delete the unfinished files of killed processes of this machine in a folder."""
    sweep(folder.glob(f".*.{machine()}-*{ENDING}"))


def hold(path: Path) -> int | None:
    """Lock a file or folder, for `release`; raises `BlockingIOError` if another process does."""
    if fcntl is None:
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None  # a disk without locks
    return descriptor


def release(descriptor: int | None) -> None:
    """Release a lock of `hold`."""
    if descriptor is not None:
        os.close(descriptor)


def make_held(name: Callable[[], Path], make: Callable[[Path], object]) -> tuple[Path, int | None]:
    """Make a file or folder under a new name and lock it."""
    while True:
        path = name()
        make(path)
        # Another process may delete it before it is locked; then make another one.
        with suppress(BlockingIOError, FileNotFoundError):
            held = hold(path)
            if path.exists():
                return path, held
            release(held)


def sweep(paths: Iterable[Path], is_needed: Callable[[Path], bool] = lambda path: False) -> None:
    """Delete files and folders that no process holds and that are not needed."""
    for path in list(paths):
        with suppress(OSError):
            held = None if is_needed(path) else hold(path)
            if held is None:
                continue
            try:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            finally:
                release(held)


def make_private(folder: Path) -> None:
    """Make a folder that other accounts cannot read."""
    folder.mkdir(0o700)


@contextmanager
def scratch_folder(parent: Path, name: str) -> Iterator[Path]:
    """Yield a private folder that is deleted afterwards; leftovers of others go first."""
    sweep_parts(parent)
    path, held = make_held(lambda: part_of(parent / name), make_private)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        release(held)
