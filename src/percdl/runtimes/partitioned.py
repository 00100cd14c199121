"""Fits of a cohort on disk: partitions, the state of their subjects, and `OutOfCore`.

A partition is a shard and, in another file, the state of its subjects. Out of core, one partition
follows the other in this process; the next is read while the device computes.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums, add_in_tree
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.exceptions import InvalidParameterError
from percdl.runtimes.in_process import InProcess
from percdl.runtimes.states import Arrays, States, read_state, write_state
from percdl.signals import AnyCohort, Cohort, Recording, ShardedCohort, write_shards
from percdl.signals.files import scratch_folder
from percdl.signals.shards import Shard

Round = Literal["population_round", "personal_round", "recenter"]


@dataclass(frozen=True)
class Partition:
    """Where the recordings are and how they are worked on; small enough to be sent around.

    Attributes
    ----------
    shard : Shard
        The recordings.
    settings, chunk_rows, n_masks
        See `InProcess`.
    """

    shard: Shard
    settings: Settings
    chunk_rows: int | None
    n_masks: int


class Loaded(NamedTuple):
    """What a round needs from disk: recordings, and their state unless it is the first round."""

    recordings: list[Recording]
    state: Arrays | None


def load_partition(partition: Partition, before: Path | None) -> Loaded:
    """Read recordings and state. Nothing here touches the device: another thread may do it."""
    state = None if before is None else read_state(before)
    return Loaded(partition.shard.read(), state)


def run_round(
    partition: Partition, loaded: Loaded, round_: Round, broadcast: Broadcast, after: Path
) -> Sums:
    """Run the local half of a round, write the new state, return the sums."""
    site = _site(partition, loaded)
    sums = getattr(site, round_)(broadcast)
    write_state(after, site.snapshot())
    return sums


def collect(partition: Partition, loaded: Loaded) -> Results:
    """Return what was learned of the subjects."""
    return _site(partition, loaded).results()


def join_results(parts: list[Results]) -> Results:
    """Put the results of partitions together, in their order."""
    firsts = np.cumsum([0, *(len(part.params) for part in parts)])
    shifted = [part.subject + first for part, first in zip(parts, firsts, strict=False)]
    names = ("params", "counts", "onset", "atom", "amplitude", "error")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Results(subject=np.concatenate(shifted), **joined)


def _site(partition: Partition, loaded: Loaded) -> InProcess:
    cohort = Cohort(loaded.recordings)
    site = InProcess(cohort, partition.settings, partition.chunk_rows, partition.n_masks)
    if loaded.state is not None:
        site.restore(loaded.state)
    return site


# Recordings per shard of a cohort in memory; independent of the number of workers.
ROWS_PER_SHARD = 256
SHARDS = "shards"


class PartitionedFit(ABC):
    """A round is a round of each partition, from its state on disk to the next, and a sum.

    Parameters
    ----------
    cohort : ShardedCohort or Cohort
        A cohort in memory is written to disk first.
    settings, chunk_rows
        See `InProcess`.
    folder : Path, optional
        Where the states go: beside the shards by default, or in a temporary folder for a cohort
        in memory. All who run rounds must see it.
    """

    def __init__(
        self,
        cohort: AnyCohort,
        settings: Settings,
        chunk_rows: int | None,
        folder: Path | None,
    ):
        self._has_begun = False
        if folder is None:
            is_on_disk = isinstance(cohort, ShardedCohort)
            folder = cohort.folder if is_on_disk else Path(tempfile.gettempdir())
        folder = folder.resolve()
        with ExitStack() as scratch:
            try:
                cohort = _on_disk(cohort, folder, scratch)
                self.states = States.create(folder, len(cohort.shards))
            except OSError as error:
                raise InvalidParameterError(
                    f"The state of the subjects cannot be written to {folder} "
                    f"({error.strerror or error}). Name another folder, e.g. "
                    "`runtime=OutOfCore(folder=...)`."
                ) from error
            self._scratch = scratch.pop_all()
        self.partitions = [
            Partition(shard, settings, chunk_rows, cohort.n_masks) for shard in cohort.shards
        ]

    def population_round(self, broadcast: Broadcast) -> Sums:
        """Run CSC with the common atoms everywhere; return the sums."""
        return self._round("population_round", broadcast)

    def personal_round(self, broadcast: Broadcast) -> Sums:
        """Run IPU and CSC everywhere; return the sums."""
        return self._round("personal_round", broadcast)

    def recenter(self, broadcast: Broadcast) -> Sums:
        """Express all by the centred dictionary, fit parameters once more; return the sums."""
        return self._round("recenter", broadcast)

    def results(self) -> Results:
        """Return what was learned of each subject, in the order of the cohort."""
        return join_results(self._collect())

    def snapshot(self, reader: Path) -> dict[str, np.ndarray]:
        """Return where the states are."""
        return self.states.snapshot(reader)

    def settle(self) -> None:
        """Delete states that only earlier snapshots refer to."""
        self.states.settle()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to the states of a snapshot."""
        self.states.restore(arrays)

    def close(self, keep: bool = False) -> None:
        """Delete what the fit has written, except that a snapshot may need it."""
        self.states.close(keep)
        self.states.sweep_others()  # a fit that had ended already has run no round
        self._scratch.close()

    def _round(self, round_: Round, broadcast: Broadcast) -> Sums:
        if not self._has_begun:
            self._has_begun = True
            self.states.sweep_others()  # now that those to go on from are held
        sums = self._run(round_, broadcast)
        self.states.advance()
        return sums

    @abstractmethod
    def _run(self, round_: Round, broadcast: Broadcast) -> Sums:
        """Run a round of all partitions from ``states.before`` to ``after``; add the sums up."""

    @abstractmethod
    def _collect(self) -> list[Results]:
        """Return the results of all partitions."""


