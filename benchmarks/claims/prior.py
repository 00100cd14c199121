"""The prior on warps: atoms under noise, small cohorts, persons that reproduce.

Library defaults with the true number and length of atoms, ten seeds. Cohorts are the paper's
(three repetitions per pattern) with Gaussian noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.timing import follow
from percdl import PerCDL, TimeWarp, make_synthetic
from percdl.datasets import SyntheticCohort

SIZES, N_SEEDS, LENGTH = (64, 256, 1024), 10, 50
MOST_FLOORS = {0.0: 1.15, 0.05: 1.3, 0.1: 1.5, 0.2: None}
STEEPEST = -0.4
SMALL, SMALL_NOISE, MOST_OF_NONE = (4, 8, 16), 0.1, 0.8
SAME_WARP = 0.05


def claims() -> Iterator[Claim]:
    """Fit all cohorts."""
    seeds = range(100, 101 if is_quick() else 100 + N_SEEDS)
    sizes = SIZES[:1] if is_quick() else SIZES
    for noise, most in MOST_FLOORS.items():
        distances = []
        for n_subjects in sizes:
            cohorts = [_cohort(n_subjects, noise, seed) for seed in seeds]
            followed = follow(range(len(cohorts)), f"noise {noise}, S = {n_subjects}, cohort")
            found = np.mean([_distance(cohorts[i]) for i in followed])
            floor = np.mean([cohort.gauge_floor() for cohort in cohorts])
            distances.append(found)
            label, detail = (
                f"noise {noise}, S = {n_subjects}: distance / gauge floor",
                f"{found:.4f}",
            )
            if most is None:
                yield beside(label, f"{found / floor:.3g} ({detail})")
            else:
                yield at_most(label, found / floor, most, detail)
        if len(sizes) > 1:
            slope = np.polyfit(np.log(sizes), np.log(distances), 1)[0]
            yield at_most(f"noise {noise}: exponent of the distance in S", slope, STEEPEST)
    for n_subjects in SMALL[:1] if is_quick() else SMALL:
        cohorts = [_cohort(n_subjects, SMALL_NOISE, seed) for seed in seeds]
        ours, none = (
            np.mean([_distance(cohort, prior=prior) for cohort in cohorts])
            for prior in ("estimated", None)
        )
        detail = f"{ours:.4f} / {none:.4f}"
        label = f"noise {SMALL_NOISE}, S = {n_subjects}: distance / that of prior=None"
        yield at_most(label, ours / none, MOST_OF_NONE, detail)
    yield from _persons(_cohort(64, 0.1, 100))


def _persons(data: SyntheticCohort) -> Iterator[Claim]:
    model = _fit(data)
    again = model.personalize(data.cohort).warps
    difference = float(np.nanmax(np.abs(again - model.warps_)))
    yield at_most("warps of personalize and of the fit: largest difference", difference, SAME_WARP)


def _cohort(n_subjects: int, noise: float, seed: int) -> SyntheticCohort:
    return make_synthetic(n_subjects, noise_std=noise, random_state=seed)


def _fit(data: SyntheticCohort, **options: Any) -> PerCDL:
    return PerCDL(2, LENGTH, TimeWarp(**options), progress=False).fit(data.cohort)


def _distance(data: SyntheticCohort, **options: Any) -> float:
    return data.distance_to_truth(_fit(data, **options).dictionary_)
