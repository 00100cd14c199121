"""One shard of a cohort on disk: an NPZ archive of all samples, end to end, and a description.

The archive is not compressed, so that one recording can be read without the others, and its
directory holds the checksum of the samples, so that another file is told without reading it.
"""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from percdl.exceptions import UnreadableFileError
from percdl.signals.contents import Many, Number, Record, Text, Whole, maybe, read_json
from percdl.signals.readers.arrays import PLAIN, check_packing, read_entry, read_header
from percdl.signals.recording import Recording, abbreviate

VALUES, ABOUT = "values", "about"
# A local header of a ZIP archive has so many bytes before the name, whose length it tells.
_HEADER_BYTES, _LENGTHS_AT = 30, 26
# What all recordings of a cohort share: it must agree from shard to shard.
SHARED = {
    "channels": Many(Text(), least=1),
    "units": Many(Text(), least=1),
    "sfreq": Number(np.finfo(float).tiny),
    "processing": Many(Text()),
}
DESCRIPTION = Record(
    {
        **SHARED,
        "subjects": Many(Text(), least=1),
        "groups": Many(maybe(Text()), least=1),
        "lengths": Many(Whole(1), least=1),
    }
)


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

    def check(self, told: dict[str, Any]) -> None:
        """Raise where the file is missing, cut short or another one; samples are not read.

        ``told`` is the description that the index has of it.
        """
        if not self.path.is_file():
            raise UnreadableFileError(
                f"The shard {self.path} is missing. Bring it back, or write the cohort again."
            )
        with _opened(self.path) as archive:
            about = _read_about(archive)
            _check_values(archive, about)
            checksum = archive.getinfo(f"{VALUES}.npy").CRC
        found, channels = about["channels"], told["channels"]
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
        if about != told:
            raise UnreadableFileError(
                f"The shard {self.path} tells otherwise than the index of subjects, groups, "
                "lengths, units, sampling rate or processing. Bring back the shard that was "
                "there, or write the cohort again."
            )


def read_shard(path: Path) -> list[Recording]:
    """Return all recordings of a shard; a damaged sample is an error."""
    with _opened(path) as archive:
        about = _read_about(archive)
        _check_values(archive, about)
        values = read_entry(archive, archive.getinfo(f"{VALUES}.npy"))
        parts = np.split(values, np.cumsum(about.pop("lengths"))[:-1])
        people = zip(parts, about.pop("subjects"), about.pop("groups"), strict=True)
        return [Recording(part, subject=who, group=group, **about) for part, who, group in people]


def read_rows(path: Path, start: int, count: int) -> np.ndarray:
    """Return some samples of a shard, array (count, n_channels), without reading the others."""
    with _opened(path) as archive, open(path, "rb") as file:
        _check_values(archive, _read_about(archive))
        shape, dtype = _seek_values(file, archive.getinfo(f"{VALUES}.npy"))
        if not 0 <= start <= start + count <= shape[0]:
            raise ValueError(f"samples {start} to {start + count} of {shape[0]}")
        file.seek(start * shape[1] * dtype.itemsize, 1)
        return np.fromfile(file, dtype, count * shape[1]).reshape(count, shape[1])


def _seek_values(file: BufferedReader, entry: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype]:
    """Go to the first sample of an entry; return the array's shape and type."""
    file.seek(entry.header_offset + _LENGTHS_AT)
    name, extra = struct.unpack("<HH", file.read(4))
    file.seek(entry.header_offset + _HEADER_BYTES + name + extra)
    return read_header(file, entry.file_size)


def _read_about(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the description, all of which is checked."""
    text = read_entry(archive, archive.getinfo(f"{ABOUT}.npy"))
    if text.shape or text.dtype.kind != "U":
        raise ValueError("its description is no text")
    about = read_json(str(text))
    DESCRIPTION.check(about, ABOUT)
    return about


def _check_values(archive: zipfile.ZipFile, about: dict[str, Any]) -> None:
    """Raise where the samples are not as many as the description says; they are not read."""
    entry = archive.getinfo(f"{VALUES}.npy")
    with archive.open(entry) as file:
        shape, dtype = read_header(file, entry.file_size)
    needed = (sum(about["lengths"]), len(about["channels"]))
    if dtype.name not in ("float32", "float64") or shape != needed:
        raise ValueError(f"{dtype.name} samples of shape {shape}, not real ones of {needed}")
    if not len(about["subjects"]) == len(about["groups"]) == len(about["lengths"]):
        raise ValueError("subjects, groups and lengths are not as many")


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive; whatever is wrong with it is told with its name."""
    try:
        if not path.is_file():  # opening a pipe would wait for whoever writes to it
            raise FileNotFoundError("no such file")
        with zipfile.ZipFile(path) as archive:
            check_packing(archive, PLAIN)
            yield archive
    except (
        ValueError, OSError, EOFError, KeyError, TypeError, OverflowError, NotImplementedError,
        RuntimeError, SyntaxError, struct.error, zipfile.BadZipFile, zlib.error,
    ) as error:  # fmt: skip
        if isinstance(error, UnreadableFileError):
            raise
        raise UnreadableFileError(
            f"The shard {path} is missing, cut short or damaged ({error}). Bring back the file "
            "that was there, or write the cohort again."
        ) from error
