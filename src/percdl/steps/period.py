"""The period of each recording, from its autocorrelation.

The autocorrelation of a periodic signal peaks at the period and at its multiples, which are easily
mistaken for it. Two rules prevent this: within a recording the *first* high peak counts, and
across recordings a vote restricts the range, because all people repeat the same pattern. People
far from the vote keep their own period if their recording shows it clearly. A third rule is for
recordings whose pace changes: both ends are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import fft
from scipy.ndimage import uniform_filter1d
from scipy.signal import find_peaks
from scipy.special import ndtri

# A recording proposes its first peak of at least this share of the highest one.
HIGH = 0.6
# Periods lie within this factor of the median proposal.
REACH = 1.7
# A peak at a half or a third of the period is the period if it is at least this share as high.
# Both exceptions to the vote need a correlation that is clear.
AS_HIGH, CLEAR = 0.9, 0.35
# Lags within this share of a multiple count as the multiple; two paces have one below the last.
NEAR, MOST_PARTS = 0.05, 6
# Atoms do not overlap, so cycles shorter than the atom are lost; at most one in ten should be.
# Cycles vary within people about half as much as between people (5.6% and 11% on the gait
# recordings), so the decile of all cycles is the 7.5% quantile of people's periods.
SHORT_SHARE = 0.075
# And hardly any cycle of a typical person should be lost: the atom is at least this many robust
# standard deviations shorter than the person's median cycle (0.6% of normal cycles are shorter).
SHORT_DEVIATIONS = 2.5
# The median absolute deviation of a standard normal variable.
NORMAL_MAD = float(ndtri(0.75))
# Cycles examined in a recording, candidates for its template, and the share of the usual gain
# that a match needs.
MOST_CYCLES, N_TEMPLATES, LEAST_GAIN = 128, 9, 0.25
# Samples of recordings whose correlations are computed together.
BATCH_SAMPLES = 2**20


class Periods(NamedTuple):
    """Periods of recordings, in samples (NaN without a period), and their strength.

    ``strength`` is the autocorrelation at the period; it is 1 if all cycles are equal.
    """

    period: Float[np.ndarray, " S"]
    strength: Float[np.ndarray, " S"]


def estimate_periods(recordings: Sequence[np.ndarray], vote: bool = True) -> Periods:
    """Return the period of each recording (n_times, n_channels); NaN marks missing samples.

    Without a ``vote`` each recording is looked at by itself. Cost O(P N log N) per recording.
    """
    correlations = _correlate_all(recordings)
    peaks = [*map(find_lags, correlations)]
    proposals = np.array([*map(_propose, correlations, peaks)])
    usual = proposals
    if vote and not np.isnan(proposals).all():
        usual = np.full(len(proposals), np.nanmedian(proposals))
    found, rows = [], zip(recordings, correlations, peaks, proposals, usual, strict=True)
    for values, correlation, lags, proposal, own in rows:
        whole = _of_the_whole(correlation, lags, proposal, own)
        found.append(_at_two_paces(values, correlation, whole[0]) or whole)
    periods, strengths = np.array(found, float).T
    return Periods(periods, strengths)


def agree_on_length(
    periods: Float[np.ndarray, " S"], recordings: Sequence[np.ndarray] = ()
) -> int | None:
    """Return the atom length for these periods, or None without any.

    A low quantile over people of their periods; and, for the recordings given, at most the
    shortest usual cycle of a typical one.
    """
    known = periods[np.isfinite(periods)]
    if not len(known):
        return None
    length = float(np.quantile(known, SHORT_SHARE))
    pairs = zip(recordings, periods, strict=False)
    short = [shortest_cycle(x, period) for x, period in pairs if np.isfinite(period)]
    return round(min(length, np.median(short)) if short else length)


def shortest_cycle(values: np.ndarray, period: float) -> float:
    """Return a length, in samples, that nearly all cycles of a recording exceed.

    Robust: the median interval less `SHORT_DEVIATIONS` times the spread, at most the period.
    """
    intervals = find_intervals(values, period)
    intervals = intervals[np.abs(intervals / period - 1) < 0.5]
    if len(intervals) < 3:
        return period
    middle = np.median(intervals)
    # Half a sample may be rounding.
    spread = max(0.0, np.median(np.abs(intervals - middle)) - 0.5) / NORMAL_MAD
    return float(min(period, middle - SHORT_DEVIATIONS * spread))


def find_intervals(
    values: np.ndarray, period: float, least_gain: float = LEAST_GAIN
) -> Float[np.ndarray, " n"]:
    """Return the intervals between the repetitions of a segment of the recording, in samples.

    The segment lasts half a period and is as loud as usual; of a few such segments, the one that
    explains most of the recording by its repetitions. A repetition has at least the share
    ``least_gain`` of the usual gain. Cost O(P N log N).
    """
    x = _centred(values[: int(MOST_CYCLES * period)])[0]
    cycle, width = round(period), max(1, round(period / 2))
    energy = np.convolve((x**2).sum(1), np.ones(width), "valid")
    blocks = energy[: len(energy) // cycle * cycle].reshape(-1, cycle)
    if not blocks.any():
        return np.empty(0)
    loudest = blocks.argmax(1) + cycle * np.arange(len(blocks))
    unusual = np.abs(energy[loudest] - np.median(energy[loudest]))
    best, peaks = -1.0, np.empty(0, int)
    n = fft.next_fast_len(len(x) + width, real=True)
    x_hat = np.asarray(fft.rfft(x, n, axis=0))
    for start in loudest[np.argsort(unusual, kind="stable")[:N_TEMPLATES]]:
        template = x[start : start + width]
        spectrum = (x_hat * np.conj(np.asarray(fft.rfft(template, n, axis=0)))).sum(1)
        match = np.asarray(fft.irfft(spectrum, n))[: len(energy)].clip(0)
        gain = match**2 / max((template**2).sum(), np.finfo(float).tiny)
        found = find_peaks(gain, distance=max(1, cycle // 2))[0]
        if gain[found].sum() > best:
            usual = np.median(np.sort(gain[found])[-len(blocks) :]) if len(found) else 0.0
            best, peaks = gain[found].sum(), found[gain[found] >= least_gain * usual]
    return np.diff(peaks).astype(float)


def drift_share(values: np.ndarray, width: int) -> float:
    """Return the share of the variance that a moving average over ``width`` samples keeps."""
    x, _ = _centred(values)
    total = (x**2).sum()
    return float((uniform_filter1d(x, max(1, width), axis=0) ** 2).sum() / total) if total else 0.0


def _correlate_all(recordings: Sequence[np.ndarray]) -> list[Float[np.ndarray, " lags"]]:
    """Return `autocorrelate` of each recording, computed together where shapes are equal."""
    found: list[Any] = [None] * len(recordings)
    shapes: dict[tuple[int, ...], list[int]] = {}
    for place, values in enumerate(recordings):
        shapes.setdefault(values.shape, []).append(place)
    for shape, places in shapes.items():
        step = max(1, BATCH_SAMPLES // math.prod(shape))
        for start in range(0, len(places), step):
            some = places[start : start + step]
            together = autocorrelate(np.stack([recordings[place] for place in some]))
            for place, correlation in zip(some, together, strict=True):
                found[place] = correlation
    return found


def autocorrelate(values: Float[np.ndarray, "*batch N P"]) -> Float[np.ndarray, "*batch lags"]:
    """Return the correlation of a recording with itself at lags up to half its duration.

    Channels are centred and summed. The result is normalized by the energies of the two parts
    that overlap at a lag, so it lies in [-1, 1] and does not depend on units.
    """
    x, observed = _centred(values)
    n_lags = x.shape[-2] // 2 + 1
    n = fft.next_fast_len(x.shape[-2] + n_lags, real=True)

    def correlate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(fft.irfft((np.conj(a) * b).sum(-1), n))[..., :n_lags]

    x_hat = np.asarray(fft.rfft(x, n, axis=-2))
    product = correlate(x_hat, x_hat)
    # The energy of either factor of x[t] x[t + lag], summed where both are seen.
    if observed.all():
        energy = (x**2).sum(-1)
        before = np.cumsum(energy, -1)[..., ::-1]
        after = np.cumsum(energy[..., ::-1], -1)[..., ::-1]
        energies = before[..., :n_lags], after[..., :n_lags]
    else:
        energy, seen = np.asarray(fft.rfft(np.stack([x**2, observed]), n, axis=-2))
        energies = correlate(energy, seen), correlate(seen, energy)
    norm = np.sqrt(np.clip(energies, 0, None).prod(0))
    counts = norm > 1e-9 * norm.max(-1, keepdims=True)
    return np.divide(product, norm, out=np.zeros(norm.shape), where=counts)


def _centred(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the centred recording, zero at missing samples, and a mask of observed ones."""
    observed = ~np.isnan(values)
    if observed.all():
        return values - values.mean(-2, dtype=float, keepdims=True), observed
    n_seen = np.maximum(observed.sum(-2, keepdims=True), 1)
    mean = np.where(observed, values, 0).sum(-2, dtype=float, keepdims=True) / n_seen
    return np.where(observed, values - mean, 0), observed


