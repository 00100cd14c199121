"""Arrays inside a page: quantized finer than a screen shows, compressed, as text.

A curve becomes integers from 0 to 2,046 between its extremes, then differences between
neighbouring samples, then bytes sorted by weight, which compress well. ``unpack`` of
``assets/data.js`` reverses it. Recordings that are too long for a page are reduced to the extremes
of short runs of samples.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

N_LEVELS = 2047
MISSING = 65535
# Bytes of text for all recordings: a browser opens such a page in a few seconds. The plotting
# library takes 5 MB, everything else little.
BUDGET = 9_000_000
# Recordings packed to estimate the compression of all.
N_TRIED = 24


class Packed(TypedDict):
    """Curves as stored in the page; ``low`` and ``step`` of each turn the integers back."""

    shape: list[int]
    low: list[float]
    step: list[float]
    bytes: str


def pack(curves: ArrayLike, n_levels: int = N_LEVELS) -> Packed:
    """Pack curves, time along the last axis, into ``n_levels`` levels; NaN stays missing."""
    array = np.asarray(curves, float)
    rows = array.reshape(-1, array.shape[-1]) if array.size else np.zeros((0, 1))
    empty = np.all(np.isnan(rows), axis=1, keepdims=True)
    known = np.where(empty, 0.0, rows)
    low = np.nanmin(known, 1)
    step = (np.nanmax(known, 1) - low) / (n_levels - 1)
    step = np.where(step > 0, step, 1.0)
    levels = np.rint((np.nan_to_num(rows) - low[:, None]) / step[:, None])
    whole = np.where(np.isnan(rows), MISSING, levels).astype(np.uint16)
    # Differences wrap around, so they need no more bits than the integers.
    change = np.diff(whole, axis=1, prepend=np.uint16(0)).astype("<u2")
    by_weight = np.frombuffer(change.tobytes(), np.uint8).reshape(-1, 2).T
    return {
        "shape": list(array.shape),
        "low": [float(f"{value:.6g}") for value in low],
        "step": [float(f"{value:.6g}") for value in step],
        "bytes": base64.b64encode(zlib.compress(by_weight.tobytes(), 9)).decode("ascii"),
    }


class Drawn(NamedTuple):
    """The recordings of a page, packed, and the number of samples per pair of extremes."""

    run: int  # 1 if all samples are there
    recordings: list[Packed]


def draw_recordings(values: Sequence[Float[np.ndarray, "_ P"]], budget: int = BUDGET) -> Drawn:
    """Pack recordings into at most ``budget`` bytes of text, in as much detail as possible."""
    run, longest = 1, max(len(x) for x in values)
    while (size := _estimate(values, run)) > budget and run < longest:
        # A pair is two numbers, so runs of two would be as large.
        run = max(4, int(np.ceil(run * size / budget)))
    return Drawn(run, [pack(envelope(x, run).T) for x in values])


def envelope(values: Float[np.ndarray, "n P"], run: int) -> Float[np.ndarray, "m P"]:
    """Return the lowest and the highest value of each run of samples, alternating.

    Missing samples are ignored; a run without any other is missing.
    """
    if run == 1:
        return np.asarray(values, float)
    starts = np.arange(0, len(values), run)
    ends = [extreme.reduceat(values, starts) for extreme in (np.fmin, np.fmax)]
    return np.stack(ends, axis=1).reshape(-1, values.shape[1])


def _estimate(values: Sequence[np.ndarray], run: int) -> float:
    """Return the bytes that all recordings would take, estimated from some of them."""
    tried = [values[i] for i in np.unique(np.linspace(0, len(values) - 1, N_TRIED, dtype=int))]
    taken = sum(len(pack(envelope(x, run).T)["bytes"]) for x in tried)
    return taken * sum(x.size for x in values) / max(sum(x.size for x in tried), 1)
