"""Permutation tests: statistics to permute, and clusters of samples that differ.

Every statistic works along the last axis (or ``axis``), for all samples of a cycle or all
parameters at once, and is zero where the values do not vary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats
from jaxtyping import Float

from percdl.analysis.checks import check_level
from percdl.exceptions import InvalidParameterError
from percdl.seeds import Seed, as_random_state
from percdl.signals.extras import require

Statistic = Callable[..., np.ndarray]
# A spread below this share of the largest value of a channel is rounding: ends of warps are fixed.
ROUNDING = 1e-10
# Variances within a group are at least this share of the mean variance.
LEAST_SHARE = 1e-12
# Permuted values held in memory at a time.
BATCH_SIZE = 2**22


def center(values: Float[np.ndarray, "S ..."]) -> Float[np.ndarray, "S ..."]:
    """Return the values less their mean over people; exactly 0 where they do not vary.

    The last axis is that of channels or parameters, which may differ in unit.
    """
    centred = values - values.mean(0)
    largest = np.abs(values).max(axis=tuple(range(values.ndim - 1)))
    return np.where(centred.std(0) <= ROUNDING * largest, 0, centred)


def canonical_order(values: Float[np.ndarray, "S ..."]) -> np.ndarray:
    """Return the lexicographic order of the rows, so that the order of people does not matter."""
    return np.lexsort(values.reshape(len(values), -1).T[::-1])


def make_exchangeable(parts: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the values of groups to permute: centred and sorted, with groups in order of name.

    Signs are flipped if the first of two groups comes second by name, so that exchanging the
    groups only flips the sign of Welch's t.
    """
    names = sorted(parts)
    turned = len(parts) == 2 and names != list(parts)
    pooled = center(np.concatenate([parts[x][canonical_order(parts[x])] for x in names]))
    ends = np.cumsum([len(parts[name]) for name in names])[:-1]
    return np.split(-pooled if turned else pooled, ends)


