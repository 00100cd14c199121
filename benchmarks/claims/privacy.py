"""What differential privacy costs: epsilon against the distance to the true atoms, and onsets.

Synthetic cohorts of one site. The first dictionary is the mean of a few public people's patterns,
as if cut by hand; a private fit is worth its while where it ends closer to the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.timing import say
from percdl import TimeWarp, make_synthetic
from percdl.algorithm.loop import run_percdl
from percdl.algorithm.settings import Settings
from percdl.algorithm.state import History
from percdl.datasets import SyntheticCohort, atom_distance, onset_accuracy
from percdl.federated.privacy import Privacy
from percdl.federated.private_rounds import ROWS, Denoised, PrivateRounds
from percdl.runtimes.in_process import InProcess
from percdl.steps.dictionary import normalize

SIZES, EPSILONS = (50, 200, 1000, 5000), (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, math.inf)
# The largest cohort takes its time.
FEW_EPSILONS = {5000: (1.0, 8.0, math.inf)}
QUICK_SIZES, QUICK_EPSILONS = (12,), (8.0, math.inf)
WARP = TimeWarp(depth=1, width=4)
PENALTY, NOISE_STD, N_PILOTS = 0.5, 0.15, 3
SHAPE = {"n_times": 300, "atom_length": 40, "depth": 1, "width": 4, "noise_std": NOISE_STD}
# Few rounds: each costs.
SETTINGS = Settings(
    WARP, 40, 2, 1, PENALTY, population_rounds=1, personal_rounds=2, weighting="subjects",
    realign=False, multistart=False,
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One fit: the size of the cohort, epsilon, distance to the true atoms, onsets found."""

    n_subjects: int
    epsilon: float
    distance: float
    onsets: float


def claims() -> Iterator[Claim]:
    """Compare private fits with exact ones, and with the public recordings alone."""
    points = list(measure())
    start = next(point for point in points if point.n_subjects == N_PILOTS)
    yield beside(f"{N_PILOTS} public recordings alone", _describe(start))
    for point in points[1:]:
        yield beside(f"{point.n_subjects} subjects, epsilon {point.epsilon:g}", _describe(point))
    private = [p for p in points if p.n_subjects > N_PILOTS and p.epsilon < math.inf]
    worst = max(point.distance for point in private)
    yield at_most(
        "largest distance of a private fit over the start's", worst / start.distance, 1.1
    )
    large = [p.distance for p in private if p.n_subjects == 5000]
    if large:
        exact = next(p for p in points if p.n_subjects == 5000 and p.epsilon == math.inf)
        worst = max(large) / exact.distance
        yield at_most("5000 subjects, distance over the exact one", worst, 1.25)


def measure() -> Iterator[Point]:
    """Yield the public start, then a fit for each size and epsilon; the same noise for all."""
    sizes, epsilons = (QUICK_SIZES, QUICK_EPSILONS) if is_quick() else (SIZES, EPSILONS)
    pilot = make_synthetic(N_PILOTS, **SHAPE, random_state=99)
    start = normalize(pilot.personal_dictionary.mean(0))
    yield Point(N_PILOTS, math.inf, atom_distance(start, pilot.dictionary), math.nan)
    for n_subjects in sizes:
        truth = make_synthetic(n_subjects, **SHAPE, random_state=0)
        for epsilon in FEW_EPSILONS.get(n_subjects, epsilons):
            say(f"{n_subjects} subjects, epsilon {epsilon:g}")
            yield fit_privately(truth, start, epsilon)


def fit_privately(truth: SyntheticCohort, start: np.ndarray, epsilon: float) -> Point:
    """Run both phases with noise; onsets are those the site finds with the noisy atoms."""
    privacy = Privacy(noise_multiplier=0.0) if epsilon == math.inf else Privacy(epsilon)
    random_bytes = np.random.default_rng(7).bytes
    site = InProcess(truth.cohort, SETTINGS, chunk_rows=ROWS)
    runtime = Denoised(PrivateRounds(site, privacy, random_bytes=random_bytes), SETTINGS, privacy)
    outcome = run_percdl(runtime, SETTINGS, start, History(), lambda phase, index, value: None)
    found = site.results()
    events = pd.DataFrame(
        {
            "subject": [truth.cohort.subjects[i] for i in found.subject],
            "atom": found.atom,
            "onset_sample": found.onset,
        }
    )
    onsets = onset_accuracy(events, truth.events, tolerance=2)
    return Point(
        len(truth.cohort), epsilon, atom_distance(outcome.dictionary, truth.dictionary), onsets
    )


def _describe(point: Point) -> str:
    return f"distance {point.distance:.3f}, onsets within 2 samples {100 * point.onsets:.1f} %"
