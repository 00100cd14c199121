"""A cohort on disk: a folder of .npy files (shards) and an index, for fits larger than memory.

`as_cohort` and `as_any_cohort` turn signals in any accepted form into a cohort.

A shard holds the samples of its recordings, one after the other, as one array (n_times,
n_channels). ``index.json`` holds everything else: labels, lengths, checksums, and the figures that
a fit needs about all recordings (power, missing samples).
"""

import hashlib
import json
import zlib
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import compress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, final, overload, runtime_checkable

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.lib import format as npy

from percdl.exceptions import InvalidParameterError, InvalidRecordingError, UnreadableFileError
from percdl.signals.cohort import Cohort, find_subject, repeated_subjects
from percdl.signals.corrections import corrections_of
from percdl.signals.files import replace_file, replacing, sweep_parts
from percdl.signals.formats import load_arrays
from percdl.signals.interop import better_door, in_words
from percdl.signals.measured import measure
from percdl.signals.recording import LAYOUTS, Correction, Recording, describe
from percdl.signals.tables import reading

if TYPE_CHECKING:
    from percdl.signals.headers import ShardIndex

INDEX, CHECKSUM = "index.json", "checksum"
# Layout 1, of PerCDL 0.1, had NPZ archives as shards.
LAYOUT = 2
# Attributes that all recordings of a cohort share.
SHARED = ("channels", "units", "sfreq", "processing")
LABELS = ("subject", "group", "person", "visit", "corrections")


@dataclass(frozen=True)
class Shard:
    """One file of recordings, with the entries of the index about it."""

    path: Path
    n_bytes: int
    first: int  # position of its first recording in the cohort
    lengths: list[int]
    checksums: list[int] | None  # of each recording; None in folders of PerCDL 0.1
    labels: list[dict[str, Any]]  # subject, group, person, visit and corrections of each
    shared: dict[str, Any]  # channels, units, sfreq and processing of the cohort

    def check(self) -> None:
        """Raise if the file is missing, cut short or has another shape."""
        if not self.path.is_file():
            raise self._error("is missing")
        if (size := self.path.stat().st_size) != self.n_bytes:
            raise self._error(f"has {size} bytes, not {self.n_bytes}")
        if self.path.suffix == ".npy":
            self._open()

    def read(self) -> list[Recording]:
        """Return all recordings; raise if a checksum does not match."""
        parts = np.split(np.array(self._open()), np.cumsum(self.lengths)[:-1])
        return [self._recording(i, part) for i, part in enumerate(parts)]

    def read_one(self, position: int) -> Recording:
        """Return one recording without reading the others."""
        start = sum(self.lengths[:position])
        rows = slice(start, start + self.lengths[position])
        return self._recording(position, np.array(self._open()[rows]))

    def _open(self) -> np.ndarray:
        """Return all samples, memory-mapped."""
        with reading(f"The shard {self.path}"):
            if self.path.suffix == ".npz":
                values = load_arrays(self.path)["values"]
            else:
                values = npy.open_memmap(self.path, mode="r")
        needed = (sum(self.lengths), len(self.shared["channels"]))
        if values.dtype.kind != "f" or values.shape != needed:
            raise self._error(
                f"holds {values.dtype.name} of shape {values.shape}, not floats of shape {needed}"
            )
        return values

    def _recording(self, position: int, values: np.ndarray) -> Recording:
        labels: Any = self.labels[position]
        if self.checksums is not None and self.checksums[position] != _checksum(values):
            raise self._error(f"is damaged: the checksum of subject {labels['subject']!r} differs")
        with reading(f"The shard {self.path}"):
            return Recording(values, **labels, **self.shared)

    def _error(self, problem: str) -> UnreadableFileError:
        return UnreadableFileError(
            f"The shard {self.path} {problem}. Restore the file, or write the cohort again."
        )


