"""The l1 coder equals sporco's, and separates overlapping activations.

Both solve ``min |x - sum_k z_k * phi_k|^2 + penalty |z|_1`` over ``z >= 0``. Sporco halves it,
and its convolutions wrap around: an infinite price on the positions that would keeps them empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from scipy.signal import find_peaks

from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick, skipped
from benchmarks.claims._oracle import in_double, naive
from benchmarks.timing import seconds
from percdl.datasets import onset_accuracy
from percdl.datasets.synthetic import common_patterns
from percdl.steps.csc import encode
from percdl.steps.csc_l1 import encode_l1, largest_useful_penalty
from percdl.steps.overlap import superpose
from percdl.steps.types import Signals

N, L, K = 500, 50, 2
NOISE = 0.1
SHARES = (0.3, 0.1, 0.03)
MOST_GAP, LEAST_FOUND = 1e-4, 0.9

code_l1 = partial(in_double, jax.jit(encode_l1), n_steps=np.int32(20_000))
code_l0 = partial(in_double, jax.jit(encode))
bound_penalty = partial(in_double, jax.jit(largest_useful_penalty))


class Problem(NamedTuple):
    """Noisy sums of overlapping atoms: signals (S, N, P), atoms (K, L, P), the true events."""

    signals: Signals
    atoms: np.ndarray
    events: pd.DataFrame


def claims() -> Iterator[Claim]:
    """Code overlapping activations with both coders, and look for the true onsets."""
    n_recordings, n_seeds = (2, 1) if is_quick() else (8, 5)
    yield from _against_sporco(n_recordings)
    yield from _overlaps(n_recordings, n_seeds)


def _against_sporco(n_recordings: int) -> Iterator[Claim]:
    name = "objective of the l1 coder and of sporco, largest relative difference"
    try:
        from sporco.admm.cbpdn import ConvBPDN
    except Exception as reason:  # whatever an import runs into
        yield skipped(name, f"sporco cannot be imported: {reason!r}")
        return
    gaps, ratios = [], []
    for n_channels in (1, 2):
        problem = _draw(n_recordings, n_channels, seed=n_channels)
        for share in SHARES:
            penalty = share * bound_penalty(problem.signals, problem.atoms[None]).max()
            gap, ratio = _compare(ConvBPDN, problem, penalty)
            gaps.append(gap)
            ratios.append(ratio)
    detail = f"{len(gaps)} problems of {n_recordings} recordings, P = 1 and 2"
    yield at_most(name, max(gaps), MOST_GAP, detail)
    figure = f"{np.median(ratios):.2g} times as long, from {min(ratios):.2g} to {max(ratios):.2g}"
    yield beside(f"sporco's time to come within {MOST_GAP:g}, against ours", figure)


def _compare(coder: type, problem: Problem, penalty: float) -> tuple[float, float]:
    """Return the relative difference of the objectives, and the ratio of the times."""
    ours = _solve_ours(problem, penalty, 1e-7)
    theirs = _solve_with(coder, problem, penalty, 1e-7)
    least, reached = (_objectives(problem, z, penalty) for z in (ours, theirs))
    gap = np.max(np.abs(reached - least) / least)

    def enough(activations) -> bool:
        return np.all(_objectives(problem, activations, penalty) <= (1 + MOST_GAP) * least)

    own = partial(_solve_ours, problem, penalty)
    other = partial(_solve_with, coder, problem, penalty)
    return gap, _time_to(other, enough) / _time_to(own, enough)


def _time_to(solve: Callable[[float], np.ndarray], enough: Callable[[Any], bool]) -> float:
    """Return the seconds of a solver at the loosest tolerance that is enough."""
    for tolerance in (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6):
        if enough(solve(tolerance)):
            return min(seconds(lambda: solve(tolerance)) for _ in range(3))  # noqa: B023
    return np.inf


def _solve_ours(problem: Problem, penalty: float, tolerance: float) -> np.ndarray:
    atoms = problem.atoms[None]
    return code_l1(problem.signals, atoms, np.float64(penalty), tolerance=tolerance)[0]


def _solve_with(coder: Any, problem: Problem, penalty: float, tolerance: float) -> np.ndarray:
    """Return the activations (S, K, V) that sporco finds."""
    price = np.ones((N, 1, 1, K))
    price[N - L + 1 :] = 1e9
    options = coder.Options(
        {
            "MaxMainIter": 5000,
            "RelStopTol": tolerance,
            "NonNegCoef": True,
            "L1Weight": price,
            # Its own choice of rho does not converge here; of fixed ones, this is about the best.
            "rho": penalty,
            "AutoRho": {"Enabled": False},
        }
    )
    dictionary = problem.atoms.transpose(1, 2, 0)
    values = problem.signals.values.transpose(1, 2, 0)
    solver = coder(dictionary, values, penalty / 2, options, dimK=1, dimN=1)
    solver.solve()
    return np.array(solver.getcoef())[: N - L + 1, 0].transpose(1, 2, 0)


def _objectives(problem: Problem, activations: np.ndarray, penalty: float) -> np.ndarray:
    seen = np.ones_like(problem.signals.values[0])
    return np.array(
        [
            naive.l1_cost(x, problem.atoms, penalty, seen, z)
            for x, z in zip(problem.signals.values, activations, strict=True)
        ]
    )


def _overlaps(n_recordings: int, n_seeds: int) -> Iterator[Claim]:
    """Look for pairs of activations that overlap, knowing the atoms, at the best penalty."""
    problems = [_draw(n_recordings, 1, 100 + seed) for seed in range(n_seeds)]
    name = "overlapping pairs: onsets found within one sample by the {} coder"
    l1 = _best_score(problems, _find_by_l1, (0.3, 0.1, 0.03, 0.01))
    yield at_least(name.format("l1"), l1.recall, LEAST_FOUND, l1.detail)
    l0 = _best_score(problems, _find_by_l0, (1.0, 0.3, 0.1, 0.03))
    yield beside(name.format("l0"), f"{l0.recall:.4g} ({l0.detail}; its supports are disjoint)")


class Score(NamedTuple):
    """Share of the true onsets that were found, and of the onsets found that are true."""

    recall: float
    precision: float
    detail: str = ""

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.recall * self.precision / max(self.recall + self.precision, 1e-300)


def _best_score(problems: list[Problem], find: Callable, penalties: tuple[float, ...]) -> Score:
    """Return the best mean score over the penalties."""
    scores = []
    for penalty in penalties:
        found = [(find(problem, penalty), problem.events) for problem in problems]
        recall = np.mean([onset_accuracy(ours, truth) for ours, truth in found])
        precision = np.mean([onset_accuracy(truth, ours) for ours, truth in found])
        detail = f"{precision:.3f} of those found are true, best penalty {penalty:g}"
        scores.append(Score(float(recall), float(precision), detail))
    return max(scores, key=lambda score: score.f1)


def _find_by_l1(problem: Problem, share: float) -> pd.DataFrame:
    """Return the peaks of the activations, at a share of the largest useful penalty."""
    penalty = share * bound_penalty(problem.signals, problem.atoms[None])
    activations, _ = code_l1(problem.signals, problem.atoms[None], penalty, tolerance=1e-4)
    rows = []
    for s, k in np.ndindex(activations.shape[:2]):
        padded = np.pad(activations[s, k], 1)
        # The l1 norm leaves crumbs, and splits an activation between neighbours.
        peaks, _ = find_peaks(padded, height=0.2 * activations.max(), distance=5)
        rows += [(s, k, peak - 1) for peak in peaks]
    return _frame(rows)


def _find_by_l0(problem: Problem, penalty: float) -> pd.DataFrame:
    events, _ = code_l0(problem.signals, problem.atoms[None], np.float64(penalty))
    triples = np.argwhere(events.amplitude != 0)
    return _frame([(s, events.atom[s, e], events.onset[s, e]) for s, e in triples])


def _draw(n_recordings: int, n_channels: int, seed: int) -> Problem:
    """Sum pairs of overlapping activations, apart from one another, and noise."""
    rng = np.random.default_rng(seed)
    patterns = common_patterns(L)
    atoms = np.concatenate([patterns, patterns[:, ::-1]], axis=2)[:, :, :n_channels]
    span = 5 * L // 2
    activations, rows = np.zeros((n_recordings, K, N - L + 1)), []
    for s in range(n_recordings):
        for begin in range(0, N - span + 1, span):
            onset = begin + rng.integers(span - 2 * L)
            for t in (onset, onset + rng.integers(L // 5, 4 * L // 5)):
                k = rng.integers(K)
                activations[s, k, t] = rng.uniform(0.7, 1.3)
                rows.append((s, k, t))
    fit = in_double(jax.jit(superpose), activations, atoms[None])
    values = fit + NOISE * rng.standard_normal(fit.shape)
    return Problem(Signals(values, np.full(n_recordings, N, np.int32), None), atoms, _frame(rows))


def _frame(rows: list[tuple[int, int, int]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["subject", "atom", "onset_sample"])
