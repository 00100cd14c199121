"""One partition after the other in this process; the next is read while the device computes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from percdl.algorithm.exchange import Broadcast, Sums, add_in_tree
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.runtimes.partitioned import PartitionedFit
from percdl.runtimes.partitions import Loaded, Round, collect, load_partition, run_round
from percdl.signals import AnyCohort


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
