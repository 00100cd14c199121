"""The statistics that are permuted: Welch's t and F between groups, t and F of a regression.

Every one works along the last axis, for all samples of a cycle (or all parameters) together, and
is zero where nobody varies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats
from jaxtyping import Float
from sklearn.utils import check_random_state

Statistic = Callable[..., np.ndarray]
# Spread below this share of the largest value of a channel is rounding: ends of warps are fixed.
ROUNDING = 1e-10
# Variances within a group count for at least this share of those of all.
LEAST_SHARE = 1e-12


def compare_means(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return Welch's t of two samples, or his F of more.

    Unlike Student's, they let groups differ in spread: permutation tests of means then keep
    their level approximately even so (Chung and Romano, 2013, https://doi.org/10.1214/13-AOS1090),
    whatever the sizes.

    >>> a, b = np.array([[1.0, 2.0, 3.0]]), np.array([[2.0, 3.0, 4.0]])
    >>> compare_means(a, b)
    array([-1.2247449])
    """
    sizes = np.array([sample.shape[axis] for sample in samples])
    means = np.stack([sample.mean(axis) for sample in samples], -1)
    spreads = np.stack([sample.var(axis, ddof=1) for sample in samples], -1)
    total = spreads.mean(-1, keepdims=True)
    errors = np.maximum(spreads, np.where(total > 0, LEAST_SHARE * total, 1)) / sizes
    if len(samples) == 2:
        return (means[..., 0] - means[..., 1]) / np.sqrt(errors.sum(-1))
    return _welch_f(means, 1 / errors, sizes)


def _welch_f(means: np.ndarray, weights: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the F of Welch (1951), https://doi.org/10.1093/biomet/38.3-4.330."""
    count, share = len(sizes), weights / weights.sum(-1, keepdims=True)
    centre = (share * means).sum(-1, keepdims=True)
    between = (weights * (means - centre) ** 2).sum(-1) / (count - 1)
    loss = ((1 - share) ** 2 / (sizes - 1)).sum(-1)
    return between / (1 + 2 * (count - 2) / (count**2 - 1) * loss)


def regression_contrast(
    tested: Float[np.ndarray, "S q"], others: Float[np.ndarray, "S r"]
) -> Statistic:
    """Return the t (one column) or F (several) of some columns of a regression beside others.

    A function of values (..., S) that are free of what the other columns explain: residuals of
    the regression on those, in any order.
    """
    beside = np.linalg.qr(others)[0]
    own = tested - beside @ (beside.T @ tested)
    # QR may turn a direction round; the sign of a coefficient is worth keeping.
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


def steady(values: Float[np.ndarray, "S ..."]) -> Float[np.ndarray, "S ..."]:
    """Return the values less their mean over people; exactly 0 where nobody varies.

    The last axis is that of channels or parameters, each in a unit of its own.
    """
    centred = values - values.mean(0)
    largest = np.abs(values).max(axis=tuple(range(values.ndim - 1)))
    return np.where(centred.std(0) <= ROUNDING * largest, 0, centred)


def critical_value(level: float, n_tested: int, dof: float) -> float:
    """Return what a t (one tested direction, two-sided) or an F exceeds at this level."""
    if n_tested == 1:
        return float(scipy.stats.t.isf(level / 2, dof))
    return float(scipy.stats.f.isf(level, n_tested, dof))


def chance_of(
    observed: np.ndarray | np.floating, null: Float[np.ndarray, "B ..."], drawn: bool
) -> np.ndarray:
    """Return how often permutations reach what was observed.

    Where they were ``drawn``, the grouping of the data counts as one more; where they are all
    there are, it is among them.
    """
    # Permuted sums differ from observed ones by rounding: ties count as such.
    count = (null >= np.asarray(observed) * (1 - ROUNDING)).sum(0)
    return np.asarray((count + drawn) / (len(null) + drawn))


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a generator that depends on the random state alone."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31))
