"""Synthetic cohorts: the true atoms are found down to the gauge floor, and the true onsets.

The paper's settings: K = 2, N = 500, L = 50, D = 3, W = 10, penalty 0.01, three repetitions,
five and five rounds, started from the atoms of subject 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick
from benchmarks.cohorts import synthetic_options
from benchmarks.timing import follow
from percdl import PerCDL, make_synthetic
from percdl.datasets import onset_accuracy
from percdl.experiments.fits import error_of_fit
from percdl.experiments.study import as_printed

SUBJECTS, COMPARED, N_SEEDS = (16, 64, 256, 1024), 64, 10
MOST_RATIO, MOST_ERROR, LEAST_ONSETS = 1.45, 5e-4, 0.99


class Outcome(NamedTuple):
    """How one fit came out."""

    distance: float
    floor: float
    error: float
    onsets: float


class Summary(NamedTuple):
    """The same over seeds: a ratio of means, a median and a mean."""

    ratio: float
    error: float
    onsets: float
    detail: str


def claims() -> Iterator[Claim]:
    """Fit cohorts of every size and seed."""
    sizes, n_seeds = ((16, 64), 2) if is_quick() else (SUBJECTS, N_SEEDS)
    for n_subjects in sizes:
        found = _summarize(n_subjects, n_seeds)
        name = f"S = {n_subjects}"
        yield at_most(
            f"{name}: distance to the truth / gauge floor", found.ratio, MOST_RATIO, found.detail
        )
        yield at_most(f"{name}: squared relative error, median", found.error, MOST_ERROR)
        yield at_least(f"{name}: onsets within one sample", found.onsets, LEAST_ONSETS)
    plain = _summarize(COMPARED, n_seeds, **as_printed())
    yield beside(
        f"S = {COMPARED}, the paper's plain algorithm",
        f"distance / floor {plain.ratio:.2f} ({plain.detail}), error {plain.error:.2g}, "
        f"onsets {plain.onsets:.3f}",
    )


def _summarize(n_subjects: int, n_seeds: int, **changes: Any) -> Summary:
    label = f"S = {n_subjects}{', plain' if changes else ''}, seed"
    outcomes = [_fit(n_subjects, seed, **changes) for seed in follow(range(n_seeds), label)]
    distance, floor, error, onsets = np.array(outcomes).T
    return Summary(
        ratio=distance.mean() / floor.mean(),
        error=float(np.median(error)),
        onsets=onsets.mean(),
        detail=f"means {distance.mean():.4f} and {floor.mean():.4f} of {n_seeds} seeds",
    )


def _fit(n_subjects: int, seed: int, **changes: Any) -> Outcome:
    data = make_synthetic(n_subjects, random_state=seed)
    options = synthetic_options(data.personal_dictionary[0])
    model = PerCDL(progress=False, **options).set_params(**changes).fit(data.cohort)
    return Outcome(
        distance=data.distance_to_truth(model.dictionary_),
        floor=data.gauge_floor(),
        error=error_of_fit(model, data.cohort),
        onsets=onset_accuracy(model.events_, data.events, tolerance=1),
    )
