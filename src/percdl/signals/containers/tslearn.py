"""The padded arrays of tslearn: time before channels, NaN behind the end of a series."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals.containers.refusal import has_axes, refusal
from percdl.signals.recording import Arrays, Recording


def arrays_from_padded(X: Any, lengths: Arrays | None) -> Sequence[Any] | np.ndarray:
    """Cut each series of an array (n_ts, sz, d) where it ends."""
    if not has_axes(X, 3):
        needed = "a 3-D array (n_ts, sz, d) padded with NaN"
        advice = (
            "Use `tslearn.utils.to_time_series_dataset(X)` to make one."
            if isinstance(X, list | tuple)
            else "Pass `X[:, :, None]` if its rows are univariate series."
        )
        raise refusal(X, "from_tslearn", needed, advice)
    padded = np.asarray(X)
    if 0 in padded.shape:
        return padded  # refused like any other array without samples
    ends = _observed_ends(padded)
    if lengths is not None:
        ends = _checked(lengths, ends, padded.shape[1])
    if len(ends) and not ends.all():
        raise InvalidRecordingError(
            f"Series {np.flatnonzero(ends == 0)[0]} of X is NaN all over: it has no length. "
            "Leave it out, or pass `lengths=`."
        )
    return [series[:end] for series, end in zip(padded, ends, strict=True)]


def padded_from_recordings(recordings: Sequence[Recording]) -> np.ndarray:
    """Return an array (n_ts, sz, d), NaN behind the end of each recording."""
    n_times = max(recording.n_times for recording in recordings)
    dtype = np.result_type(*(recording.values.dtype for recording in recordings))
    padded = np.full((len(recordings), n_times, recordings[0].n_channels), np.nan, dtype)
    for series, recording in zip(padded, recordings, strict=True):
        series[: recording.n_times] = recording.values
    return padded


def _observed_ends(padded: np.ndarray) -> np.ndarray:
    """Return how far each series goes: behind that, every channel is NaN."""
    if padded.dtype.kind != "f":  # integers have no NaN, hence no padding
        return np.full(len(padded), padded.shape[1])
    observed: np.ndarray = np.any(~np.isnan(padded), axis=2)
    behind = np.argmax(observed[:, ::-1], axis=1)
    return np.where(observed.any(1), padded.shape[1] - behind, 0)


def _checked(lengths: Arrays, ends: np.ndarray, most: int) -> np.ndarray:
    stated = np.atleast_1d(lengths)
    if stated.shape != ends.shape or stated.dtype.kind not in "iu":
        raise InvalidParameterError(
            f"lengths has {len(stated)} entries of type {stated.dtype}, but X has {len(ends)} "
            "series. Pass one integer per series."
        )
    wrong = np.flatnonzero((stated < ends) | (stated > most))
    if wrong.size:
        at = wrong[0]
        raise InvalidParameterError(
            f"lengths[{at}]={stated[at]}, but series {at} has its last observed sample at "
            f"{ends[at] - 1} of {most}. Pass the number of samples before the padding."
        )
    return stated
