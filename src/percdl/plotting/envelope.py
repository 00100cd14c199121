"""Long recordings, drawn with as many points as the eye can tell apart."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

N_BINS = 2000  # more than the pixels of a figure's width


def envelope_samples(
    values: Float[np.ndarray, " N"], n_bins: int = N_BINS
) -> Int[np.ndarray, " kept"]:
    """Return the samples to draw: where each bin has its least and its largest value.

    The line through them fills the same pixels as the line through all samples, for they are
    samples themselves, at their own times; first and last are kept. A recording of at most two
    samples per bin is kept whole. Bins without any observed sample keep one NaN, the gap.

    Examples
    --------
    >>> envelope_samples(np.array([0.0, 3.0, 1.0, 2.0, 2.0, -1.0, 0.5, 0.2]), n_bins=2)
    array([0, 1, 4, 5, 7])
    """
    n_times = len(values)
    if n_times <= 2 * n_bins:
        return np.arange(n_times)
    size = -(-n_times // n_bins)
    padded = np.full(-(-n_times // size) * size, np.nan)
    padded[:n_times] = values
    bins = padded.reshape(-1, size)
    # A bin without any observed sample gives its first: all of them are missing.
    missing, first = np.isnan(bins), size * np.arange(len(bins))
    lowest = first + np.where(missing, np.inf, bins).argmin(1)
    largest = first + np.where(missing, -np.inf, bins).argmax(1)
    return np.unique(np.concatenate([[0], lowest, largest, [n_times - 1]]))