@final
# `Sequence[Recording]` would make run-time type checkers read a recording.
class ShardedCohort(Sequence):
    """Recordings on disk, written by `write_shards`, for cohorts that do not fit in memory.

    Models accept it like a `Cohort`, and it has the same attributes. Indexing reads only that
    recording, iterating reads one shard at a time, and selecting several returns a `Cohort` in
    memory. Cost O(S) to open, O(N P) to read a recording.

    Parameters
    ----------
    folder : path
        Folders of PerCDL 0.1 are read too, more slowly for single recordings.

    Attributes
    ----------
    fingerprint : str
        SHA-256 of the index, which holds the checksums of all samples, and of corrections.

    Examples
    --------
    >>> import tempfile
    >>> from percdl import write_shards
    >>> folder = tempfile.mkdtemp()
    >>> _ = write_shards(Cohort.from_arrays(np.ones((5, 40))), folder, recordings_per_shard=2)
    >>> ShardedCohort.open(folder)["3"].n_times
    40
    """

    # Recordings on disk are never one array, see `Cohort.stacked`.
    stacked = None

    def __init__(self, folder: str | PathLike[str]) -> None:
        from percdl.signals.headers import ShardIndex, read_header

        self.folder = Path(folder).expanduser().resolve()
        path = self.folder / INDEX
        if not path.is_file():
            raise UnreadableFileError(
                f"{self.folder} has no {INDEX}: it is not a cohort on disk, or writing was not "
                "finished. Write it with `percdl.write_shards`."
            )
        text = path.read_text(encoding="utf-8", errors="replace")
        index = read_header(ShardIndex, text, path)
        self.fingerprint = self._index_digest = digest_of(json.loads(text))
        if index.checksum not in (None, self.fingerprint):
            raise UnreadableFileError(f"{path} is damaged (checksum). Write the cohort again.")
        table = index.recordings
        self.channels, self.units = tuple(index.channels), tuple(index.units)
        self.processing, self.sfreq = tuple(index.processing), index.sfreq
        self.subjects: tuple[str, ...] = tuple(table.subject)
        self.groups: tuple[str | None, ...] = tuple(table.group)
        persons = zip(table.person or self.subjects, self.subjects, strict=True)
        self.persons: tuple[str, ...] = tuple(own or subject for own, subject in persons)
        self.visits: tuple[str | None, ...] = tuple(table.visit or [None] * len(self.subjects))
        self.lengths: Int[np.ndarray, " S"] = np.array(table.length, int)
        self.power: Float[np.ndarray, " S"] = np.array(table.power, float)
        self.n_masks = max(table.masks)
        self.empty = tuple(compress(self.subjects, table.empty))
        self.flat = tuple(compress(self.subjects, table.flat))
        self._position_of = {subject: i for i, subject in enumerate(self.subjects)}
        self.shards = tuple(self._list_shards(index))
        self.check()

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> "ShardedCohort":
        """Open a folder written by `write_shards` and check that all shards exist."""
        return cls(folder)

    def _list_shards(self, index: "ShardIndex") -> Iterator[Shard]:
        first, table = 0, index.recordings
        columns = [getattr(table, name) or [None] * len(self) for name in LABELS]
        labels: Any = [dict(zip(LABELS, row, strict=True)) for row in zip(*columns, strict=True)]
        shared = {name: getattr(self, name) for name in SHARED}
        for entry in index.shards:
            own = slice(first, first + entry.count)
            sums = None if table.checksum is None else table.checksum[own]
            about = (table.length[own], sums, labels[own], shared)
            yield Shard(self.folder / entry.file, entry.bytes, first, *about)
            first += entry.count

    def correct(self, corrections: pd.DataFrame, names: Sequence[str] = ()) -> "ShardedCohort":
        """Set which events must, or must not, be found, as `Cohort.correct` does.

        The files do not change.
        """
        durations = dict(zip(self.subjects, self.lengths / self.sfreq, strict=True))
        found = corrections_of(durations, corrections, names)
        corrected, shards = copy(self), []
        for shard in self.shards:
            labels = [own | {"corrections": found.get(own["subject"], ())} for own in shard.labels]
            shards.append(replace(shard, labels=labels))
        corrected.shards = tuple(shards)
        corrected.fingerprint = digest_of({"index": self._index_digest, "corrections": found})
        return corrected

    def check(self) -> None:
        """Raise if a shard is missing or damaged; checksums are compared on reading."""
        for shard in self.shards:
            shard.check()

    @property
    def corrections(self) -> dict[str, tuple[Correction, ...]]:
        """Corrections of each subject that has some."""
        labels = (own for shard in self.shards for own in shard.labels)
        return {own["subject"]: tuple(own["corrections"]) for own in labels if own["corrections"]}

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return len(self.channels)

    def __len__(self) -> int:
        return len(self.subjects)

    def __iter__(self) -> Iterator[Recording]:
        for shard in self.shards:
            yield from shard.read()

    @overload
    def __getitem__(self, index: int | np.integer | str) -> Recording: ...
    @overload
    def __getitem__(self, index: slice | list | np.ndarray) -> Cohort: ...
    def __getitem__(self, index: Any) -> Any:
        """Return one recording (position or subject id) or a cohort (slice, positions, mask)."""
        if isinstance(index, str):
            index = find_subject(index, self._position_of)
        found = np.arange(len(self))[index].tolist()
        return self._read(found) if isinstance(found, int) else Cohort(map(self._read, found))

    def _read(self, position: int) -> Recording:
        shard = self.shards[bisect(self.shards, position, key=lambda shard: shard.first) - 1]
        return shard.read_one(position - shard.first)

    def __repr__(self) -> str:
        text, n_shards = describe(self.lengths, self.channels, self.sfreq), len(self.shards)
        count, _, rest = text.partition(",")
        return f"ShardedCohort({count} in {n_shards} shard{'s'[: n_shards != 1]},{rest})"


