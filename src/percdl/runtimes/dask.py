"""The partitions of a cohort over the workers of a Dask cluster.

One task runs the whole local round of a partition: it reads the shard and the state of its
subjects, writes the new state, and returns sums. Workers are stateless: a task
of a lost worker is run again elsewhere.
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
from percdl.runtimes.partitioned import Partition, PartitionedFit
from percdl.signals import AnyCohort
from percdl.signals.extras import require

# Dask sets the first to 64 KiB, which makes code with large temporaries twice as slow.
MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": 2**28,
    "MALLOC_MMAP_THRESHOLD_": 2**25,
    "MALLOC_ARENA_MAX": 1,
}
# Dask's services for many small tasks take a share of the cores.
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

    The workers must see the folder of the shards. Clusters: `local_cluster`, SLURM and others by
    dask-jobqueue, Kubernetes. One shard is one task, so give each worker several. The result
    depends neither on the workers nor on their number, and survives the loss of some of them.

    Parameters
    ----------
    client : distributed.Client
        Yours; it is not closed.
    folder : path, optional
        Folder of the subjects' states during a fit and, for a cohort in memory, of its shards;
        all workers must see it. Beside the shards by default, and for a cohort in memory a
        temporary folder of this machine.
    retries : int, default=3
        How often a task that fails is tried again.

    Notes
    -----
    On your own clusters, set ``distributed.nanny.pre-spawn-environ`` to `MALLOC`, start workers
    with one thread each, and set the number of cores that each may use (``NPROC``).

    Cost per round: that of the model, shared by the workers, and one pass over all shards and
    states. Per partition, atoms and sums travel, O(K (L P)^2 + K^2 L) numbers at most.

    Examples
    --------
    >>> with local_cluster(2) as client:  # doctest: +SKIP
    ...     model.fit(ShardedCohort.open("cohort"), runtime=DaskRuntime(client))
    """

    client: Any
    folder: str | Path | None = None
    retries: int = 3

    def host(self, cohort: AnyCohort, settings: Settings) -> DaskFit:
        """Make a fit ready to run on the workers."""
        for worker, version in self.client.run(_version).items():
            if version != __version__:
                raise InvalidParameterError(
                    f"The worker {worker} has PerCDL {version}, and this process {__version__}. "
                    "Install the same version everywhere."
                )
        fit = DaskFit(cohort, settings, self.folder)
        fit.runtime = self
        return fit


class DaskFit(PartitionedFit):
    """A fit with one task per partition."""

    runtime: DaskRuntime

    def _run(self, kind: str, broadcast: Broadcast) -> Sums:
        states = self.states
        sums = [
            self._submit(_round_of, partition, states.before(i), kind, broadcast, states.after(i))
            for i, partition in enumerate(self.partitions)
        ]
        return add_in_tree(sums, lambda parts: self._submit(Sums.total, list(parts))).result()

    def _collect(self) -> list[Results]:
        parts = enumerate(self.partitions)
        tasks = [self._submit(_results_of, part, self.states.before(i)) for i, part in parts]
        return self.runtime.client.gather(tasks)

    def _submit(self, *call: Any) -> Any:
        key = f"percdl-{call[0].__name__.strip('_')}-{uuid4().hex}"
        options = {"key": key, "retries": self.runtime.retries, "pure": False}
        return self.runtime.client.submit(*call, **options)


def local_cluster(n_workers: int, threads: int = 1) -> Any:
    """Start workers on this machine, with suitable options.

    Use it as a context, ``with local_cluster(2) as client: ...``, and in a script below
    ``if __name__ == "__main__":``, since workers are separate processes. They communicate over
    TLS with a certificate made for this cluster and kept in memory, so other accounts of the
    machine cannot connect. Cost: the start of ``n_workers`` processes.

    Parameters
    ----------
    n_workers, threads : int
        Number of processes, and of cores that each of them uses.

    Returns
    -------
    distributed.Client
        Close it to end the workers.

    Examples
    --------
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
    partition: Partition, before: Path | None, kind: str, broadcast: Broadcast, after: Path
) -> Sums:
    """Run the round of a partition on a worker."""
    with _ONE_AT_A_TIME:  # workers may have threads, which must not share the device
        return partition.run(partition.load(before), kind, broadcast, after)


def _results_of(partition: Partition, before: Path | None) -> Results:
    with _ONE_AT_A_TIME:
        return partition.collect(partition.load(before))


def _version() -> str:
    return __version__
