"""One fit from shards in a separate process: ``shard_fit FOLDER [--memory]``.

Prints seconds, processor time, the peak of the resident memory, the size of the subjects' states
and the objective, as one line of JSON; with ``--memory``, also what a fit in memory takes.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.cohorts import beat_options
from percdl import Algorithm, Cohort, PerCDL, ShardedCohort
from percdl.estimators.checkpoint import fit_with_checkpoints

# The programs are the same for any number of records, so that few suffice to compile them.
N_WARM_UP = 1024
ALGORITHM = Algorithm(population_rounds=2, personal_rounds=2)


def measure(folder: str, also_in_memory: bool) -> dict[str, Any]:
    """Fit twice, a few records to compile and then all of them; return what it took."""
    cohort = ShardedCohort.open(folder)
    options = {**beat_options(), "algorithm": ALGORITHM, "progress": False}
    PerCDL(**options).fit(cohort[:N_WARM_UP])
    states: list[int] = []

    def weigh(*round_: Any) -> None:
        states.append(sum(path.stat().st_size for path in Path(folder).glob("state-*/*/*")))

    began, worked = time.perf_counter(), time.process_time()
    model = fit_with_checkpoints(PerCDL(**options), cohort, None, report=weigh)
    found = {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - worked,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "state_bytes": max(states),
        "objective": model.objective_,
    }
    if also_in_memory:
        records = Cohort(cohort)
        worked = time.process_time()
        PerCDL(**options).fit(records)
        found["memory_cpu_seconds"] = time.process_time() - worked
    return found


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], "--memory" in sys.argv)))
