"""Files that are written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4


def replace_file(path: Path, payload: bytes) -> None:
    """Write bytes to a file, as `replacing` does."""
    with replacing(path) as file:
        file.write(payload)


@contextmanager
def replacing(path: Path, flush: bool = True, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Write beside the target, flush to disk, then rename: the old file or the new, never half.

    Not flushed, a file outlives the process that wrote it, but perhaps not a loss of power.
    ``mode`` is who may read it, less what the umask of the process takes away.
    """
    # Not a file of `tempfile`, which nobody else may read, even after it has been renamed.
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} to write {path.name} to.")
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
            yield file
            if flush:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
