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
from unittest.mock import patch

import numpy as np

# Also as a file: ``python benchmarks/gpu.py``.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax

from benchmarks import Absent, cohorts, probe
from benchmarks.cohorts import Problem
from benchmarks.history import Figure
from benchmarks.roofline import Busy, Work, busy, peaks, work_by_step
from benchmarks.steps import NOT_COMPILED, shares
from benchmarks.timing import fit_seconds, say
from percdl.experiments.study import as_printed
from percdl.steps.compilation import forget_programs

REPEATS = 5
# On one NVIDIA H200, 21,799 records of 12 leads: seconds of a warm fit; share of a fit outside the
# compiled programs; seconds that the first fit of a new process takes beyond a warm one when the
# programs are stored.
MOST_SECONDS = {"plain": 0.2, "default": 0.45}
MOST_OUTSIDE = 0.25
MOST_BEYOND_WARM = 3.0
NO_GPU = "JAX finds no GPU here"
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
        """Time of the work at the device's peaks: for each step, that of the limiting one."""
        top = peaks()
        return sum(max(w.flops / top.flops, w.bytes / top.bytes) for w in self.work.values())


def is_there() -> bool:
    """Whether JAX finds a GPU."""
    return jax.default_backend() != "cpu"


def figures_of(found: Measurement) -> Iterator[Figure]:
    """Yield the figures that have a target."""
    name = f"{found.problem} ({found.n_recordings} records), {found.kind}"
    most, cold = MOST_SECONDS[found.kind], f"cold {found.cold:.2f} s"
    yield Figure(f"{name}: warm fit", found.warm, most, cold, "s")
    steps = ", ".join(f"{step} {share:.0%}" for step, share in found.shares.items())
    yield Figure(f"{name}: outside programs / fit", found.outside, MOST_OUTSIDE, steps)


def first_fit() -> Figure:
    """Time the first fit of a new process whose programs another process has stored."""
    with tempfile.TemporaryDirectory() as folder:
        probe.first_fits("beats", Path(folder))
        stored = probe.first_fits("beats", Path(folder))
    name = f"beats ({cohorts.N_BEAT_RECORDS} records), default: first fit beyond warm"
    detail = f"programs stored; {stored['first']:.2f} s, warm {stored['warm']:.2f} s"
    return Figure(name, stored["first"] - stored["warm"], MOST_BEYOND_WARM, detail, "s")


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
    for kind, changes in (("plain", as_printed()), ("default", {})):
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
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, probe.empty_caches(Path(folder))),
    ):
        forget_programs()
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
