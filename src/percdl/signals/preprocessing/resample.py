"""Resampling to another rate, without aliasing and without filling holes."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
from jaxtyping import Bool, Float

from percdl.exceptions import InvalidParameterError
from percdl.signals.processing import resampling_step
from percdl.signals.recording import Recording

# The low-pass filter of `scipy.signal.resample_poly` reaches this many samples of the slower
# of the two rates to each side.
_REACH = 10
_LARGEST_FACTOR = 10_000


def resample(recording: Recording, sfreq: float) -> Recording:
    """Return a recording at another sampling rate; see `Cohort.resample`."""
    if not (np.isfinite(sfreq) and sfreq > 0):
        raise InvalidParameterError(
            f"`resample(sfreq={sfreq})` must be a number of samples per second, positive and "
            "finite."
        )
    if sfreq == recording.sfreq:
        return recording
    ratio = _ratio(recording, sfreq)
    values = recording.values
    resampled = np.column_stack([_resample_channel(channel, ratio) for channel in values.T])
    return replace(
        recording,
        values=resampled.astype(values.dtype),
        sfreq=sfreq,
        processing=(*recording.processing, resampling_step(recording.sfreq, sfreq)),
    )


def _ratio(recording: Recording, sfreq: float) -> Fraction:
    """Return the two rates as a ratio of whole numbers, exact to a tenth of a sample."""
    exact = sfreq / recording.sfreq
    ratio = Fraction(exact).limit_denominator(_LARGEST_FACTOR)
    drift = abs(float(ratio) / exact - 1) * recording.n_times
    if ratio.numerator > _LARGEST_FACTOR or ratio == 0 or drift > 0.1:
        raise InvalidParameterError(
            f"Subject {recording.subject!r} cannot be resampled from {recording.sfreq:.10g} to "
            f"{sfreq:.10g} Hz: no ratio of whole numbers up to {_LARGEST_FACTOR} is close enough. "
            "Round one of the rates."
        )
    return ratio


def _resample_channel(
    channel: Float[np.ndarray, " n_times"], ratio: Fraction
) -> Float[np.ndarray, " n_new"]:
    from scipy.signal import resample_poly

    up, down = ratio.numerator, ratio.denominator
    missing = np.isnan(channel)
    if missing.all():
        return np.full(-(-len(channel) * up // down), np.nan)
    samples = np.arange(len(channel))
    # Stand-ins keep the filter finite; whatever they touch is masked again below.
    held = np.interp(samples, samples[~missing], channel[~missing].astype(np.float64))
    # The line from end to end is resampled exactly by itself; what is left begins and ends at
    # zero, as the filter takes for granted.
    start, slope = held[0], (held[-1] - held[0]) / max(1, len(held) - 1)
    resampled = resample_poly(held - (start + slope * samples), up, down)
    resampled += start + slope * np.arange(len(resampled)) / float(ratio)
    if missing.any():
        resampled[_touched(missing, ratio, len(resampled))] = np.nan
    return resampled


def _touched(
    missing: Bool[np.ndarray, " n_times"], ratio: Fraction, n_new: int
) -> Bool[np.ndarray, " n_new"]:
    """Tell which new samples are computed from a missing one."""
    reach = _REACH * max(1.0, float(1 / ratio))
    centre = np.arange(n_new) / float(ratio)
    n_before = np.concatenate([[0], np.cumsum(missing)])
    first = np.clip(np.ceil(centre - reach), 0, len(missing)).astype(int)
    last = np.clip(np.floor(centre + reach) + 1, 0, len(missing)).astype(int)
    return n_before[last] > n_before[first]