def _on_disk(cohort: AnyCohort, folder: Path, scratch: ExitStack) -> ShardedCohort:
    """Write a cohort in memory to disk, for the time of a fit."""
    if isinstance(cohort, ShardedCohort):
        return cohort
    folder.mkdir(parents=True, exist_ok=True)
    shards = scratch.enter_context(scratch_folder(folder, SHARDS))
    return write_shards(cohort, shards, recordings_per_shard=ROWS_PER_SHARD)


@dataclass(frozen=True)
class OutOfCore:
    """Fits whose recordings stay on disk: memory holds two shards, and never all states.

    The default for a `ShardedCohort`; name it to say where states go. Cost per round: that of the
    model, and one pass over all shards and states, O(S N P), read while the device computes.

    Parameters
    ----------
    folder : path, optional
        Where the states of the subjects lie during a fit, about a tenth of the recordings for
        one atom; beside the shards by default.

    Examples
    --------
    >>> OutOfCore(folder="/scratch")
    OutOfCore(folder='/scratch')
    """

    folder: str | Path | None = None

    def host(self, cohort: AnyCohort, settings: Settings, chunk_rows: int | None) -> OutOfCoreFit:
        """Make a fit ready to run here."""
        folder = None if self.folder is None else Path(self.folder).expanduser()
        return OutOfCoreFit(cohort, settings, chunk_rows, folder)


class OutOfCoreFit(PartitionedFit):
    """A fit over the shards of a cohort, one by one."""

    def _run(self, round_: Round, broadcast: Broadcast) -> Sums:
        sums = [
            run_round(self.partitions[i], loaded, round_, broadcast, self.states.after(i))
            for i, loaded in self._read_ahead()
        ]
        return add_in_tree(sums, Sums.total)

    def _collect(self) -> list[Results]:
        return [collect(self.partitions[i], loaded) for i, loaded in self._read_ahead()]

    def _read_ahead(self) -> Iterator[tuple[int, Loaded]]:
        """Yield what is on disk, partition by partition; a thread reads the next meanwhile."""
        with ThreadPoolExecutor(1, "percdl-read") as reader:
            coming = reader.submit(self._load, 0)
            for i in range(len(self.partitions)):
                loaded = coming.result()
                if i + 1 < len(self.partitions):
                    coming = reader.submit(self._load, i + 1)
                yield i, loaded

    def _load(self, i: int) -> Loaded:
        return load_partition(self.partitions[i], self.states.before(i))
