"""Resampling, filtering and scaling of cohorts; every step is recorded in the recordings."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals.recording import Recording, Recordings, as_rate

C = TypeVar("C", bound="Preprocessing")
_RESAMPLED = "resampled from "
_ZSCORED = {
    "channel": "z-scored per channel",
    "recording": "z-scored per recording (one scale for all channels)",
}
# The filter of `scipy.signal.resample_poly` reaches this many samples of the slower rate to
# each side.
_REACH = 10
_LARGEST_FACTOR = 10_000


class Preprocessing(Recordings):
    """Steps that change the samples of a cohort; each returns a new cohort."""

    @property
    def processing(self) -> tuple[str, ...]:
        """Processing steps of the recordings, in order; recordings differ in resampling only."""
        return max([recording.processing for recording in self], key=len)

    def resample(self: C, sfreq: float) -> C:
        """Resample all recordings to one rate, with a low-pass filter against aliasing.

        Polyphase filtering (`scipy.signal.resample_poly`). Gaps are never filled: a new sample is
        missing if its filter touches a missing one (ten samples of the slower rate to each side).

        >>> from percdl import Cohort
        >>> walks = Cohort.from_arrays(np.ones((1, 8)), sfreq=200)
        >>> walks.resample(100)
        Cohort(1 recording, 1 channel (ch0), 100 Hz, 4 samples,
            processed: resampled from 200 to 100 Hz)
        """
        rate = as_rate(sfreq, "resample")
        return type(self)(_resample(recording, rate) for recording in self)

    def bandpass(self: C, low: float | None, high: float | None, *, order: int = 4) -> C:
        """Keep the frequencies between two edges, without delay.

        A Butterworth filter of this order, run forwards and backwards: the gain at an edge is 1/2,
        and the phase is zero. Runs of observed samples are filtered separately; missing samples
        stay missing. Edges are in Hz, None leaves a side open.
        """
        return type(self)(_bandpass(recording, low, high, order) for recording in self)

    def zscore(self: C, per: str = "channel") -> C:
        """Scale each recording to mean zero and unit standard deviation, ignoring missing samples.

        ``per="channel"`` scales each channel by its own standard deviation. ``per="recording"``
        centers each channel and divides all by one number, which keeps their proportions.
        """
        if per not in _ZSCORED:
            raise InvalidParameterError(
                f"`zscore(per={per!r})` must be one of {', '.join(map(repr, _ZSCORED))}."
            )

        def scaled(recording: Recording) -> Recording:
            location, scale = find_scaling(recording, per)
            values = (recording.values.astype(np.float64) - location) / scale
            return _processed(recording, values, _ZSCORED[per], units="SD")

        return type(self)(map(scaled, self))

    def apply(
        self: C,
        function: Callable[[np.ndarray], np.ndarray],
        step: str,
        units: str | Iterable[str] | None = None,
    ) -> C:
        """Change the values (n_times, n_channels) of each recording by your own function.

        The function returns an array of the same shape. ``step`` is its name in `processing`;
        ``units`` are those of the new values.
        """

        def changed(recording: Recording) -> Recording:
            values = np.asarray(function(recording.values.copy()))
            if values.shape != recording.values.shape:
                raise InvalidParameterError(
                    f"The step {step!r} turned values of shape {recording.values.shape} into "
                    f"{values.shape} (subject {recording.subject!r}). It must keep the shape; "
                    "change rates with `resample`."
                )
            steps = (*recording.processing, step)
            return replace(recording, values=values, processing=steps, units=units)

        return type(self)(map(changed, self))


def lasting_steps(steps: Iterable[str]) -> tuple[str, ...]:
    """Return the steps that must agree for values to be comparable: all but resampling."""
    return tuple(step for step in steps if not step.startswith(_RESAMPLED))


def in_words(steps: Sequence[str]) -> str:
    """Return the steps as the end of a sentence."""
    return f"processed ({'; '.join(steps)})" if steps else "not processed"


def _processed(recording: Recording, values: np.ndarray, step: str, **changes: Any) -> Recording:
    """Return a recording with new values, of the same precision, and the step that made them."""
    steps, values = (*recording.processing, step), values.astype(recording.values.dtype)
    return replace(recording, values=values, processing=steps, **changes)


def _resample(recording: Recording, sfreq: float) -> Recording:
    if sfreq == recording.sfreq:
        return recording
    exact = sfreq / recording.sfreq
    ratio = Fraction(exact).limit_denominator(_LARGEST_FACTOR)
    drift = abs(float(ratio) / exact - 1) * recording.n_times  # in samples
    if ratio.numerator > _LARGEST_FACTOR or ratio == 0 or drift > 0.1:
        raise InvalidParameterError(
            f"Subject {recording.subject!r} cannot be resampled from {recording.sfreq:.10g} to "
            f"{sfreq:.10g} Hz: no ratio of integers up to {_LARGEST_FACTOR} is close enough. "
            "Round one of the rates."
        )
    values = np.column_stack([_resample_channel(channel, ratio) for channel in recording.values.T])
    step = f"{_RESAMPLED}{recording.sfreq:g} to {sfreq:g} Hz"
    return _processed(recording, values, step, sfreq=sfreq)


def _resample_channel(
    channel: Float[np.ndarray, " n_times"], ratio: Fraction
) -> Float[np.ndarray, " n_new"]:
    from scipy.signal import resample_poly

    up, down = ratio.numerator, ratio.denominator
    missing = np.isnan(channel)
    if missing.all():
        return np.full(-(-len(channel) * up // down), np.nan)
    samples = np.arange(len(channel))
    # Interpolated values keep the filter finite; every sample they touch is masked below.
    held = np.interp(samples, samples[~missing], channel[~missing].astype(np.float64))
    # The line between the ends is resampled exactly. The remainder starts and ends at zero, as
    # the filter assumes.
    start, slope = held[0], (held[-1] - held[0]) / max(1, len(held) - 1)
    resampled = resample_poly(held - (start + slope * samples), up, down)
    resampled += start + slope * np.arange(len(resampled)) / float(ratio)
    if missing.any():
        # A new sample is missing if its filter touches a missing one.
        reach, at = _REACH * max(1.0, float(1 / ratio)), np.arange(len(resampled)) / float(ratio)
        n_before = np.concatenate([[0], np.cumsum(missing)])
        first = np.clip(np.ceil(at - reach), 0, len(missing)).astype(int)
        last = np.clip(np.floor(at + reach) + 1, 0, len(missing)).astype(int)
        resampled[n_before[last] > n_before[first]] = np.nan
    return resampled


def _bandpass(
    recording: Recording, low: float | None, high: float | None, order: int
) -> Recording:
    from scipy.signal import butter

    nyquist = recording.sfreq / 2
    lower, upper = 0.0 if low is None else low, nyquist if high is None else high
    given = [edge for edge in (low, high) if edge is not None]
    if order < 1 or not given or not lower < upper or any(not 0 < f < nyquist for f in given):
        raise InvalidParameterError(
            f"`bandpass(low={low}, high={high}, order={order})` must satisfy 0 < low < high < "
            f"{nyquist:g} Hz, half the sampling rate of subject {recording.subject!r}, and "
            "order >= 1. Pass low=None or high=None for a filter with one edge."
        )
    kind = "highpass" if high is None else "lowpass" if low is None else "bandpass"
    band = given if len(given) > 1 else given[0]
    sections: Any = butter(order, band, kind, fs=recording.sfreq, output="sos")
    filtered = [
        _filter_runs(channel, sections, recording, name)
        for channel, name in zip(recording.values.T, recording.channels, strict=True)
    ]
    hertz = " to ".join(f"{edge:g}" for edge in given)
    step = f"{kind.replace('pass', '-pass')} {hertz} Hz, Butterworth order {order}, zero phase"
    return _processed(recording, np.column_stack(filtered), step)


def _filter_runs(
    channel: Float[np.ndarray, " n_times"], sections: np.ndarray, recording: Recording, name: str
) -> Float[np.ndarray, " n_times"]:
    """Filter each run of observed samples separately."""
    from scipy.signal import sosfiltfilt

    filtered = np.full(len(channel), np.nan)
    padding = 3 * (2 * len(sections) + 1)
    observed = np.concatenate([[False], ~np.isnan(channel), [False]])
    runs = np.flatnonzero(observed[1:] != observed[:-1]).reshape(-1, 2)
    for start, stop in runs:
        if stop - start <= padding:
            raise InvalidRecordingError(
                f"Subject {recording.subject!r}: channel {name!r} has {stop - start} sample(s) in "
                f"a row from sample {start} on, but this filter needs more than {padding}. Lower "
                "`order`, mark such short pieces as missing (NaN), or drop the subject."
            )
        run = channel[start:stop].astype(np.float64)
        filtered[start:stop] = sosfiltfilt(sections, run, padlen=padding)
    return filtered


def scaled_per(steps: Iterable[str]) -> str | None:
    """Return the ``per`` of `zscore` that recordings were scaled with; None if not scaled.

    >>> scaled_per(["resampled from 200 to 100 Hz", "z-scored per channel"])
    'channel'
    """
    found = [per for per, step in _ZSCORED.items() if step in [*steps]]
    return found[0] if found else None


def find_scaling(recording: Recording, per: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the means that `zscore` subtracts from each channel, and what it divides by."""
    values = recording.values.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a channel without samples
        location = np.nanmean(values, axis=0)
        power = np.nanmean((values - location) ** 2, axis=0)
        largest = np.nanmax(np.abs(values), axis=0)
    precision = 8 * np.finfo(recording.values.dtype).eps
    varies = np.sqrt(power) > precision * largest
    absent = np.isnan(power)
    if absent.any() or not (varies.all() if per == "channel" else varies.any()):
        wrong = absent if absent.any() else ~varies
        raise InvalidRecordingError(
            f"Subject {recording.subject!r}: channel {recording.channels[int(wrong.argmax())]!r} "
            f"is {'missing (NaN)' if absent.any() else 'constant'}, so it has no z-score. Check "
            "the sensor, drop the channel or the subject, or use `per='recording'` for constant "
            "channels among others."
        )
    joint = np.full_like(power, np.nanmean((values - location) ** 2))
    return location, np.sqrt(power if per == "channel" else joint)
