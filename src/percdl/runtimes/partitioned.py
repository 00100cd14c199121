"""A fit over the partitions of a cohort on disk, wherever their rounds run."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.exceptions import InvalidParameterError
from percdl.runtimes.partitions import Partition, Round, join_results
from percdl.runtimes.states import States
from percdl.signals import AnyCohort, ShardedCohort, write_shards
from percdl.signals.files import scratch_folder

# Recordings in memory are cut into shards of so many: it must not depend on the workers.
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
        """Let go of states that only earlier snapshots speak of."""
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
