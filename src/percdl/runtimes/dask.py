"""The partitions of a cohort over the workers of a Dask cluster.

One task runs the whole local round of a partition: it reads the shard and the state of its
subjects, writes the new state, and returns sums; nothing else travels. Workers keep nothing, so
a task whose worker was lost is simply run again elsewhere.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from percdl import __version__
from percdl.algorithm.exchange import Broadcast, Sums, add_in_tree
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.exceptions import InvalidParameterError
from percdl.runtimes.partitioned import (
    Partition,
    PartitionedFit,
    Round,
    collect,
    load_partition,
    run_round,
)
from percdl.signals import AnyCohort
from percdl.signals.extras import require

# Dask sets the first to 64 KiB, which makes code with large temporaries twice as slow.
MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": 2**28,
    "MALLOC_MMAP_THRESHOLD_": 2**25,
    "MALLOC_ARENA_MAX": 1,
}
# What Dask does beside the tasks is for many small ones, and takes a share of the cores.
LEAN = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.scheduler.active-memory-manager.start": False,
    # Pages about tasks and logs, which are served without TLS.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class DaskRuntime:
    """A Dask cluster as the place of a fit: ``model.fit(cohort, runtime=DaskRuntime(client))``.

    Any cluster whose workers see the folder of the shards: `local_cluster`, SLURM and others by
    dask-jobqueue, Kubernetes. One partition, that is, one shard, is one task: give each worker
    several. The result depends neither on the workers nor on their number, and the loss of some
    of them is made up for.

    Parameters
    ----------
    client : distributed.Client
        Yours; it is not closed.
    folder : path, optional
        Where the states of the subjects lie during a fit, and for a cohort in memory its
        shards; all workers must see it. Beside the shards by default, and for a cohort in
        memory a temporary folder of this machine.
    retries : int, default=3
        How often a task that fails is tried again.

    Notes
    -----
    On clusters of your own, set ``distributed.nanny.pre-spawn-environ`` to `MALLOC`, start
    workers with one thread each, and let each have the cores it may use (``NPROC``).

    Cost per round: that of the model, shared by the workers, and one pass over all shards and
    states. Per partition, atoms and sums travel, O(K (L P)^2 + K^2 L) numbers at most.

    Examples
    --------
    Not run with the tests of the documentation, since it starts processes:

    >>> with local_cluster(2) as client:  # doctest: +SKIP
    ...     model.fit(ShardedCohort.open("cohort"), runtime=DaskRuntime(client))
    """

    client: Any
    folder: str | Path | None = None
    retries: int = 3

    def host(self, cohort: AnyCohort, settings: Settings, chunk_rows: int | None) -> DaskFit:
        """Make a fit ready to run on the workers."""
        versions = self.client.run(_version)
        others = {worker: v for worker, v in versions.items() if v != __version__}
        if others:
            worker, version = next(iter(others.items()))
            raise InvalidParameterError(
                f"The worker {worker} has PerCDL {version}, and this process {__version__}. "
                "Install the same version everywhere."
            )
        folder = None if self.folder is None else Path(self.folder).expanduser()
        return DaskFit(cohort, settings, chunk_rows, folder, self.client, self.retries)


class DaskFit(PartitionedFit):
    """A fit whose partitions are tasks of a cluster.

    Parameters
    ----------
    cohort, settings, chunk_rows, folder
        See `PartitionedFit`.
    client : distributed.Client
    retries : int
    """

    def __init__(
        self,
        cohort: AnyCohort,
        settings: Settings,
        chunk_rows: int | None,
        folder: Path | None,
        client: Any,
        retries: int,
    ):
        super().__init__(cohort, settings, chunk_rows, folder)
        self._client = client
        self._retries = retries

    def _run(self, round_: Round, broadcast: Broadcast) -> Sums:
        sums = [
            self._submit(
                f"percdl-{round_}", _round_of, partition, before, round_, broadcast, after
            )
            for partition, before, after in self._paths()
        ]
        return add_in_tree(sums, self._add).result()

    def _collect(self) -> list[Results]:
        return self._client.gather(
            [
                self._submit("percdl-results", _results_of, partition, before)
                for partition, before, _ in self._paths()
            ]
        )

    def _add(self, sums: Any) -> Any:
        return self._submit("percdl-add", Sums.total, list(sums))

    def _submit(self, name: str, *call: Any) -> Any:
        key = f"{name}-{uuid4().hex}"
        return self._client.submit(*call, key=key, retries=self._retries, pure=False)

    def _paths(self) -> list[tuple[Partition, Path | None, Path]]:
        return [
            (partition, self.states.before(i), self.states.after(i))
            for i, partition in enumerate(self.partitions)
        ]


def local_cluster(n_workers: int, threads: int = 1) -> Any:
    """Start workers on this machine, as PerCDL wants them.

    Use it as a context, ``with local_cluster(2) as client: ...``, and in a script below
    ``if __name__ == "__main__":``, since workers are processes of their own. They talk over TLS
    with a certificate made for this cluster and kept in memory: other accounts of the machine
    cannot connect. Cost: the start of ``n_workers`` processes.

    Parameters
    ----------
    n_workers : int
        How many processes.
    threads : int, default=1
        How many cores each of them uses.

    Returns
    -------
    distributed.Client
        To be closed by you; the workers go with it.

    Examples
    --------
    Not run with the tests of the documentation, since it starts processes:

    >>> with local_cluster(2) as client:  # doctest: +SKIP
    ...     model.fit(cohort, runtime=DaskRuntime(client))
    """
    distributed = require("distributed", "A Dask cluster", "distributed")
    dask = require("dask", "A Dask cluster", "distributed")
    require("cryptography", "A Dask cluster", "distributed")  # makes the certificate
    own = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**MALLOC, **dict.fromkeys(own, threads)}
    with dask.config.set({**LEAN, "distributed.nanny.pre-spawn-environ": environment}):
        return distributed.Client(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            security=True,  # `Security.temporary()`, for the cluster and this client alike
        )


def _round_of(
    partition: Partition, before: Path | None, round_: Round, broadcast: Broadcast, after: Path
) -> Sums:
    """Run the round of a partition on a worker."""
    with _ONE_AT_A_TIME:  # workers may have threads, which must not share the device
        return run_round(partition, load_partition(partition, before), round_, broadcast, after)


def _results_of(partition: Partition, before: Path | None) -> Results:
    with _ONE_AT_A_TIME:
        return collect(partition, load_partition(partition, before))


def _version() -> str:
    return __version__
