"""Fits on an accelerator: cold, warm, and the share of each step.

``python benchmarks/gpu.py [--quick] [N]`` measures N synthetic 12-lead records (21,799), and
the real gait and ECG recordings where ``PERCDL_DATA`` holds them. It needs nothing but the
packages a fit needs, prints a table, and writes ``gpu.json`` into the folder ``OUT`` if set.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

# Also as a file: ``python benchmarks/gpu.py``.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax

from benchmarks import Absent, cohorts
from benchmarks.cohorts import Problem
from benchmarks.steps import shares
from benchmarks.timing import fit_seconds, say
from percdl.experiments.studies.as_printed import PLAIN

REPEATS = 5
COLUMNS = "{:<8} {:>8} {:<8} {:>8} {:>8}  {}"


@dataclass(frozen=True)
class Measurement:
    """A problem, fitted the plain or the default way: seconds, and shares of the steps."""

    problem: str
    n_recordings: int
    kind: str
    device: str
    cold: float
    warm: float
    warm_all: list[float]
    shares: dict[str, float]


def problems(n_beats: int) -> Iterator[Problem]:
    """Yield the cohorts that are here; the synthetic one always is."""
    for load in (cohorts.gait, cohorts.ecg):
        try:
            yield load()
        except Absent as reason:
            say(f"{load.__name__}: skipped, {reason}")
    yield cohorts.beats(n_beats)


def measure(problem: Problem) -> Iterator[Measurement]:
    """Fit a problem both ways."""
    for kind, changes in (("plain", PLAIN), ("default", {})):
        say(f"{problem.name}, {kind}: {len(problem.cohort)} recordings")
        _forget_programs()
        cold = fit_seconds(problem, **changes)
        warm = [fit_seconds(problem, **changes) for _ in range(REPEATS)]
        model = problem.model(**changes)
        yield Measurement(
            problem.name,
            len(problem.cohort),
            kind,
            jax.devices()[0].device_kind,
            cold,
            float(np.median(warm)),
            warm,
            shares(lambda: model.fit(problem.cohort)),  # noqa: B023  (called at once)
        )


def _forget_programs() -> None:
    """Make the next fit a cold one: no compiled program in memory, none read from disk."""
    os.environ["PERCDL_NO_CACHE"] = "1"
    jax.config.update("jax_enable_compilation_cache", False)
    jax.clear_caches()


def _row(found: Measurement) -> str:
    steps = ", ".join(f"{name} {share:.0%}" for name, share in found.shares.items())
    seconds = (f"{found.cold:.2f}", f"{found.warm:.3f}")
    return COLUMNS.format(found.problem, found.n_recordings, found.kind, *seconds, steps)


def main(arguments: list[str]) -> None:
    """Measure everything, print and store it."""
    counts = [int(argument) for argument in arguments if argument.isdigit()]
    n_beats = counts[0] if counts else 256 if "--quick" in arguments else cohorts.N_BEAT_RECORDS
    jax.block_until_ready(jax.numpy.zeros(1))  # the device wakes up before anything is timed
    print(f"device: {jax.devices()[0].device_kind}, JAX {jax.__version__}")
    print(COLUMNS.format("cohort", "records", "kind", "cold, s", "warm, s", "share of each step"))
    found = []
    for problem in problems(n_beats):
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