def _propose(correlation: np.ndarray, peaks: np.ndarray) -> float:
    """Return the first high peak after lag zero, or NaN."""
    peaks = peaks[correlation[peaks] >= HIGH * correlation[peaks].max(initial=0)]
    return float(peaks[0]) if len(peaks) else np.nan


def find_lags(correlation: np.ndarray, crossed: bool = True) -> np.ndarray:
    """Return the positive peaks; by default only those after the first zero crossing."""
    peaks = find_peaks(correlation, height=0)[0]
    return peaks[np.logical_or.accumulate(correlation <= 0)[peaks]] if crossed else peaks


def _of_the_whole(
    correlation: np.ndarray, peaks: np.ndarray, proposal: float, vote: float
) -> tuple[float, float]:
    """Return the period of a whole recording, and its strength.

    The highest peak within reach of the vote; or one as high at a half or a third of it; or the
    recording's own proposal, if that is much higher and no multiple of it.
    """
    near = find_lags(correlation, crossed=False)
    near = near[(near >= vote / REACH) & (near <= vote * REACH)]
    best = int(near[correlation[near].argmax()]) if len(near) else 0
    height = correlation[best] if best else 0.0
    if np.isfinite(proposal) and correlation[int(proposal)] >= max(CLEAR, height / HIGH):
        multiples = best * np.arange(2, 4)
        if not (np.abs(multiples / proposal - 1) <= NEAR).any():
            return proposal, float(correlation[int(proposal)])
    for part in (3, 2):
        close = peaks[np.abs(peaks * part - best) <= NEAR * best]
        least = max(CLEAR, AS_HIGH * height)
        if len(close) and correlation[close].max() >= least:
            best = int(close[correlation[close].argmax()])
            break
    return (float(best), float(correlation[best])) if best else (np.nan, 0.0)


