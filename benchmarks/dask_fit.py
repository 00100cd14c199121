"""A fit over Dask that may be killed: ``python -m benchmarks.dask_fit ADDRESS FOLDER CHECKPOINT``.

It reads the certificates of the cluster from its standard input, pickled.

Also the pieces the claims about runtimes share: the model, a killer, and a scale for messages.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from distributed import Client

from benchmarks.cohorts import beat_options
from percdl import Algorithm, PerCDL, ShardedCohort
from percdl.estimators.checkpoint import fit_with_checkpoints
from percdl.runtimes.dask import DaskRuntime
from percdl.runtimes.partitioned import OutOfCore

ALGORITHM = Algorithm(population_rounds=2, personal_rounds=3)


def make(**changes: Any) -> PerCDL:
    """Return the model that all runtimes fit."""
    model = PerCDL(algorithm=ALGORITHM, progress=False, **beat_options())
    return model.set_params(**changes)


def kill_when(ready: Callable[[], bool], pid: int) -> None:
    """Kill a process of ours with -9 as soon as ``ready()``, from a thread."""

    def wait() -> None:
        while not ready():
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


@dataclass
class Weighed:
    """A runtime that measures its messages: those of a round to a partition, and the answers."""

    told: list[int] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)

    def host(self, *fit: Any) -> Any:
        """Make a fit ready to run out of core, between scales."""
        hosted = OutOfCore().host(*fit)
        task = len(pickle.dumps(hosted.partitions[0]))

        def weigh(round_: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def run(broadcast: Any) -> Any:
                sums = round_(broadcast)
                self.told.append(task + len(pickle.dumps(broadcast)))
                self.answered.append(len(pickle.dumps(sums)))
                return sums

            return run

        for name in ("population_round", "personal_round", "express"):
            setattr(hosted, name, weigh(getattr(hosted, name)))
        return hosted


if __name__ == "__main__":
    address, folder, checkpoint = sys.argv[1:]
    with Client(address, security=pickle.load(sys.stdin.buffer)) as client:
        cohort = ShardedCohort.open(folder)
        model = make(dtype="float64")
        fit_with_checkpoints(model, cohort, checkpoint, runtime=DaskRuntime(client))
