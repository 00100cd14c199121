"""One shard of a cohort on disk: an NPZ archive of all samples, end to end, and a description.

The archive is not compressed, so that one recording can be read without the others, and its
directory holds the checksum of the samples, so that another file is told without reading it.
"""

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from percdl.exceptions import UnreadableFileError
from percdl.signals.recording import Recording, abbreviate

VALUES, ABOUT = "values", "about"
# A local header of a ZIP archive has so many bytes before the name, whose length it tells.
_HEADER_BYTES, _LENGTHS_AT = 30, 26


@dataclass(frozen=True)
class Shard:
    """What the index says of a shard: where it is, whom it holds, and what the file is like.

    Attributes
    ----------
    path : Path
        The archive.
    first, count : int
        The position of its first recording in the cohort, and how many there are.
    n_bytes, checksum : int
        Size of the file, CRC-32 of the samples.
    """

    path: Path
    first: int
    count: int
    n_bytes: int
    checksum: int

    def check(self, channels: tuple[str, ...]) -> None:
        """Raise where the file is missing, cut short or another one; samples are not read."""
        if not self.path.is_file():
            raise UnreadableFileError(
                f"The shard {self.path} is missing. Bring it back, or write the cohort again."
            )
        with _opened(self.path) as archive:
            found = tuple(_read_about(archive)["channels"])
            checksum = archive.getinfo(f"{VALUES}.npy").CRC
        if found != channels:
            raise UnreadableFileError(
                f"The shard {self.path} has {len(found)} channel(s) ({abbreviate(found)}), but "
                f"the cohort has {len(channels)} ({abbreviate(channels)}). Bring back the shard "
                "that was there, or write the cohort again."
            )
        if checksum != self.checksum or self.path.stat().st_size != self.n_bytes:
            raise UnreadableFileError(
                f"The shard {self.path} is not the file the index tells of: its size or the "
                "checksum of its samples differs. Bring back the shard that was there, or write "
                "the cohort again."
            )


def read_shard(path: Path) -> list[Recording]:
    """Return all recordings of a shard; a damaged sample is an error."""
    with _opened(path) as archive:
        about = _read_about(archive)
        with archive.open(f"{VALUES}.npy") as file:
            values = npy.read_array(file, allow_pickle=False)  # compares the checksum
    lengths = about.pop("lengths")
    parts = np.split(values, np.cumsum(lengths)[:-1])
    people = zip(parts, about.pop("subjects"), about.pop("groups"), strict=True)
    return [Recording(part, subject=who, group=group, **about) for part, who, group in people]


def read_rows(path: Path, start: int, count: int) -> np.ndarray:
    """Return some samples of a shard, array (count, n_channels), without reading the others."""
    with _opened(path) as archive:
        offset = archive.getinfo(f"{VALUES}.npy").header_offset
    with open(path, "rb") as file:
        shape, dtype = _seek_values(file, offset)
        file.seek(start * shape[1] * dtype.itemsize, 1)
        return np.fromfile(file, dtype, count * shape[1]).reshape(count, shape[1])


def _seek_values(file: BinaryIO, offset: int) -> tuple[tuple[int, ...], np.dtype]:
    """Go to the first sample, given the offset of the entry; return the array's shape and type."""
    file.seek(offset + _LENGTHS_AT)
    name, extra = struct.unpack("<HH", file.read(4))
    file.seek(offset + _HEADER_BYTES + name + extra)
    version = npy.read_magic(file)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read_header(file)
    return shape, dtype


def _read_about(archive: zipfile.ZipFile) -> dict[str, Any]:
    with archive.open(f"{ABOUT}.npy") as file:
        return json.loads(str(npy.read_array(file, allow_pickle=False)))


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive; whatever is wrong with it is told with its name."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (
        ValueError, OSError, EOFError, KeyError, TypeError, zipfile.BadZipFile, zlib.error
    ) as error:  # fmt: skip
        if isinstance(error, UnreadableFileError):
            raise
        raise UnreadableFileError(
            f"The shard {path} is missing, cut short or damaged ({error}). Bring back the file "
            "that was there, or write the cohort again."
        ) from error
