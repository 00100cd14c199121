"""Which onsets of two lists belong together."""

import numpy as np


def count_pairs(detected: np.ndarray, true: np.ndarray, tolerance: float) -> int:
    """Count the pairs within the tolerance, each onset used once; both lists are sorted.

    Taking the earliest detection that fits is optimal, as all tolerances are equal.

    >>> count_pairs(np.array([9, 55]), np.array([10, 12]), tolerance=5)
    1
    """
    pairs = position = 0
    for onset in true:
        while position < len(detected) and detected[position] < onset - tolerance:
            position += 1
        if position < len(detected) and detected[position] <= onset + tolerance:
            pairs, position = pairs + 1, position + 1
    return pairs
