"""From plain arrays to recordings: one axis order, never guessed."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals.labels import Label, as_names
from percdl.signals.recording import Arrays, Recording

_LAYOUTS = (
    "a list of (n_times, n_channels) arrays, a 3-D array (n_subjects, n_times, n_channels) "
    "or a 2-D array (n_subjects, n_times)"
)


def recordings_from_arrays(
    arrays: Arrays,
    *,
    sfreq: Arrays = 1.0,
    subjects: Iterable[Label] | None = None,
    groups: Iterable[Label | None] | None = None,
    channels: str | Iterable[str] | None = None,
    units: str | Iterable[str] | None = None,
) -> list[Recording]:
    """Return one `Recording` per subject; see `Cohort.from_arrays`."""
    signals = _one_per_subject(arrays)
    n_subjects = len(signals)
    labels = range(n_subjects) if subjects is None else _spread("subjects", subjects, n_subjects)
    group_of = [None] * n_subjects if groups is None else _spread("groups", groups, n_subjects)
    rates: list[Any] = (
        [sfreq] * n_subjects if _is_single(sfreq) else _spread("sfreq", sfreq, n_subjects)
    )
    # A generator of names would be spent by the first subject.
    names = channels if channels is None or isinstance(channels, str) else as_names(channels)
    scales = units if units is None or isinstance(units, str) else as_names(units, "units")
    return [
        Recording(x, sfreq=rate, channels=names, units=scales, subject=subject, group=group)
        for x, rate, subject, group in zip(signals, rates, labels, group_of, strict=True)
    ]


def _one_per_subject(arrays: Arrays) -> list[Any]:
    """Cut the input along its subject axis."""
    if isinstance(arrays, list | tuple):
        if arrays and all(map(_is_single, arrays)):
            raise InvalidRecordingError(
                f"Got a list of {len(arrays)} single values where {_LAYOUTS} is needed. "
                "Reshape your data: pass [x] if x is one univariate recording."
            )
        return list(arrays)
    # asanyarray keeps masked arrays as they are: their mask means "missing".
    array = np.asanyarray(arrays)
    if array.ndim == 1 and array.dtype == object and array.size:
        return _one_per_subject(list(array))
    if array.ndim not in (2, 3):
        raise InvalidRecordingError(
            f"Got an array of {array.ndim} dimension(s) (shape {array.shape}) where {_LAYOUTS} "
            "is needed. Reshape your data: pass x[None, :] if x is one univariate recording."
        )
    if 0 in array.shape[1:]:
        # In scikit-learn's words, which its estimator checks look for.
        raise InvalidRecordingError(
            f"Found array with 0 feature(s) (shape={array.shape}) while a minimum of 1 is "
            "required. Every recording needs at least one sample and one channel."
        )
    return list(array)


def _spread(name: str, values: Any, n_subjects: int) -> list[Any]:
    """Return the values of an argument that has one entry per subject."""
    if isinstance(values, str):
        raise InvalidParameterError(
            f"{name}={values!r} is one string, but {n_subjects} recording(s) need one entry each. "
            f"Pass a list, e.g. {name}=[{values!r}, ...]."
        )
    entries = list(as_names(values, name))
    if len(entries) != n_subjects:
        raise InvalidParameterError(
            f"{name} has {len(entries)} entries, but there are {n_subjects} recording(s). "
            "Pass one entry per recording, in the same order."
        )
    return entries


def _is_single(value: object) -> bool:
    """Whether a value is one number or text, and no array."""
    try:
        return np.ndim(value) == 0  # pyright: ignore[reportArgumentType]
    except ValueError:  # rows of unequal lengths
        return False