def _at_two_paces(
    values: np.ndarray, correlation: np.ndarray, whole: float
) -> tuple[float, float] | None:
    """Return the mean period and strength of both ends if their paces differ, else None.

    A recording whose pace changes repeats best at a common multiple of both periods. So the period
    of the whole is an n-fold one of its first third, and an m-fold one of its last.
    """
    third = len(values) // 3
    if not whole < third / 2 or not _parts(correlation, whole, CLEAR / 2):
        return None
    ends = []
    for part in (values[:third], values[-third:]):
        correlation = autocorrelate(part)
        near = correlation[int((1 - NEAR) * whole) : int((1 + NEAR) * whole) + 1]
        parts = _parts(correlation, whole, max(CLEAR, AS_HIGH * near.max(initial=0)))
        ends += [(count, lag, correlation[lag]) for count, lag in parts[:1]]
    if len({count for count, _, _ in ends}) < 2:
        return None
    _, period, strength = np.mean(ends, axis=0)
    return float(period), float(strength)


def _parts(correlation: np.ndarray, whole: float, least: float) -> list[tuple[int, int]]:
    """Return in how many parts a lag can be divided, and the peaks there, the shortest first."""
    peaks = find_lags(correlation)
    peaks = peaks[correlation[peaks] >= least]
    counts = np.round(whole / peaks).astype(int)
    good = (counts > 1) & (counts <= MOST_PARTS) & (np.abs(peaks * counts / whole - 1) <= NEAR)
    return [(int(n), int(lag)) for n, lag in zip(counts[good], peaks[good], strict=True)]
