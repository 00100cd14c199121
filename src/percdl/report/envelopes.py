"""Recordings as a page draws them: every sample where that fits, else extremes of short runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from percdl.report.packing import Packed, pack

# Bytes of text for the packed samples: a page that a browser opens in a few seconds. The drawing
# library takes 5 MB, all else little.
BUDGET = 9_000_000
# Recordings tried out to see how well samples of their kind compress.
N_TRIED = 24


@dataclass(frozen=True)
class Drawn:
    """The recordings of a page.

    Attributes
    ----------
    run : int
        Samples that a pair of numbers, the lowest and the highest, stands for; 1 where all
        samples are there themselves.
    recordings : list of Packed
        Arrays (P, n) of samples, or (P, 2 n) of pairs.
    """

    run: int
    recordings: list[Packed]


def draw_recordings(values: Sequence[Float[np.ndarray, "_ P"]], budget: int = BUDGET) -> Drawn:
    """Pack recordings into so many bytes of text, in as much detail as that allows."""
    run, longest = 1, max(len(x) for x in values)
    while (size := _estimate(values, run)) > budget and run < longest:
        # Pairs are two numbers for a run: a run of two would save nothing.
        run = max(4, int(np.ceil(run * size / budget)))
    return Drawn(run, [pack(envelope(x, run).T) for x in values])


def envelope(values: Float[np.ndarray, "n P"], run: int) -> Float[np.ndarray, "m P"]:
    """Return the lowest and the highest value of each run of samples, in turn.

    Missing samples play no part; a run that holds nothing else is missing.

    >>> envelope(np.array([[1.0], [3.0], [2.0], [5.0]]), 3).ravel()
    array([1., 3., 5., 5.])
    """
    if run == 1:
        return np.asarray(values, float)
    starts = np.arange(0, len(values), run)
    known = np.isfinite(values)
    low = np.minimum.reduceat(np.where(known, values, np.inf), starts)
    high = np.maximum.reduceat(np.where(known, values, -np.inf), starts)
    pairs = np.stack([low, high], axis=1).reshape(-1, values.shape[1])
    return np.where(np.isfinite(pairs), pairs, np.nan)


def _estimate(values: Sequence[np.ndarray], run: int) -> float:
    """Return the bytes that all recordings would take, judged by some of them."""
    tried = [values[i] for i in np.unique(np.linspace(0, len(values) - 1, N_TRIED, dtype=int))]
    taken = sum(len(pack(envelope(x, run).T)["bytes"]) for x in tried)
    return taken * sum(x.size for x in values) / max(sum(x.size for x in tried), 1)
