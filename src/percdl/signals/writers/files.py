"""Files that are written whole or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from percdl.signals.writers.leftovers import ENDING, make_held, part_of, release, sweep_parts

# Who may read a file: whom the umask lets, or the account that writes it and nobody else.
COMMON, PRIVATE = 0o666, 0o600
# What file systems answer that cannot flush, as some on a network or in user space: no reason not
# to write at all. That a disk is full or broken is never among it.
_NO_FLUSH = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
# What more they answer where only files can be flushed, or the folder cannot be opened for it.
_NO_FLUSH_OF_FOLDERS = _NO_FLUSH | {errno.EBADF, errno.EACCES, errno.EPERM}


def replace_file(path: Path, payload: bytes, mode: int = COMMON) -> None:
    """Write bytes to a file, as `replacing` does."""
    with replacing(path, mode=mode) as file:
        file.write(payload)


@contextmanager
def replacing(
    path: Path, *, flush: bool = True, tidy: bool = True, mode: int = COMMON
) -> Iterator[BinaryIO]:
    """Write beside the target, flush to disk, then rename: the old file or the new, never half.

    A process that is killed leaves what it wrote beside, ``.NAME...percdl-part``; the next file
    written to that folder from this machine sweeps it away, if it is ``tidy``. Who writes many
    files to one folder calls `sweep_parts` once, since each sweep reads the names of all. Not
    flushed, a file outlives the process that wrote it, but perhaps not a loss of power. ``mode``
    is who may read it, less what the umask of the process takes away. Errors of the system name
    ``path``, unless they are about another file, which the caller reads meanwhile.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} to write {path.name} to.")
    try:
        if tidy:
            sweep_parts(path.parent)
        # Not a file of `tempfile`, which nobody else may read, even after it has been renamed.
        part, held = make_held(lambda: part_of(path), lambda new: _create(new, mode))
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
        if error.errno is not None and _is_about(error, path):
            error.filename, error.filename2 = os.fspath(path), None
        raise


def append_private(path: Path, line: bytes) -> None:
    """Add a line to a file that nobody else may read, and flush it; made where there is none."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE)
    with open(descriptor, "ab") as file:
        file.write(line)
        flush_file(file)


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those it lies in, for this account alone; one that exists stays as is."""
    for place in reversed([folder, *folder.parents]):
        if not place.is_dir():
            place.mkdir(0o700, exist_ok=True)


def flush_file(file: BinaryIO) -> None:
    """See to it that what was written to a file outlives a loss of power."""
    file.flush()
    with _tolerating(_NO_FLUSH):
        os.fsync(file.fileno())


def flush_entries(folder: Path) -> None:
    """See to it that new names in a folder outlive a loss of power."""
    if os.name == "nt":
        return  # folders cannot be opened there
    with _tolerating(_NO_FLUSH_OF_FOLDERS):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _tolerating(errors: set[int]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in errors:
            raise


def _is_about(error: OSError, path: Path) -> bool:
    """Whether an error is about a file, its part or its folder; writing names none of them."""
    if error.filename is None:
        return True
    named = Path(str(error.filename))
    is_part = named.parent == path.parent and named.name.endswith(ENDING)
    return is_part or named in (path, path.parent)


def _create(path: Path, mode: int) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