def digest_of(content: dict[str, Any]) -> str:
    """Return the SHA-256 of an index without its own checksum."""
    others = {name: value for name, value in content.items() if name != CHECKSUM}
    return hashlib.sha256(json.dumps(others).encode()).hexdigest()


def write_shards(
    recordings: Iterable[Recording],
    folder: str | PathLike[str],
    *,
    recordings_per_shard: int = 1024,
    megabytes_per_shard: float = 64.0,
) -> ShardedCohort:
    """Write recordings to a folder of shards, for cohorts that do not fit in memory.

    Recordings are read one by one, so a generator may produce them; memory holds one shard. The
    index is written last: a folder without an index is incomplete. Cost O(S N P).

    Parameters
    ----------
    recordings, folder
        Recordings with the same channels, units, sampling rate and processing; a folder without a
        cohort, created if needed.
    recordings_per_shard, megabytes_per_shard : int, float
        Largest number of recordings in a shard, and its largest size (a shard has at least one).

    Returns
    -------
    ShardedCohort

    Examples
    --------
    >>> import tempfile
    >>> walks = Cohort.from_arrays(np.ones((5, 40)), sfreq=100)
    >>> write_shards(walks, tempfile.mkdtemp(), recordings_per_shard=2)
    ShardedCohort(5 recordings in 3 shards, 1 channel (ch0), 100 Hz, 40 samples)
    """
    folder = Path(folder).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / INDEX).exists():
        raise InvalidParameterError(
            f"{folder} holds a cohort already. Write to another folder, or delete this one."
        )
    sweep_parts(folder)
    shards: list[dict[str, Any]] = []
    table: dict[str, list[Any]] = {}
    shared, seen = None, set()
    batches = _batches(recordings, recordings_per_shard, megabytes_per_shard * 2**20)
    for index, batch in enumerate(batches):
        shared, own = _agree(shared, batch), {recording.subject for recording in batch}
        if repeated := sorted(map(str, own & seen)):
            raise repeated_subjects(repeated)
        seen |= own
        path = folder / f"shard-{index:06d}.npy"
        for name, column in _write_shard(path, batch).items():
            table.setdefault(name, []).extend(column)
        shards.append({"file": path.name, "count": len(batch), "bytes": path.stat().st_size})
    if shared is None:
        raise InvalidRecordingError("No recording was given. Pass at least one.")
    if not any(table["corrections"]):
        del table["corrections"]
    content = {"schema": LAYOUT, **shared, "shards": shards, "recordings": table}
    content[CHECKSUM] = digest_of(content)
    replace_file(folder / INDEX, json.dumps(content).encode())
    written = {entry["file"] for entry in shards}
    for path in folder.glob(f"shard-{'[0-9]' * 6}.np[yz]"):
        if path.name not in written:
            path.unlink()  # left by an earlier attempt
    return ShardedCohort.open(folder)


