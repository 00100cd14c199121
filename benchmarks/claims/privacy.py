"""What differential privacy costs, by epsilon and number of people; several draws of the noise.

Synthetic cohorts of one site: distance to the true atoms, and onsets. The first dictionary is the
mean of a few public people's patterns, as if cut by hand; a private fit is useful if it ends
closer to the truth. Walks and heart beats: the share that remains of the improvement of an exact
fit over one public person's cycle; that person is not in the cohort.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from benchmarks import Absent, cohorts
from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick
from benchmarks.timing import say
from percdl import Cohort, TimeWarp, make_synthetic
from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.loop import run_percdl
from percdl.algorithm.settings import Settings
from percdl.algorithm.state import History
from percdl.datasets import SyntheticCohort, atom_distance, onset_accuracy
from percdl.federated.privacy import Privacy
from percdl.federated.private_rounds import Denoised, PrivateRounds
from percdl.runtimes.in_process import InProcess
from percdl.steps.dictionary import normalize

SIZES, EPSILONS = (50, 200, 1000, 5000), (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, math.inf)
# The largest cohort takes its time, and its noise matters least.
FEW_EPSILONS = {5000: (1.0, 8.0, math.inf)}
N_DRAWS, FEW_DRAWS = 5, {1000: 3, 5000: 1}
REAL_EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
# An objective above that of the public start by more than this is worse than no fit. The largest
# real cohort keeps at least this share of the improvement at an epsilon of 8.
MOST_WORSE, LEAST_SHARE = 1.02, 0.5
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
    """Fits of one size and epsilon: mean distance to the true atoms, its range, onsets found."""

    n_subjects: int
    epsilon: float
    distance: float
    spread: tuple[float, float]
    onsets: float


@dataclass(frozen=True)
class Share:
    """Fits of real recordings: objective over that of the start, and share of the improvement.

    The share is 0 for the start and 1 for the exact fit; mean, smallest and largest draw.
    """

    name: str
    n_subjects: int
    epsilon: float
    worst: float
    share: float
    spread: tuple[float, float]


def claims() -> Iterator[Claim]:
    """Compare private fits with exact ones, and with the public recordings alone."""
    points = list(measure())
    start = next(point for point in points if point.n_subjects == N_PILOTS)
    yield beside(f"{N_PILOTS} public recordings alone", _describe(start))
    for point in points[1:]:
        yield beside(f"{point.n_subjects} subjects, epsilon {point.epsilon:g}", _describe(point))
    private = [p for p in points if p.n_subjects > N_PILOTS and p.epsilon < math.inf]
    worst = max(point.spread[1] for point in private)
    yield at_most(
        "largest distance of a private fit over the start's", worst / start.distance, 1.1
    )
    large = [p.distance for p in private if p.n_subjects == 5000]
    if large:
        exact = next(p for p in points if p.n_subjects == 5000 and p.epsilon == math.inf)
        worst = max(large) / exact.distance
        yield at_most("5000 subjects, distance over the exact one", worst, 1.25)
    yield from _real_claims()


def _real_claims() -> Iterator[Claim]:
    shares = list(measure_real())
    for s in shares:
        low, high = s.spread
        name = f"{s.name}, {s.n_subjects} people, epsilon {s.epsilon:g}: share of the improvement"
        yield beside(name, f"{s.share:.2f} ({low:.2f} to {high:.2f})")
    for name in dict.fromkeys(s.name for s in shares):
        worst = max(s.worst for s in shares if s.name == name)
        yield at_most(f"{name}, largest objective over the start's", worst, MOST_WORSE)
    at_eight = [s for s in shares if s.name == "beats" and s.epsilon == 8]
    for s in at_eight:
        yield at_least("beats, epsilon 8, least share of a draw", s.spread[0], LEAST_SHARE)


def measure() -> Iterator[Point]:
    """Yield the public start, then the fits for each size and epsilon; the same draws for all."""
    sizes, epsilons = (QUICK_SIZES, QUICK_EPSILONS) if is_quick() else (SIZES, EPSILONS)
    pilot = make_synthetic(N_PILOTS, **SHAPE, random_state=99)
    start = normalize(pilot.personal_dictionary.mean(0))
    distance = atom_distance(start, pilot.dictionary)
    yield Point(N_PILOTS, math.inf, distance, (distance, distance), math.nan)
    for n_subjects in sizes:
        truth = make_synthetic(n_subjects, **SHAPE, random_state=0)
        for epsilon in FEW_EPSILONS.get(n_subjects, epsilons):
            say(f"{n_subjects} subjects, epsilon {epsilon:g}")
            draws = 1 if epsilon == math.inf else FEW_DRAWS.get(n_subjects, N_DRAWS)
            fits = [_fit_synthetic(truth, start, epsilon, draw) for draw in range(draws)]
            distances, onsets = zip(*fits, strict=True)
            spread = min(distances), max(distances)
            yield Point(
                n_subjects, epsilon, float(np.mean(distances)), spread, float(np.mean(onsets))
            )


def _fit_synthetic(
    truth: SyntheticCohort, start: np.ndarray, epsilon: float, draw: int
) -> tuple[float, float]:
    """Return the distance to the truth, and the share of the onsets that the site finds."""
    dictionary, site = fit_privately(truth.cohort, SETTINGS, start, epsilon, draw)
    found = site.results()
    events = pd.DataFrame(
        {
            "subject": [truth.cohort.subjects[i] for i in found.subject],
            "atom": found.atom,
            "onset_sample": found.onset,
        }
    )
    onsets = onset_accuracy(events, truth.events, tolerance=2)
    return atom_distance(dictionary, truth.dictionary), onsets


def fit_privately(
    cohort: Cohort, settings: Settings, start: np.ndarray, epsilon: float, draw: int
) -> tuple[np.ndarray, InProcess]:
    """Run both phases with a draw of the noise; return the dictionary and the site."""
    privacy = Privacy(noise_multiplier=0.0) if epsilon == math.inf else Privacy(epsilon)
    random_bytes = np.random.default_rng(7 + draw).bytes
    noisy = PrivateRounds(cohort, settings, privacy, random_bytes)
    runtime = Denoised(noisy, settings, privacy)
    outcome = run_percdl(runtime, settings, start, History(), lambda phase, index, value: None)
    return outcome.dictionary, noisy.inside


def measure_real() -> Iterator[Share]:
    """Yield the fits of walks and of heart beats, where the recordings are there."""
    for find in (_gait, _beats):
        try:
            name, everyone, start, penalty = find()
        except Absent as error:
            say(str(error))
            continue
        settings = replace(SETTINGS, atom_length=start.shape[1], n_atoms=1, penalty=penalty)
        cohort, start = _others(everyone, start), normalize(start)

        def left(dictionary: np.ndarray, cohort=cohort, settings=settings) -> float:
            return InProcess(cohort, settings).express(Broadcast(dictionary)).objective

        first = left(start)
        exact = left(fit_privately(cohort, settings, start, math.inf, 0)[0])
        for epsilon in (8.0,) if is_quick() else REAL_EPSILONS:
            say(f"{name}, epsilon {epsilon:g}")
            fits = [
                left(fit_privately(cohort, settings, start, epsilon, draw)[0])
                for draw in range(1 if is_quick() else N_DRAWS)
            ]
            shares = [(first - own) / (first - exact) for own in fits]
            spread = min(shares), max(shares)
            worst = max(fits) / first
            yield Share(name, len(cohort), epsilon, worst, float(np.mean(shares)), spread)


def _gait() -> tuple[str, Cohort, np.ndarray, float]:
    """Return walks, one person's cycle, and a penalty."""
    problem = cohorts.gait(6 if is_quick() else None)
    return "gait", problem.cohort, problem.options["init"], problem.options["penalty"]


