"""Uncertainty: the rate of Theorem 1, and bands that cover as often as they say.

Cohorts of the paper with white noise: K = 2, N = 500, L = 50, D = 3, W = 10, three repetitions.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np

from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.timing import follow
from percdl import PerCDL, make_synthetic
from percdl.analysis import Uncertainty, bootstrap_atoms, estimate_uncertainty
from percdl.datasets import SyntheticCohort, atom_distance
from percdl.datasets.warping import center
from percdl.steps import percdu
from percdl.steps.statistics import segment_statistics
from percdl.steps.types import Events, Signals

NOISE, PENALTY, N_REPETITIONS = 0.05, 1.0, 3
# S p runs over two decades.
SIZES, FITTED_SIZES = (10, 32, 100, 320, 1000), (10, 32, 100, 320, 1000)
N_SEEDS, N_FITTED_SEEDS = 20, 5
COVERED, N_COVERED_SEEDS, LEVEL = 32, 40, 0.95
SLOPE, SLOPE_TOLERANCE, COVERAGE_TOLERANCE = -0.5, 0.05, 0.02


def claims() -> Iterator[Claim]:
    """Measure slopes and coverage."""
    quick = is_quick()
    yield from _rates(SIZES[:3] if quick else SIZES, 2 if quick else N_SEEDS)
    yield from _coverage(2 if quick else N_COVERED_SEEDS)


def _rates(sizes: tuple[int, ...], n_seeds: int) -> Iterator[Claim]:
    given, blind, own = [], [], []
    for n_subjects in follow(sizes, "S ="):
        data = [_cohort(n_subjects, seed) for seed in range(n_seeds)]
        given.append(np.mean([_error_given_truth(d) for d in data]))
        fits = [(_fit(d), d) for d in data[: min(N_FITTED_SEEDS, n_seeds)]]
        blind.append(np.mean([d.distance_to_truth(model.dictionary_) for model, d in fits]))
        own.append(np.mean([_error_in_own_gauge(model, d) for model, d in fits]))
    yield _near("slope of the error against S p, A and Z given", *_slope(sizes, given))
    yield _near("slope of the error against S p, whole fit, own gauge", *_slope(sizes, own))
    yield beside(
        "slope of the error against S p, whole fit", "{:.3f} ({})".format(*_slope(sizes, blind))
    )


def _slope(sizes: tuple[int, ...], errors: list[float]) -> tuple[float, str]:
    slope = np.polyfit(np.log(np.multiply(sizes, N_REPETITIONS)), np.log(errors), 1)[0]
    return float(slope), f"errors {', '.join(f'{e:.2g}' for e in errors)}"


def _near(name: str, slope: float, detail: str) -> Claim:
    holds = abs(slope - SLOPE) <= SLOPE_TOLERANCE
    target = f"{SLOPE:g} +- {SLOPE_TOLERANCE:g}"
    return Claim(name, target, f"{slope:.3f} ({detail})", bool(holds))
