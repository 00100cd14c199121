"""Fits of a cohort on disk: partitions, the state of their subjects, and `OutOfCore`.

A partition is a shard and, in another file, the state of its subjects. Out of core, one partition
follows the other in this process; the next is read while the device computes.
"""

from __future__ import annotations

import tempfile
from abc import abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums, add_in_tree
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.exceptions import InvalidParameterError
from percdl.runtimes.in_process import InProcess
from percdl.runtimes.protocol import HostedFit, Place
from percdl.runtimes.states import Arrays, States, read_state, write_state
from percdl.signals import AnyCohort, Cohort, ShardedCohort, write_shards
from percdl.signals.files import scratch_folder
from percdl.signals.shards import Shard

# Recordings per shard of a cohort in memory; independent of the number of workers.
ROWS_PER_SHARD = 256
SHARDS = "shards"
# Recordings of a partition, and their state unless it is the first round.
Loaded = tuple[Cohort, Arrays | None]


@dataclass(frozen=True)
class Partition:
    """A shard and the options of `InProcess`; small enough to be sent to a worker."""

    shard: Shard
    settings: Settings
    n_masks: int

    def load(self, before: Path | None) -> Loaded:
        """Read recordings and state. This does not use the device: another thread may do it."""
        return Cohort(self.shard.read()), None if before is None else read_state(before)

    def run(self, loaded: Loaded, kind: str, broadcast: Broadcast, after: Path) -> Sums:
        """Run the local half of a round, write the new state, return the sums."""
        site = self._site(loaded)
        sums = site.run_round(kind, broadcast)
        write_state(after, site.snapshot())
        return sums

    def collect(self, loaded: Loaded) -> Results:
        """Return the results of the subjects."""
        return self._site(loaded).results()

    def _site(self, loaded: Loaded) -> InProcess:
        cohort, state = loaded
        site = InProcess(cohort, self.settings, self.settings.chunk_rows, self.n_masks)
        if state is not None:
            site.restore(state)
        return site


def join_results(parts: list[Results]) -> Results:
    """Join the results of partitions, in their order."""
    names = [field.name for field in fields(Results)]
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    firsts = np.cumsum([0, *(len(part.params) for part in parts[:-1])])
    joined["subject"] += np.repeat(firsts, [len(part.subject) for part in parts])
    return Results(**joined)


class PartitionedFit(HostedFit):
    """A fit in which a round runs each partition from its state on disk, and adds the sums.

    A cohort in memory is written to disk first. The states go to ``folder``, by default beside the
    shards, or to a temporary folder for a cohort in memory. All workers must have access to it.
    """

    def __init__(self, cohort: AnyCohort, settings: Settings, folder: str | Path | None):
        self._has_begun = False
        beside = cohort.folder if isinstance(cohort, ShardedCohort) else tempfile.gettempdir()
        place = Path(beside if folder is None else folder).expanduser().resolve()
        with ExitStack() as scratch:
            try:
                if not isinstance(cohort, ShardedCohort):
                    place.mkdir(parents=True, exist_ok=True)
                    shards = scratch.enter_context(scratch_folder(place, SHARDS))
                    cohort = write_shards(cohort, shards, recordings_per_shard=ROWS_PER_SHARD)
                self.states = States(place, len(cohort.shards))
            except OSError as error:
                raise InvalidParameterError(
                    f"The state of the subjects cannot be written to {place} "
                    f"({error.strerror or error}). Name another folder, e.g. "
                    "`runtime=OutOfCore(folder=...)`."
                ) from error
            self._scratch = scratch.pop_all()
        self.partitions = [Partition(shard, settings, cohort.n_masks) for shard in cohort.shards]

    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Run a round of all partitions; return the sums."""
        if not self._has_begun:
            self._has_begun = True
            self.states.sweep_others()  # the states to continue from are locked now
        sums = self._run(kind, broadcast)
        self.states.advance()
        return sums

    def results(self) -> Results:
        """Return the results of each subject, in the order of the cohort."""
        return join_results(self._collect())

    def snapshot(self, reader: Path) -> Arrays:
        """Return where the states are."""
        return self.states.snapshot(reader)

    def settle(self) -> None:
        """Delete states that only earlier snapshots refer to."""
        self.states.settle()

    def restore(self, arrays: Arrays) -> None:
        """Go back to the states of a snapshot."""
        self.states.restore(arrays)

    def close(self, keep: bool = False) -> None:
        """Delete the files of the fit, except those that a snapshot may need."""
        self.states.close(keep)
        self.states.sweep_others()  # a fit that had ended already has run no round
        self._scratch.close()

    @abstractmethod
    def _run(self, kind: str, broadcast: Broadcast) -> Sums:
        """Run a round of all partitions from ``states.before`` to ``after``; add the sums up."""

    @abstractmethod
    def _collect(self) -> list[Results]:
        """Return the results of all partitions."""


@dataclass(frozen=True)
class OutOfCore:
    """Fits with recordings on disk: memory holds two shards, and never all states.

    The default for a `ShardedCohort`; pass it to choose the folder of states. Cost per round:
    that of the model, and one pass over all shards and states, O(S N P), read while the device
    computes.

    Parameters
    ----------
    folder : path, optional
        Folder of the subjects' states during a fit, about a tenth of the recordings for one atom;
        beside the shards by default.

    Examples
    --------
    >>> OutOfCore(folder="/scratch")
    OutOfCore(folder='/scratch')
    """

    folder: str | Path | None = None

    def host(self, cohort: AnyCohort, settings: Settings) -> OutOfCoreFit:
        """Make a fit ready to run here."""
        return OutOfCoreFit(cohort, settings, self.folder)


class OutOfCoreFit(PartitionedFit):
    """A fit over the shards of a cohort, one by one."""

    def _run(self, kind: str, broadcast: Broadcast) -> Sums:
        sums = [
            self.partitions[i].run(loaded, kind, broadcast, self.states.after(i))
            for i, loaded in self._read_ahead()
        ]
        return add_in_tree(sums, Sums.total)

    def _collect(self) -> list[Results]:
        return [self.partitions[i].collect(loaded) for i, loaded in self._read_ahead()]

    def _read_ahead(self) -> Iterator[tuple[int, Loaded]]:
        """Yield partitions as they are on disk; a thread reads the next one meanwhile."""

        def load(i: int) -> Loaded:
            return self.partitions[i].load(self.states.before(i))

        with ThreadPoolExecutor(1, "percdl-read") as reader:
            coming = reader.submit(load, 0)
            for i in range(len(self.partitions)):
                loaded = coming.result()
                if i + 1 < len(self.partitions):
                    coming = reader.submit(load, i + 1)
                yield i, loaded


def host_fit(place: Place | None, cohort: AnyCohort, settings: Settings) -> HostedFit:
    """Prepare a fit at a runtime, or else in this process, in memory or shard by shard."""
    if place is not None:
        return place.host(cohort, settings)
    if isinstance(cohort, ShardedCohort):
        return OutOfCore().host(cohort, settings)
    return InProcess(cohort, settings, settings.chunk_rows)


def check_place(place: object) -> None:
    """Raise if the argument ``runtime`` is not a runtime."""
    if place is not None and not isinstance(place, Place):
        raise InvalidParameterError(
            f"`runtime={place!r}` is not a runtime. Pass `DaskRuntime(client)`, "
            "`OutOfCore(folder)`, or leave it out to run in this process."
        )
