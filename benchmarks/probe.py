"""What only a fresh process can tell: its peak memory, and how long its first fit takes.

``python -m benchmarks.probe memory VALUES START`` and ``python -m benchmarks.probe start N``
write one line of JSON; `peak_memory` and `first_fits` run them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def peak_memory(values: np.ndarray, start: np.ndarray, cache: Path) -> int:
    """Return the peak memory, in bytes, of a process that reads and fits recordings (S, N)."""
    paths = cache / "values.npy", cache / "start.npy"
    for path, array in zip(paths, (values, start), strict=True):
        np.save(path, array)
    return _ask(cache, "memory", *paths)["peak"]


def first_fits(n_subjects: int, cache: Path) -> dict[str, float]:
    """Return the seconds of a new process to its first fit, of that fit and of a second one."""
    return _ask(cache, "start", n_subjects)


def _ask(cache: Path, *arguments: Any) -> dict[str, Any]:
    """Run this file in a process of its own, compiled programs kept in ``cache``."""
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(cache / "compiled"),
        # As percdl does for its own cache folder.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    }
    command = [sys.executable, "-m", "benchmarks.probe", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **settings}, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def _memory(values: str, start: str) -> dict[str, Any]:
    from benchmarks.cohorts import synthetic_options
    from percdl import Cohort, PerCDL

    # The recordings are views of the one array that is read: the data are there once.
    cohort = Cohort.from_arrays(np.load(values), sfreq=100)
    PerCDL(**synthetic_options(np.load(start)), progress=False).fit(cohort)
    return {"peak": _peak_bytes()}


def _peak_bytes() -> int:
    """Return the peak memory of this process.

    Linux hands the peak of the parent on to ``ru_maxrss`` of a new program, so its own
    status file is asked first.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _start(n_subjects: str) -> dict[str, Any]:
    began = time.perf_counter()
    from benchmarks.cohorts import synthetic
    from benchmarks.timing import fit_seconds

    problem = synthetic(int(n_subjects))
    ready = time.perf_counter() - began
    return {"ready": ready, "first": fit_seconds(problem), "second": fit_seconds(problem)}


if __name__ == "__main__":
    verb = {"memory": _memory, "start": _start}[sys.argv[1]]
    print(json.dumps(verb(*sys.argv[2:])))
