"""Clipped and noisy sums, on a grid.

Numbers of a computer are unevenly spaced, and a sum of a value and noise can tell the value
from its last bits. Here values and noise are multiples of one step, so every outcome is
possible for every value. Contributions are rounded towards zero after clipping, which leaves
their norm within the bound, and are added as whole numbers, exactly and in any order. Noise is
a normal number rounded to the grid: the same outcome as if the noisy sum had been rounded, which
tells no more than the sum does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int64
from scipy.special import ndtri

# Steps per standard deviation: fine against the noise, and so coarse against the numbers the
# noise is made of that their own rounding does not show.
FINENESS = 20
RandomBytes = Callable[[int], bytes]


def step_of(deviation: float) -> float:
    """Return the step of the grid for noise of a standard deviation, a power of two."""
    return 2.0 ** (math.floor(math.log2(deviation)) - FINENESS)


def clip_rows(rows: Float[np.ndarray, "S n"], bound: float) -> Float[np.ndarray, "S n"]:
    """Return rows of norm ``bound`` at most, each pointing where it pointed.

    >>> clip_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1, bound / np.maximum(norms, np.finfo(float).tiny))


def add_on_grid(
    rows: Float[np.ndarray, "S n"], bound: float, step: float
) -> Int64[np.ndarray, " n"]:
    """Clip rows, round them towards zero, and add them up, in steps (n,)."""
    # A norm is known up to rounding: what exceeds the bound by it is less than this.
    safe = bound * (1 - 1e-12)
    return np.trunc(clip_rows(rows, safe) / step).astype(np.int64).sum(0)


def draw_noise(
    size: int, deviation: float, step: float, random_bytes: RandomBytes
) -> Int64[np.ndarray, " size"]:
    """Draw normal numbers, rounded, in steps.

    One bit of eight bytes is the sign, the others decide the size by the inverse distribution
    function, at full precision far out in the tail; beyond 9 standard deviations there are none,
    which happens with a probability of 1e-19.
    """
    bits = np.frombuffer(random_bytes(8 * size), "<u8")
    sign = 1 - 2 * (bits & np.uint64(1)).astype(np.int64)
    tail = ((bits >> np.uint64(1)).astype(float) + 0.5) * 2.0**-64
    return sign * np.rint(-ndtri(tail) * (deviation / step)).astype(np.int64)
