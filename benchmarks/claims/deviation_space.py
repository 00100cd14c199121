"""The deviation index follows the true warps of people, which raw parameters of layers do not.

Synthetic walkers: smooth random local speeds, eight noisy cycles each, and patients whose time
bends more. With four layers a warp has sixty parameters, most of them exchangeable. The index is
compared with distances of those parameters, and of the true displacement (unknown in practice).
The interval of the index should contain the index of the true displacements of all people.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.fft import dst
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from benchmarks.claims._claim import Claim, at_least, beside, is_quick
from benchmarks.timing import follow
from percdl import Algorithm, Cohort, PerCDL, TimeWarp
from percdl.analysis import estimate_uncertainty, measure_deviation
from percdl.analysis.deviation import distances

LENGTH, N_HEALTHY, N_PATIENTS, N_CYCLES, N_SEEDS = 60, 50, 40, 8, 5
NOISE, SPREAD, EXCESS = 0.15, 0.25, 1.6
# Centre, width and height of the three waves of a cycle.
WAVES = np.array([[0.25, 0.06, 1.0], [0.5, 0.08, -0.7], [0.78, 0.05, 0.8]])
LEAST_RANK, LEAST_COVERED = 0.4, 0.9
TIME = np.linspace(0, 1, LENGTH)


def claims() -> Iterator[Claim]:
    """Hold the index against distances of the true warps."""
    seeds = range(1 if is_quick() else N_SEEDS)
    found = [_measure(seed) for seed in follow(seeds, "seed")]
    rows, covered = (np.array(part) for part in zip(*found, strict=True))
    (rank, auc), (raw_rank, raw_auc), (_, true_auc) = rows.mean(0)
    detail = f"mean of {len(rows)} seeds; by parameters of all layers {raw_rank:.2f}"
    yield at_least(
        "rank correlation with distances of the true warps, healthy", rank, LEAST_RANK, detail
    )
    yield beside(
        f"AUC for time that bends {EXCESS:g} times as much",
        f"index {auc:.3f}, by parameters of all layers {raw_auc:.3f}, "
        f"by true warps {true_auc:.3f}",
    )
    share, half = covered.mean(0)
    detail = f"nominal 0.95; half an interval is {half:.2f} (median)"
    yield at_least(
        "share of people whose true index is in the interval", share, LEAST_COVERED, detail
    )


def _measure(seed: int) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Return what is claimed of one cohort.

    Rank correlation and AUC of the index, of raw parameters and of the true warps; the share of
    the intervals that hold the true index, and half their width.
    """
    rng = np.random.default_rng(seed)
    is_patient = np.arange(N_HEALTHY + N_PATIENTS) >= N_HEALTHY
    warps = _draw_warps(rng, np.where(is_patient, EXCESS, 1.0))
    cohort = Cohort.from_arrays([_record(rng, psi) for psi in warps], sfreq=100)
    first = _cycle(TIME)[None, :, None]
    model = PerCDL(
        1,
        LENGTH,
        TimeWarp(4, 15),
        penalty=1.0,
        init=first,
        algorithm=Algorithm(realign=False),
        progress=False,
    ).fit(cohort)
    # Six smooth curves make the speeds: twice as many sines hold all that the warps do.
    sines = np.asarray(dst((warps - TIME)[:, 1:-1], type=1))[:, :12]
    truth = _distances(sines, is_patient)
    groups, errors = np.where(is_patient, "other", "norm"), estimate_uncertainty(model, cohort)
    found = measure_deviation(model, groups, "norm", uncertainty=errors)
    scores = (
        found.index,
        _distances(model.params_[:, 0], is_patient),
        truth,
    )
    ranks = spearmanr(np.stack([*scores, truth])[:, ~is_patient], axis=1)
    low, high = found.interval.T
    own = truth / np.median(truth[~is_patient])
    pairs = [
        (correlation, float(roc_auc_score(is_patient, score)))
        for correlation, score in zip(np.asarray(ranks[0])[-1], scores, strict=False)
    ]
    return pairs, (float(np.mean((low <= own) & (own <= high))), float(np.median(high - low) / 2))


def _draw_warps(rng: np.random.Generator, scale: np.ndarray) -> np.ndarray:
    """Return warps (S, L) on [0, 1] whose logarithms of speed are sums of six cosines."""
    order = np.arange(1, 7)
    weights = rng.normal(size=(len(scale), 6)) * SPREAD / np.sqrt(order)
    speed = np.exp(scale[:, None] * (weights @ np.cos(np.pi * np.outer(order, TIME))))
    psi = np.cumsum((speed[:, 1:] + speed[:, :-1]) / 2, axis=1)
    return np.pad(psi / psi[:, -1:], ((0, 0), (1, 0)))


def _record(rng: np.random.Generator, psi: np.ndarray) -> np.ndarray:
    """Return one person's cycles, with gaps between them, and noise."""
    own = _cycle(psi)
    cycles = [
        np.pad(rng.uniform(0.8, 1.2) * own, (int(rng.integers(5, 20)), 0)) for _ in range(N_CYCLES)
    ]
    signal = np.concatenate([*cycles, np.zeros(10)])
    return signal + NOISE * rng.normal(size=len(signal))


def _cycle(time: np.ndarray) -> np.ndarray:
    centre, width, height = WAVES.T
    return np.exp(-0.5 * ((time[:, None] - centre) / width) ** 2) @ height


def _distances(values: np.ndarray, is_patient: np.ndarray) -> np.ndarray:
    who = np.arange(len(values)).astype(str)
    return distances(values[~is_patient], who[~is_patient], values, who)[0]
