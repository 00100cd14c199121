"""Measurements in a fresh process: the memory of a fit, and the time of the first one.

``python -m benchmarks.probe memory VALUES START`` and ``python -m benchmarks.probe start EXAMPLE``
write one line of JSON; `fit_memory` and `first_fits` run them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# More than the few with separate blocks: the programs of any larger fit are compiled.
N_WARM = 84
N_REPEATS = 5
# The event of JAX when a program is compiled, or read from its cache.
COMPILED = "/jax/core/compile/backend_compile_duration"


def fit_memory(values: np.ndarray, start: np.ndarray, folder: Path) -> int:
    """Return the bytes that a fit of recordings (S, N) needs at its peak beyond the data.

    Asked of a process that has read the data and fitted `N_WARM` of them, so that neither the
    libraries nor the compilation count; what the fit keeps for each subject does.
    """
    paths = folder / "values.npy", folder / "start.npy"
    for path, array in zip(paths, (values, start), strict=True):
        np.save(path, array)
    return _ask(folder, "memory", *paths)["bytes"]


def first_fits(example: str, folder: Path) -> dict[str, float]:
    """Return what a new process needs for an example of `cohorts.EXAMPLES`.

    Seconds of its first fit, of a warm fit, and of the first `personalize` of two other people;
    ``programs``, the number of programs that the latter compiles. Imports are not counted.
    """
    return _ask(folder, "start", example)


def empty_caches(folder: Path) -> dict[str, str]:
    """Return environment variables with which compiled programs are kept in a folder only."""
    return {"PERCDL_CACHE_DIR": str(folder)}


def can_measure_memory() -> bool:
    """Whether the system reports the peak memory of a part of a process (Linux does)."""
    return STATUS.is_file() and os.access(RESET, os.W_OK)


def _ask(folder: Path, *arguments: Any) -> dict[str, Any]:
    """Run this file in a separate process, with compiled programs kept in ``folder``."""
    settings = empty_caches(folder / "compiled")
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
    model = PerCDL(progress=False, **synthetic_options(np.load(start)))
    model.fit(cohort[:N_WARM])
    RESET.write_text("5")  # the peak is from here on
    before = _status("VmRSS")
    model.fit(cohort)
    return {"bytes": _status("VmHWM") - before}


def _status(name: str) -> int:
    """Return an entry of this process's status, in bytes."""
    row = next(row for row in STATUS.read_text().splitlines() if row.startswith(name))
    return 1024 * int(row.split()[1])


def _start(example: str) -> dict[str, Any]:
    import jax

    from benchmarks.cohorts import EXAMPLES
    from benchmarks.timing import fit_seconds, seconds

    # A first fit imports these otherwise.
    for name in ("percdl.estimators", "percdl.runtimes.in_process"):
        import_module(name)
    jax.devices()
    problem, others = EXAMPLES[example]()
    first = fit_seconds(problem)
    warm = [fit_seconds(problem) for _ in range(N_REPEATS)]
    model = problem.model().fit(problem.cohort)
    events = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    personalize = seconds(lambda: model.personalize(others))
    return {
        "first": first,
        "warm": float(np.median(warm)),
        "personalize": personalize,
        "programs": events.count(COMPILED),
    }


if __name__ == "__main__":
    verb = {"memory": _memory, "start": _start}[sys.argv[1]]
    print(json.dumps(verb(*sys.argv[2:])))