def _batches(
    recordings: Iterable[Recording], most: int, most_bytes: float
) -> Iterator[list[Recording]]:
    """Yield the recordings of each shard."""
    batch, size = [], 0
    for recording in recordings:
        if batch and (len(batch) >= most or size + recording.values.nbytes > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(recording)
        size += recording.values.nbytes
    if batch:
        yield batch


def _agree(shared: dict[str, Any] | None, batch: list[Recording]) -> dict[str, Any]:
    """Return the attributes that all recordings share; raise if those of a batch differ."""
    cohort = Cohort(batch)
    own = {name: getattr(cohort, name) for name in SHARED}
    if shared not in (None, own):
        name = next(name for name in SHARED if own[name] != (shared or {})[name])
        raise InvalidRecordingError(
            f"Recordings from subject {batch[0].subject!r} on have {name} {own[name]!r}, unlike "
            "earlier ones. All recordings of a cohort share them."
        )
    return own


def _write_shard(path: Path, batch: list[Recording]) -> dict[str, list[Any]]:
    """Write a shard; return the entries of the index about its recordings."""
    values = np.ascontiguousarray(np.concatenate([recording.values for recording in batch]))
    lengths = [recording.n_times for recording in batch]
    with replacing(path, tidy=False) as file:
        # `np.save` writes by `tofile`, which hides the error of a full disk.
        npy.write_array_header_1_0(file, npy.header_data_from_array_1_0(values))
        file.write(values.data.cast("B"))
    parts = np.split(values, np.cumsum(lengths)[:-1])
    found = measure(parts)
    return {
        **{name: [getattr(recording, name) for recording in batch] for name in LABELS},
        "length": lengths,
        "power": found.power.tolist(),
        "masks": found.masks.tolist(),
        "empty": found.is_empty.tolist(),
        "flat": np.asarray(found.is_constant.all(1)).tolist(),
        "checksum": [_checksum(part) for part in parts],
    }


def _checksum(values: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(values).data)


# Recordings in memory or on disk.
AnyCohort: TypeAlias = Cohort | ShardedCohort


@runtime_checkable
class SupportsArray(Protocol):
    """NumPy arrays and objects that convert to one (JAX, PyTorch, xarray)."""

    def __array__(self) -> Any: ...


def as_any_cohort(X: object) -> AnyCohort:
    """Return signals as `as_cohort` does; a cohort on disk is checked and returned unchanged."""
    if not isinstance(X, ShardedCohort):
        return as_cohort(X)
    X.check()
    return X


def as_cohort(X: object, **description: Any) -> Cohort:
    """Return signals in any accepted form as a `Cohort`.

    ``description`` (``sfreq``, ``subjects``, ...) is passed to `Cohort.from_arrays`; it is not
    allowed if ``X`` is a Cohort or a list of recordings.

    >>> as_cohort(np.zeros((3, 50, 2)), sfreq=100)
    Cohort(3 recordings, 2 channels (ch0, ch1), 100 Hz, 50 samples)
    """
    if isinstance(X, list | tuple) and X and isinstance(X[0], Recording):
        return as_cohort(Cohort(X), **description)
    if isinstance(X, Cohort):
        if description:
            raise InvalidParameterError(
                f"as_cohort got {', '.join(f'{key}=' for key in description)} for signals that "
                "already carry their description. Leave it out, or pass plain arrays."
            )
        return X
    if isinstance(X, ShardedCohort):
        raise InvalidRecordingError(
            f"Got {X!r}, which is on disk, where recordings in memory are needed. Pass a part "
            "of it, e.g. `X[:1000]`."
        )
    door = better_door(X)
    if door is None and isinstance(X, list | tuple | SupportsArray):
        return Cohort.from_arrays(X, **description)
    advice = f"Use {door}" if door else f"Pass a Cohort, {LAYOUTS}"
    raise InvalidRecordingError(f"Got {in_words(X)} where signals are needed. {advice}.")
