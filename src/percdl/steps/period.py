"""The period of each recording, from its autocorrelation.

The autocorrelation of a periodic signal peaks at the period and at its multiples, which are easily
mistaken for it. Two rules prevent this: within a recording the *first* high peak counts, and
across recordings a vote restricts the range, because all people repeat the same pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import fft
from scipy.signal import find_peaks

# A recording proposes its first peak of at least this share of the highest one.
HIGH = 0.6
# Periods lie within this factor of the median proposal.
REACH = 1.7
# Atoms do not overlap, so cycles shorter than the atom are lost; at most one in ten should be.
# Cycles vary within people about half as much as between people (5.6% and 11% on the gait
# recordings), so the decile of all cycles is the 7.5% quantile of people's periods.
SHORT_SHARE = 0.075


class Periods(NamedTuple):
    """Periods of recordings, in samples (NaN if there is none), and their strength.

    ``strength`` is the autocorrelation at the period; it is 1 if all cycles are equal.
    """

    period: Float[np.ndarray, " S"]
    strength: Float[np.ndarray, " S"]


def estimate_periods(recordings: Sequence[np.ndarray]) -> Periods:
    """Return the period of each recording (n_times, n_channels); NaN marks missing samples.

    Cost O(P N log N) per recording.
    """
    correlations = [autocorrelate(values) for values in recordings]
    proposals = np.array([_propose(correlation) for correlation in correlations])
    if np.isnan(proposals).all():
        return Periods(proposals, np.zeros(len(proposals)))
    vote = np.nanmedian(proposals)
    found = [_highest(correlation, vote / REACH, vote * REACH) for correlation in correlations]
    periods, strengths = np.array(found, float).T
    return Periods(periods, strengths)


def agree_on_length(periods: Float[np.ndarray, " S"]) -> int | None:
    """Return the atom length for these periods: a low quantile, or None without any period."""
    known = periods[np.isfinite(periods)]
    return round(float(np.quantile(known, SHORT_SHARE))) if len(known) else None


def autocorrelate(values: np.ndarray) -> Float[np.ndarray, " lags"]:
    """Return the correlation of a recording with itself at lags up to half its duration.

    Channels are centred and summed. The result is normalized by the energies of the two parts
    that overlap at a lag, so it lies in [-1, 1] and does not depend on units.
    """
    observed = ~np.isnan(values)
    n_seen = np.maximum(observed.sum(0), 1)
    mean = np.where(observed, values, 0).sum(0, dtype=float) / n_seen
    x = np.where(observed, values - mean, 0)
    n_lags = len(x) // 2 + 1
    product = _correlate(x, x, n_lags)
    energies = np.stack(
        [_correlate(x**2, observed, n_lags), _correlate(observed, x**2, n_lags)]
    ).clip(0)
    norm = np.sqrt(energies.prod(0))
    return np.divide(product, norm, out=np.zeros(n_lags), where=norm > 1e-9 * norm.max())


def _correlate(x: np.ndarray, y: np.ndarray, n_lags: int) -> np.ndarray:
    """Return ``sum over t of x[t] y[t + lag]``, over channels as well."""
    n = fft.next_fast_len(len(x) + n_lags, real=True)
    x_hat, y_hat = (np.asarray(fft.rfft(np.asarray(a, float), n, axis=0)) for a in (x, y))
    return np.asarray(fft.irfft((np.conj(x_hat) * y_hat).sum(1), n))[:n_lags]


def _propose(correlation: np.ndarray) -> float:
    """Return the first high peak after lag zero, or NaN."""
    peaks, _ = find_peaks(correlation, height=0)
    peaks = peaks[np.logical_or.accumulate(correlation <= 0)[peaks]]
    if not len(peaks):
        return np.nan
    return float(peaks[correlation[peaks] >= HIGH * correlation[peaks].max()][0])


def _highest(correlation: np.ndarray, shortest: float, longest: float) -> tuple[float, float]:
    """Return the highest peak between two lags, and its height."""
    peaks, _ = find_peaks(correlation, height=0)
    peaks = peaks[(peaks >= shortest) & (peaks <= longest)]
    if not len(peaks):
        return np.nan, 0.0
    best = peaks[correlation[peaks].argmax()]
    return float(best), float(correlation[best])
