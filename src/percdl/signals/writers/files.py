"""Files that are written whole or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from percdl.signals.writers.leftovers import make_held, part_of, parts_in, release, sweep

# What file systems answer on which the entries of a folder need not, or cannot, be flushed.
_NO_FLUSH = {errno.EINVAL, errno.ENOTSUP, errno.EACCES}


def replace_file(path: Path, payload: bytes) -> None:
    """Write bytes to a file, as `replacing` does."""
    with replacing(path) as file:
        file.write(payload)


@contextmanager
def replacing(path: Path, flush: bool = True, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Write beside the target, flush to disk, then rename: the old file or the new, never half.

    A process that is killed leaves what it wrote beside, ``.NAME...percdl-part``; the next file
    written to that folder from this machine sweeps it away. Not flushed, a file outlives the
    process that wrote it, but perhaps not a loss of power, and nothing is swept. ``mode`` is who
    may read it, less what the umask of the process takes away. Errors of the system name ``path``.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} to write {path.name} to.")
    try:
        if flush:
            sweep(parts_in(path.parent))
        # Not a file of `tempfile`, which nobody else may read, even after it has been renamed.
        part, held = make_held(lambda: part_of(path), lambda new: _create(new, mode))
        try:
            with open(part, "wb") as file:
                yield file
                if flush:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        finally:
            release(held)
        if flush:
            flush_entries(path.parent)
    except OSError as error:
        if error.errno is not None:
            error.filename, error.filename2 = os.fspath(path), None
        raise


def flush_entries(folder: Path) -> None:
    """See to it that new names in a folder outlive a loss of power."""
    if os.name == "nt":
        return  # folders cannot be opened there
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_FLUSH:
            raise


def _create(path: Path, mode: int) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
