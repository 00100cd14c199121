"""How long a cycle lasts: the period of each recording, from its autocorrelation.

The autocorrelation of a periodic signal peaks at the period and at its multiples, which are
the usual mistake. Two rules guard against them: within a recording the *first* high peak
counts, and across recordings a vote says where to look, since all people do the same thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import fft
from scipy.signal import find_peaks

# The first peak of at least this share of the highest one is a recording's own proposal.
HIGH = 0.6
# The vote is the median proposal; periods of people lie within this factor of it.
REACH = 1.7
# Atoms do not overlap, so cycles shorter than the atom are lost: at most one cycle in ten may
# be. Cycles also vary within people, about half as much as people differ (5.6% and 11% on the
# gait recordings); then one cycle in ten is shorter than the period of 7.5% of the people.
SHORT_SHARE = 0.075


class Periods(NamedTuple):
    """Periods of recordings, in samples (NaN where there is none), and how clear they are.

    ``strength`` is the autocorrelation at the period: 1 where all cycles are alike.
    """

    period: Float[np.ndarray, " S"]
    strength: Float[np.ndarray, " S"]


def estimate_periods(recordings: Sequence[np.ndarray]) -> Periods:
    """Return the period of each recording (n_times, n_channels); NaN marks missing samples.

    Cost O(P N log N) each.
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
    """Return the atom length for people with these periods: as long as nearly all cycles allow.

    A low quantile of the periods, None where nobody has one.
    """
    known = periods[np.isfinite(periods)]
    return round(float(np.quantile(known, SHORT_SHARE))) if len(known) else None


def autocorrelate(values: np.ndarray) -> Float[np.ndarray, " lags"]:
    """Return the correlation of a recording with itself at lags up to half its duration.

    The sum over channels, each around its mean; normalized by the energies of the two parts
    that overlap at a lag, so that it lies in [-1, 1] and units play no part.
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
    """Return the first high peak beyond the one at zero; NaN where there is none."""
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
