"""Fits on an accelerator: cold, warm, and the share of each step.

``python benchmarks/gpu.py [--quick] [N ...]`` measures N synthetic 12-lead records (21,799), and
the real gait and ECG recordings where ``PERCDL_DATA`` holds them. It needs nothing but the
packages a fit needs, prints a table, and writes ``gpu.json`` into the folder ``OUT`` if set.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Also as a file: ``python benchmarks/gpu.py``.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax
from jax.experimental.compilation_cache import compilation_cache

from benchmarks import Absent, cohorts
from benchmarks.cohorts import Problem
from benchmarks.roofline import Busy, Work, busy, peaks, work_by_step
from benchmarks.steps import NOT_COMPILED, shares
from benchmarks.timing import fit_seconds, say
from percdl.experiments.studies.as_printed import PLAIN

REPEATS = 5
COLUMNS = "{:<8} {:>8} {:<8} {:>8} {:>8} {:>6}  {}"


@dataclass(frozen=True)
class Measurement:
    """A problem, fitted the plain or the default way.

    Seconds; the share of each step; how the device was used; what the programs of each step do.
    """

    problem: str
    n_recordings: int
    kind: str
    device: str
    cold: float
    warm: float
    warm_all: list[float]
    shares: dict[str, float]
    use: Busy
    work: dict[str, Work]

    @property
    def outside(self) -> float:
        """The share of a fit outside the compiled programs."""
        return sum(share for step, share in self.shares.items() if step in NOT_COMPILED)

    @property
    def least_seconds(self) -> float:
        """What the work would take at the device's peaks, whichever of them bounds each step."""
        top = peaks()
        return sum(max(w.flops / top.flops, w.bytes / top.bytes) for w in self.work.values())


def problems(*n_beats: int) -> Iterator[Problem]:
    """Yield the cohorts that are here; the synthetic ones always are."""
    for load in (cohorts.gait, cohorts.ecg):
        try:
            yield load()
        except Absent as reason:
            say(f"{load.__name__}: skipped, {reason}")
    yield from map(cohorts.beats, n_beats)


def measure(problem: Problem) -> Iterator[Measurement]:
    """Fit a problem both ways."""
    for kind, changes in (("plain", PLAIN), ("default", {})):
        say(f"{problem.name}, {kind}: {len(problem.cohort)} recordings")
        with _nothing_compiled():
            yield _measure(problem, kind, changes)


def _measure(problem: Problem, kind: str, changes: dict[str, Any]) -> Measurement:
    cold = fit_seconds(problem, **changes)
    warm = [fit_seconds(problem, **changes) for _ in range(REPEATS)]
    model = problem.model(**changes)
    looks = (look(lambda: model.fit(problem.cohort)) for look in (shares, busy, work_by_step))
    device = jax.devices()[0].device_kind
    size = len(problem.cohort)
    return Measurement(
        problem.name, size, kind, device, cold, float(np.median(warm)), warm, *looks
    )


@contextmanager
def _nothing_compiled() -> Iterator[None]:
    """Make the next fit a cold one: no program in memory, and none on disk but what it writes."""
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        compilation_cache.reset_cache()
        jax.clear_caches()
        yield


def _row(found: Measurement) -> str:
    steps = ", ".join(f"{name} {share:.0%}" for name, share in found.shares.items())
    seconds = (f"{found.cold:.2f}", f"{found.warm:.3f}", f"{found.use.share:.0%}")
    return COLUMNS.format(found.problem, found.n_recordings, found.kind, *seconds, steps)


def main(arguments: list[str]) -> None:
    """Measure everything, print and store it."""
    counts = [int(argument) for argument in arguments if argument.isdigit()]
    n_beats = counts or [256 if "--quick" in arguments else cohorts.N_BEAT_RECORDS]
    jax.block_until_ready(jax.numpy.zeros(1))  # the device wakes up before anything is timed
    print(f"device: {jax.devices()[0].device_kind}, JAX {jax.__version__}")
    print(
        COLUMNS.format(
            "cohort", "records", "kind", "cold, s", "warm, s", "busy", "share of each step"
        )
    )
    found = []
    for problem in problems(*n_beats):
        for measurement in measure(problem):
            print(_row(measurement), flush=True)
            found.append(asdict(measurement))
            _store(found)


def _store(found: list[dict]) -> None:
    """Write what has been measured so far, so that an interrupted run leaves something."""
    if folder := os.environ.get("OUT"):
        (Path(folder) / "gpu.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
