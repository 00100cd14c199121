"""A cohort on disk: a folder of shards and an index, read as far as it is needed."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, final, overload

import numpy as np
from jaxtyping import Float, Int

from percdl.exceptions import UnreadableFileError
from percdl.signals.cohort import Cohort
from percdl.signals.consistency import unknown_subject
from percdl.signals.contents import Flag, Many, Number, Record, Text, Whole, maybe, read_json
from percdl.signals.readers.shard import SHARED, Shard, read_rows, read_shard
from percdl.signals.recording import Recording, abbreviate
from percdl.signals.selection import positions

INDEX, SCHEMA, CHECKSUM = "index.json", 1, "checksum"
CONTENT = Record(
    {
        "schema": Whole(1),
        **SHARED,
        "shards": Many(
            Record(
                {
                    "file": Text(r"shard-\d{6,}\.npz"),  # a name in the folder, not a path
                    "count": Whole(1),
                    "bytes": Whole(1),
                    "checksum": Whole(0, 2**32 - 1),
                }
            ),
            least=1,
        ),
        "recordings": Record(
            {
                "subject": Many(Text(), least=1),
                "group": Many(maybe(Text())),
                "length": Many(Whole(1)),
                "power": Many(Number(0, np.inf, gaps=True)),
                "masks": Many(Whole()),
                "empty": Many(Flag()),
                "flat": Many(Flag()),
            }
        ),
    },
    {CHECKSUM: Text("[0-9a-f]{64}")},
)


@final
# Not `Sequence[Recording]`: who checks types at run time would read recordings to look at one.
class ShardedCohort(Sequence):
    """Recordings that stay on disk, written by `write_shards`, for fits beyond the memory.

    Models take it where they take a `Cohort`. One recording is read without the others;
    iterating reads one shard at a time; a selection of several is a `Cohort` in memory. Cost O(S)
    to open, O(N P) to read a recording.

    Parameters
    ----------
    folder : path
        The folder.
    content : dict
        What its index says; use `ShardedCohort.open`.

    Attributes
    ----------
    folder : Path
    shards : tuple of Shard
    subjects, groups, channels, units, processing : tuple of str
    sfreq : float
    lengths, power : arrays (S,)
        Samples of each recording, and their mean square.
    n_masks : int
        See `Measured`, whose names `empty` and `flat` are there, too.
    fingerprint : str
        SHA-256 of the index, which holds the checksums of all samples.

    Examples
    --------
    >>> import tempfile
    >>> from percdl import write_shards
    >>> folder = tempfile.mkdtemp()
    >>> walks = Cohort.from_arrays(np.random.default_rng(0).normal(size=(5, 40)), sfreq=100)
    >>> _ = write_shards(walks, folder, recordings_per_shard=2)
    >>> ShardedCohort.open(folder)["3"].n_times
    40
    """

    # Recordings of equal length are not one array here, see `Cohort.stacked`.
    stacked = None

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self.folder = folder
        self.channels = tuple(content["channels"])
        self.units = tuple(content["units"])
        self.processing = tuple(content["processing"])
        self.sfreq = float(content["sfreq"])
        table = content["recordings"]
        self.subjects: tuple[str, ...] = tuple(table["subject"])
        self.groups: tuple[str | None, ...] = tuple(table["group"])
        self.lengths: Int[np.ndarray, " S"] = np.array(table["length"], int)
        self.power: Float[np.ndarray, " S"] = np.array(table["power"], float)
        self.n_masks = int(max(table["masks"]))
        self.empty, self.flat = (
            tuple(s for s, yes in zip(self.subjects, table[name], strict=True) if yes)
            for name in ("empty", "flat")
        )
        counts = [entry["count"] for entry in content["shards"]]
        self.shards = tuple(
            Shard(folder / e["file"], int(first), e["count"], e["bytes"], e["checksum"])
            for e, first in zip(content["shards"], np.cumsum([0, *counts]), strict=False)
        )
        self.fingerprint = digest_of(content)
        self._position_of = {subject: i for i, subject in enumerate(self.subjects)}

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> "ShardedCohort":
        """Open a folder that `write_shards` has written, and check that all shards are there."""
        folder = Path(folder).expanduser().resolve()
        if not (folder / INDEX).is_file():
            raise UnreadableFileError(
                f"{folder} has no {INDEX}: it is not a cohort on disk, or its writing was not "
                "finished. Write it with `percdl.signals.write_shards`."
            )
        try:
            content = read_json((folder / INDEX).read_text(encoding="utf-8"))
            newer = content["schema"] > SCHEMA
            if not newer:
                CONTENT.check(content, "")
                _check_columns(content)
            cohort = None if newer else cls(folder, content)
        except (ValueError, KeyError, TypeError) as error:
            raise UnreadableFileError(
                f"{folder / INDEX} is damaged ({error}). Write the cohort again."
            ) from error
        if cohort is None:
            raise UnreadableFileError(
                f"{folder / INDEX} was written by a newer version of PerCDL (layout "
                f"{content['schema']}, known up to {SCHEMA}). Update percdl."
            )
        cohort.check()
        return cohort

    def check(self) -> None:
        """Raise where a shard is missing, cut short, or not the one that was written.

        Samples are not read: their checksums are compared when they are.
        """
        shared = {name: getattr(self, name) for name in SHARED}
        for shard in self.shards:
            own = slice(shard.first, shard.first + shard.count)
            people = {"subjects": self.subjects[own], "groups": self.groups[own]}
            told = shared | people | {"lengths": self.lengths[own].tolist()}
            shard.check({k: list(v) if isinstance(v, tuple) else v for k, v in told.items()})

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return len(self.channels)

    def __len__(self) -> int:
        return len(self.subjects)

    def __iter__(self) -> Iterator[Recording]:
        for shard in self.shards:
            yield from read_shard(shard.path)

    @overload
    def __getitem__(self, index: int | np.integer | str) -> Recording: ...
    @overload
    def __getitem__(self, index: slice | list | np.ndarray) -> Cohort: ...
    def __getitem__(self, index: Any) -> Any:
        """Return one recording (position or subject id) or a cohort (slice, positions, mask)."""
        if isinstance(index, str):
            if index not in self._position_of:
                raise KeyError(unknown_subject(index, self.subjects))
            return self._read(self._position_of[index])
        if isinstance(index, int | np.integer):
            return self._read(int(positions([index], len(self))[0]))
        if isinstance(index, slice):
            index = list(range(len(self))[index])
        return Cohort(self._read(int(i)) for i in positions(index, len(self)))

    def _read(self, position: int) -> Recording:
        firsts = [shard.first for shard in self.shards]
        shard = self.shards[int(np.searchsorted(firsts, position, side="right")) - 1]
        start = int(self.lengths[shard.first : position].sum())
        return Recording(
            read_rows(shard.path, start, int(self.lengths[position])),
            sfreq=self.sfreq,
            channels=self.channels,
            units=self.units,
            subject=self.subjects[position],
            group=self.groups[position],
            processing=self.processing,
        )

    def __repr__(self) -> str:
        sizes = np.unique(self.lengths)
        n_shards, plural = len(self.shards), "" if self.n_channels == 1 else "s"
        parts = [
            f"{len(self)} recording{'' if len(self) == 1 else 's'} in {n_shards} "
            f"shard{'' if n_shards == 1 else 's'}",
            f"{self.n_channels} channel{plural} ({abbreviate(self.channels)})",
            f"{self.sfreq:g} Hz",
            f"{sizes[0]} samples" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} samples",
        ]
        return f"ShardedCohort({', '.join(parts)})"


def digest_of(content: dict[str, Any]) -> str:
    """Return the SHA-256 of an index, less the one that it holds itself."""
    told = {name: value for name, value in content.items() if name != CHECKSUM}
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _check_columns(content: dict[str, Any]) -> None:
    """Raise where the index does not agree with itself."""
    if content.get(CHECKSUM, digest := digest_of(content)) != digest:
        raise ValueError("its checksum does not match its content")
    table, n_channels = content["recordings"], len(content["channels"])
    counts = {len(column) for column in table.values()}
    counts.add(sum(shard["count"] for shard in content["shards"]))
    if len(counts) > 1 or len(set(table["subject"])) != len(table["subject"]):
        raise ValueError("not one line of everything for each subject")
    if len(content["units"]) != n_channels or not set(table["masks"]) <= {0, 1, n_channels}:
        raise ValueError("units or masks of other channels")
    if len({shard["file"] for shard in content["shards"]}) != len(content["shards"]):
        raise ValueError("a shard comes twice")