def _beats() -> tuple[str, Cohort, np.ndarray, float]:
    """Return lead II of heart beats, each record at unit power, one beat, and a penalty."""
    problem = cohorts.ecg(40 if is_quick() else None)
    lead = problem.cohort.channels.index("II")
    records = [record.values[:, lead : lead + 1] for record in problem.cohort]
    cohort = Cohort.from_arrays(
        [x / np.sqrt(np.mean(x**2)) for x in records], sfreq=problem.cohort.sfreq
    )
    return "beats", cohort, problem.options["init"][..., lead : lead + 1], 0.1


def _others(cohort: Cohort, start: np.ndarray) -> Cohort:
    """Return a cohort without the person whose cycle is public."""
    cycle = normalize(start)[0, :, 0]

    def has_it(values: np.ndarray) -> bool:
        windows = np.lib.stride_tricks.sliding_window_view(values[:, 0], len(cycle))
        products = windows @ cycle / np.maximum(np.linalg.norm(windows, axis=1), 1e-12)
        return bool(products.max() > 1 - 1e-6)

    return cohort.drop([record.subject for record in cohort if has_it(record.values)])


def _describe(point: Point) -> str:
    low, high = point.spread
    found = f"onsets within 2 samples {100 * point.onsets:.1f} %"
    return f"distance {point.distance:.3f} ({low:.3f} to {high:.3f}), {found}"
