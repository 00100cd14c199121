"""Band-pass filtering: Butterworth, forwards and backwards, hence without delay."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals.recording import Recording


def bandpass(
    recording: Recording, low: float | None, high: float | None, order: int = 4
) -> Recording:
    """Return a recording within a band of frequencies; see `Cohort.bandpass`."""
    from scipy.signal import butter

    _check_band(recording, low, high, order)
    kind = "highpass" if high is None else "lowpass" if low is None else "bandpass"
    edges = [edge for edge in (low, high) if edge is not None]
    band = edges if len(edges) > 1 else edges[0]
    sections: Any = butter(order, band, kind, fs=recording.sfreq, output="sos")
    filtered = [
        _filter_runs(channel, sections, recording, name)
        for channel, name in zip(recording.values.T, recording.channels, strict=True)
    ]
    return replace(
        recording,
        values=np.column_stack(filtered).astype(recording.values.dtype),
        processing=(*recording.processing, _step(low, high, order)),
    )


def _step(low: float | None, high: float | None, order: int) -> str:
    if high is None:
        band = f"high-pass {low:g} Hz"
    elif low is None:
        band = f"low-pass {high:g} Hz"
    else:
        band = f"band-pass {low:g} to {high:g} Hz"
    return f"{band}, Butterworth order {order}, zero phase"


def _check_band(recording: Recording, low: float | None, high: float | None, order: int) -> None:
    call = f"`bandpass(low={low}, high={high})`"
    if low is None and high is None:
        raise InvalidParameterError(f"{call} has no band. Give `low`, `high` or both, in Hz.")
    if order < 1:
        raise InvalidParameterError(f"`bandpass(order={order})` must be at least 1.")
    nyquist = recording.sfreq / 2
    lower, upper = low or 0.0, nyquist if high is None else high
    ordered = 0 <= lower < upper and (low is None or low > 0)
    if not ordered or (high is not None and high >= nyquist) or lower >= nyquist:
        raise InvalidParameterError(
            f"{call} must satisfy 0 < low < high < {nyquist:g} Hz, half the sampling rate of "
            f"subject {recording.subject!r}. Pass low=None or high=None for a filter with one "
            "edge."
        )


def _filter_runs(
    channel: Float[np.ndarray, " n_times"],
    sections: np.ndarray,
    recording: Recording,
    name: str,
) -> Float[np.ndarray, " n_times"]:
    """Filter each run of observed samples by itself: what is missing stays missing."""
    from scipy.signal import sosfiltfilt

    filtered = np.full(len(channel), np.nan)
    padding = 3 * (2 * len(sections) + 1)
    for start, stop in _observed_runs(channel):
        if stop - start <= padding:
            raise InvalidRecordingError(
                f"Subject {recording.subject!r}: channel {name!r} has {stop - start} sample(s) in "
                f"a row from sample {start} on, but this filter needs more than {padding}. Lower "
                "`order`, mark such short pieces as missing (NaN), or drop the subject."
            )
        run = channel[start:stop].astype(np.float64)
        filtered[start:stop] = sosfiltfilt(sections, run, padlen=padding)
    return filtered


def _observed_runs(channel: Float[np.ndarray, " n_times"]) -> np.ndarray:
    """Return the (start, stop) of each run of samples that are not missing.

    >>> _observed_runs(np.array([np.nan, 1.0, 2.0, np.nan, 3.0])).tolist()
    [[1, 3], [4, 5]]
    """
    observed = np.concatenate([[False], ~np.isnan(channel), [False]])
    return np.flatnonzero(observed[1:] != observed[:-1]).reshape(-1, 2)
