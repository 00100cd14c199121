"""Which onsets of two lists belong together."""

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment


def match_onsets(detected: ArrayLike, true: ArrayLike, tolerance: float) -> Int[np.ndarray, "n 2"]:
    """Pair detected onsets with true ones, one to one and within a tolerance.

    As many pairs as can be; among the ways to have that many, the one with the least sum of
    distances. Returns positions in the two lists, those of the true onsets increasing. Cost
    O(n^3) at worst, for lists of n onsets.

    >>> match_onsets([9, 55, 11], [10, 12], tolerance=5).tolist()
    [[0, 0], [2, 1]]
    """
    gaps = np.abs(np.subtract.outer(np.asarray(true, float), np.asarray(detected, float)))
    allowed = gaps <= tolerance
    # One pair more is worth more than all the distances there can be.
    reward = 1 + min(gaps.shape) * gaps.max(where=allowed, initial=0)
    rows, columns = linear_sum_assignment(np.where(allowed, gaps - reward, 0))
    kept = allowed[rows, columns]
    return np.column_stack([columns[kept], rows[kept]])
