"""On a GPU, 21,799 records of 12 leads and 1000 samples are fitted within a second."""

from __future__ import annotations

from collections.abc import Iterator

import jax

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.cohorts import N_BEAT_RECORDS
from benchmarks.gpu import Measurement, measure, problems

# Seconds of a warm fit, on one NVIDIA H200.
MOST_SECONDS = {"plain": 0.5, "default": 1.0}


def claims() -> Iterator[Claim]:
    """Time the fits on the device that JAX finds, and their steps."""
    if jax.default_backend() == "cpu":
        raise Absent("JAX finds no GPU here")
    for problem in problems(N_BEAT_RECORDS if not is_quick() else 512):
        for found in measure(problem):
            yield from _report(found)


def _report(found: Measurement) -> Iterator[Claim]:
    name = f"{found.problem} ({found.n_recordings} records), {found.kind}"
    detail = f"{found.device}, cold {found.cold:.2f} s"
    if found.problem == "beats":
        yield at_most(f"{name}: warm fit, s", found.warm, MOST_SECONDS[found.kind], detail)
    else:
        yield beside(f"{name}: warm fit, s", f"{found.warm:.3f} ({detail})")
    shares = ", ".join(f"{step} {share:.0%}" for step, share in found.shares.items())
    yield beside(f"{name}: share of each step", shares)
