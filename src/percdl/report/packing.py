"""Arrays inside a page: quantized finer than a screen shows, compressed, as text.

A curve becomes whole numbers from 0 to 2,046, say, between its extremes, then differences from
one sample to the next, then bytes sorted by weight, which deflate likes. The page undoes it in
``unpack`` of ``assets/data.js``.
"""

from __future__ import annotations

import base64
import zlib
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

N_LEVELS = 2047
MISSING = 65535


class Packed(TypedDict):
    """An array of curves as it travels in the page.

    ``shape`` is (..., n_times); ``low`` and ``step`` turn the whole numbers back, one pair for
    each curve.
    """

    shape: list[int]
    low: list[float]
    step: list[float]
    bytes: str


def pack(curves: ArrayLike, n_levels: int = N_LEVELS) -> Packed:
    """Pack curves, time along the last axis, into so many levels; NaN stays missing."""
    array = np.asarray(curves, float)
    rows = array.reshape(-1, array.shape[-1]) if array.size else np.zeros((0, 1))
    low, step = _scales(rows, n_levels)
    levels = np.rint((np.nan_to_num(rows) - low[:, None]) / step[:, None])
    whole = np.where(np.isnan(rows), MISSING, levels).astype(np.uint16)
    # Differences wrap around, so that they need no more bits than the numbers.
    change = np.diff(whole, axis=1, prepend=np.uint16(0)).astype("<u2")
    by_weight = np.frombuffer(change.tobytes(), np.uint8).reshape(-1, 2).T
    return {
        "shape": list(array.shape),
        "low": [float(f"{value:.6g}") for value in low],
        "step": [float(f"{value:.6g}") for value in step],
        "bytes": base64.b64encode(zlib.compress(by_weight.tobytes(), 9)).decode("ascii"),
    }


def _scales(rows: np.ndarray, n_levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest value of each curve, and what a whole number stands for."""
    empty = np.all(np.isnan(rows), axis=1, keepdims=True)
    known = np.where(empty, 0.0, rows)
    low, high = np.nanmin(known, 1), np.nanmax(known, 1)
    step = (high - low) / (n_levels - 1)
    return low, np.where(step > 0, step, 1.0)