def compare_means(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return Welch's t of two samples, or his F (https://doi.org/10.1093/biomet/38.3-4.330).

    Permutation tests of it keep their level approximately if groups differ in spread (Chung and
    Romano, 2013, https://doi.org/10.1214/13-AOS1090).
    """
    sizes = np.array([sample.shape[axis] for sample in samples])
    means = np.stack([sample.mean(axis) for sample in samples], -1)
    spreads = np.stack([sample.var(axis, ddof=1) for sample in samples], -1)
    total = spreads.mean(-1, keepdims=True)
    errors = np.maximum(spreads, np.where(total > 0, LEAST_SHARE * total, 1)) / sizes
    if len(samples) == 2:
        return (means[..., 0] - means[..., 1]) / np.sqrt(errors.sum(-1))
    count, weights = len(sizes), 1 / errors
    share = weights / weights.sum(-1, keepdims=True)
    centre = (share * means).sum(-1, keepdims=True)
    between = (weights * (means - centre) ** 2).sum(-1) / (count - 1)
    loss = ((1 - share) ** 2 / (sizes - 1)).sum(-1)
    return between / (1 + 2 * (count - 2) / (count**2 - 1) * loss)


def regression_contrast(
    tested: Float[np.ndarray, "S q"], others: Float[np.ndarray, "S r"]
) -> Statistic:
    """Return the t (one column) or F (several) of the tested columns of a regression.

    It is a function of the residuals (..., S) of the regression on the other columns.
    """
    beside = np.linalg.qr(others)[0]
    own = tested - beside @ (beside.T @ tested)
    # QR may flip a direction; keep the sign of a single coefficient.
    direction = own / np.linalg.norm(own) if own.shape[1] == 1 else np.linalg.qr(own)[0]
    rank = direction.shape[1]
    dof = len(tested) - rank - beside.shape[1]

    def contrast(values: np.ndarray, axis: int = -1) -> np.ndarray:
        values = np.moveaxis(values, axis, -1)
        along = values @ direction
        explained = np.sum(along**2, -1)
        total = np.sum(values**2, -1) - np.sum((values @ beside) ** 2, -1)
        left = np.maximum(total - explained, np.where(total > 0, LEAST_SHARE * total, 1)) / dof
        return along[..., 0] / np.sqrt(left) if rank == 1 else explained / rank / left

    return contrast


def critical_value(level: float, n_tested: int, dof: float) -> float:
    """Return the two-sided critical value of t (one tested direction), or that of F."""
    check_level(level, "pointwise_level")
    if n_tested == 1:
        return float(scipy.stats.t.isf(level / 2, dof))
    return float(scipy.stats.f.isf(level, n_tested, dof))


class Permuted(NamedTuple):
    """A statistic (F,), its permutation distribution (B, F), and whether that is a sample."""

    statistic: np.ndarray
    null: np.ndarray
    is_sampled: bool

    def p_value(self, observed: Any, null: np.ndarray) -> np.ndarray:
        """Return how often a null distribution reaches the observed values."""
        # Permuted sums differ from observed ones by rounding, so ties need a margin.
        count = (null >= np.asarray(observed) * (1 - ROUNDING)).sum(0)
        return np.asarray((count + self.is_sampled) / (len(null) + self.is_sampled))


def _check_count(n_permutations: int) -> None:
    if not isinstance(n_permutations, (int, np.integer)) or n_permutations < 20:
        raise InvalidParameterError(
            f"`n_permutations={n_permutations!r}` must be an integer of at least 20: with fewer, "
            "no p value can be as small as 0.05."
        )


def permute(
    samples: Sequence[np.ndarray],
    statistic: Statistic,
    kind: Literal["independent", "pairings"],
    n_permutations: int,
    random_state: Seed,
) -> Permuted:
    """Permute the rows of samples (n, F), all ways if there are fewer than ``n_permutations``."""
    _check_count(n_permutations)
    rng = np.random.default_rng(as_random_state(random_state).randint(2**31))
    found: Any = scipy.stats.permutation_test(
        samples,
        statistic,
        permutation_type=kind,
        vectorized=True,
        axis=0,
        n_resamples=n_permutations - 1,
        batch=max(1, BATCH_SIZE // sum(sample.size for sample in samples)),
        # `rng` is unknown to SciPy before 1.15.
        random_state=rng,  # pyright: ignore[reportCallIssue]
    )
    sizes = [len(sample) for sample in samples]
    same = math.prod(map(math.factorial, sizes)) if kind == "independent" else 1
    is_sampled = math.factorial(sum(sizes)) // same > n_permutations - 1
    return Permuted(np.asarray(found.statistic), found.null_distribution, is_sampled)


@dataclass(frozen=True)
class Cluster:
    """Neighbouring samples of one channel where the statistic exceeds the threshold on one side.

    Attributes
    ----------
    channel, start, stop : int
        Samples ``start`` to ``stop - 1`` of a channel.
    mass, p_value : float
        Sum of the statistic (negative if the first group is below the second, or the slope is
        negative), and the share of the permutations with a cluster, in any channel, of this mass.
    """

    channel: int
    start: int
    stop: int
    mass: float
    p_value: float


def permute_clusters(
    samples: Sequence[np.ndarray],
    statistic: Statistic,
    threshold: float,
    two_sided: bool,
    n_permutations: int,
    random_state: Seed,
) -> tuple[Cluster, ...]:
    """Return the clusters of exchangeable curves (n, L, P), smallest p value first."""
    _check_count(n_permutations)
    mne = require("mne", "A cluster permutation test", "stats")
    length, n_channels = samples[0].shape[1:]
    lines = []
    for curves in samples:
        # Channel after channel, each followed by a zero sample; if two-sided, the negative curves
        # follow. (With ``tail=0``, MNE 1.13 compares the largest cluster of either sign with the
        # largest positive one of each permutation, which can double the rate of false alarms.)
        parted = np.pad(np.moveaxis(curves, 2, 1), ((0, 0), (0, 0), (0, 1)))
        line = parted.reshape(len(curves), -1)
        lines.append(np.hstack([line, -line]) if two_sided else line)
    observed = statistic(*(line.T for line in lines))
    if not (observed > threshold).any():
        return ()
    with mne.use_log_level("ERROR"):
        _, runs, p_values, _ = mne.stats.permutation_cluster_test(
            lines,
            threshold=threshold,
            n_permutations=n_permutations,
            tail=1,
            stat_fun=lambda *parts: statistic(*(part.T for part in parts)),
            out_type="mask",
            buffer_size=None,
            seed=as_random_state(random_state),
        )
    found = []
    for (run,), p_value in zip(runs, p_values, strict=True):
        line, start = divmod(run.start, length + 1)
        side, channel = divmod(line, n_channels)
        mass = float(observed[run].sum()) * (-1) ** side
        stop = start + run.stop - run.start
        found.append(Cluster(channel, start, stop, mass, float(p_value)))
    return tuple(sorted(found, key=lambda c: (c.p_value, -abs(c.mass))))


def tabulate_clusters(
    clusters: Sequence[Cluster], differences: np.ndarray | None, sfreq: float | None
) -> pd.DataFrame:
    """Return one row per cluster; with a sampling rate, its ends in seconds too."""
    names = ["channel", "start_sample", "stop_sample", "mass", "p_value"]
    table = pd.DataFrame([astuple(cluster) for cluster in clusters], columns=names)
    if differences is not None:
        means = [float(differences[c.start : c.stop, c.channel].mean()) for c in clusters]
        table.insert(3, "difference", means)
    if sfreq is not None:
        table.insert(3, "start_seconds", table["start_sample"] / sfreq)
        table.insert(4, "stop_seconds", table["stop_sample"] / sfreq)
    return table
