"""One fit from shards in a process of its own: ``python -m benchmarks.shard_fit FOLDER``.

Prints seconds, the peak of the resident memory and the objective, as one line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

from benchmarks.cohorts import beat_options
from percdl import PerCDL, ShardedCohort

# The programs are the same for any number of records, so that few suffice to compile them.
N_WARM_UP = 1024
ROUNDS = {"n_init": 2, "n_perso": 2}


def measure(folder: str) -> dict[str, Any]:
    """Fit twice, a few records to compile and then all of them; return what it took."""
    cohort = ShardedCohort.open(folder)
    options = {**beat_options(), **ROUNDS, "progress": False}
    PerCDL(**options).fit(cohort[:N_WARM_UP])
    began = time.perf_counter()
    model = PerCDL(**options).fit(cohort)
    return {
        "seconds": time.perf_counter() - began,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "objective": model.objective_,
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
