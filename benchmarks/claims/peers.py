"""From raw recordings, PerCDL is closer to the true atoms than averages of the true segments.

The paper's synthetic cohorts, S = 256 without noise, and S = 128 with noise. The others are given
what PerCDL has to find: every subject's segments, cut at the true onsets, as the mean of the
subject's three repetitions. Without noise PerCDL starts from the atoms of one subject; with
noise it runs at the library's defaults.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick, skipped
from benchmarks.cohorts import synthetic_options
from benchmarks.peers import PEERS, Average, cut
from benchmarks.timing import follow, say
from percdl import PerCDL, TimeWarp, make_synthetic
from percdl.datasets import SyntheticCohort

N_SUBJECTS, N_SEEDS = 256, 3
ELASTIC, LEAST_SPEEDUP = "fdasrsf elastic mean", 10
# Enough segments to compile what is compiled, and to start the workers of a pool.
N_WARMUP = 8
NOISES, N_NOISY_SUBJECTS, N_NOISY_SEEDS = (0.0, 0.05, 0.1, 0.2), 128, 10


class Outcome(NamedTuple):
    """How far an average is from the true atoms, and the seconds it took."""

    distance: float
    seconds: float


def claims() -> Iterator[Claim]:
    """Fit every cohort and average its segments, one cohort after the other."""
    n_subjects, n_seeds = (16, 2) if is_quick() else (N_SUBJECTS, N_SEEDS)
    cohorts = [make_synthetic(n_subjects, random_state=seed) for seed in range(n_seeds)]
    first = _fit(cohorts[0]).seconds
    peers = dict(_available())
    ours, others = [], {name: [] for name in peers}
    for seed in follow(range(n_seeds), f"S = {n_subjects}, seed"):
        _fit(cohorts[seed])
        ours.append(_fit(cohorts[seed]))
        for name, ways in peers.items():
            if isinstance(ways, list):
                others[name].append(_best(ways, cohorts[seed]))
                say(f"{name}: {others[name][-1]}, PerCDL: {ours[-1]}")
    floor = np.mean([data.gauge_floor() for data in cohorts])
    yield beside(
        f"S = {n_subjects}, PerCDL blind",
        f"distance {_mean(ours).distance:.4f} (gauge floor {floor:.4f}), warm fit "
        f"{_mean(ours).seconds:.2f} s, first fit of the process {first:.1f} s",
    )
    for name, ways in peers.items():
        if isinstance(ways, Absent):
            yield skipped(name, ways)
        else:
            yield from _compare(name, ours, others[name])
    found = {name: ways for name, ways in peers.items() if isinstance(ways, list)}
    for noise in NOISES[2:3] if is_quick() else NOISES:
        yield from _compare_noisy(noise, found)


def _compare_noisy(noise: float, peers: dict[str, list[Average]]) -> Iterator[Claim]:
    """Report the distances at one level of noise, as ratios of the means over seeds."""
    n_subjects, n_seeds = (16, 1) if is_quick() else (N_NOISY_SUBJECTS, N_NOISY_SEEDS)
    ours, others = [], {name: [] for name in peers}
    for seed in follow(range(100, 100 + n_seeds), f"noise {noise}, S = {n_subjects}, seed"):
        data = make_synthetic(n_subjects, noise_std=noise, random_state=seed)
        model = PerCDL(2, 50, TimeWarp(), progress=False).fit(data.cohort)
        ours.append(data.distance_to_truth(model.dictionary_))
        for name, ways in peers.items():
            others[name].append(_best(ways, data).distance)
    for name, theirs in others.items():
        yield at_most(
            f"noise {noise}, S = {n_subjects}: distance, PerCDL blind / {name}",
            np.mean(ours) / np.mean(theirs),
            1,
            f"means {np.mean(ours):.4f} and {np.mean(theirs):.4f} of {n_seeds} seeds",
        )


def _compare(name: str, ours: list[Outcome], theirs: list[Outcome]) -> Iterator[Claim]:
    """Report distance and time of one of the others, as ratios of the means over seeds."""
    mine, other = _mean(ours), _mean(theirs)
    worst = max(a.distance / b.distance for a, b in zip(ours, theirs, strict=True))
    yield at_most(
        f"distance, PerCDL blind / {name} of the true segments",
        mine.distance / other.distance,
        1,
        f"means {mine.distance:.4f} and {other.distance:.4f} of {len(ours)} seeds; "
        f"largest ratio {worst:.2f}",
    )
    label, ratio = f"time, {name} / PerCDL (warm)", other.seconds / mine.seconds
    detail = f"means {other.seconds:.2f} and {mine.seconds:.2f} s"
    if name == ELASTIC:
        yield at_least(label, ratio, LEAST_SPEEDUP, detail)
    else:
        yield beside(label, f"{ratio:.3g} ({detail})")


def _available() -> Iterator[tuple[str, list[Average] | Absent]]:
    """Yield the others, warm, or why one is not there."""
    few = cut(make_synthetic(N_WARMUP, random_state=0))
    for name, peer in PEERS.items():
        try:
            ways = peer()
        except Absent as reason:
            yield name, reason
            continue
        for average in ways:
            average(few[0])
        yield name, ways


def _best(ways: list[Average], data: SyntheticCohort) -> Outcome:
    """Average the segments in each way; keep the one that comes closest to the truth."""
    segments = cut(data)
    outcomes = []
    for average in ways:
        atoms, seconds = _timed(lambda average=average: [average(s) for s in segments])
        outcomes.append(Outcome(data.distance_to_truth(np.stack(atoms)[:, :, None]), seconds))
    return min(outcomes)


def _fit(data: SyntheticCohort) -> Outcome:
    """Fit PerCDL as in `recovery`: from the atoms of subject 0, onsets unknown."""
    options = synthetic_options(data.personal_dictionary[0])
    model = PerCDL(progress=False, **options)
    _, seconds = _timed(lambda: model.fit(data.cohort))
    return Outcome(data.distance_to_truth(model.dictionary_), seconds)


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    return function(), time.perf_counter() - began


def _mean(outcomes: list[Outcome]) -> Outcome:
    return Outcome(*np.mean(outcomes, 0))
