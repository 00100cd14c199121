"""What to do with a container that came to the wrong door."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from percdl.exceptions import InvalidRecordingError
from percdl.signals.consistency import qualified_name

_LONG_FRAME = "`Cohort.from_frame(frame, subject=..., channels=[...])`"


def refusal(X: object, converter: str, needed: str, advice: str = "") -> InvalidRecordingError:
    """Return the error that names what was passed, what was needed and the converter to use."""
    door = better_door(X)
    if door is not None and f".{converter}(" not in door:
        advice = f"Use {door} instead."
    return InvalidRecordingError(
        f"`Cohort.{converter}` needs {needed}, but got {in_words(X)}. {advice}".rstrip()
    )


def in_words(X: object) -> str:
    """Describe a value by its type and its shape, a list also by its first item.

    >>> in_words([np.zeros((3, 2)), np.zeros((4, 2))])
    'a list of 2, the first a numpy.ndarray of shape (3, 2)'
    """
    if isinstance(X, list | tuple):
        first = f", the first {in_words(X[0])}" if len(X) else ""
        return f"a {qualified_name(X)} of {len(X)}{first}"
    shape = getattr(X, "shape", None)
    return f"a {qualified_name(X)}" + (f" of shape {shape}" if isinstance(shape, tuple) else "")


def better_door(X: object) -> str | None:
    """Return the converter that reads such a container, where its type alone says so."""
    item = X[0] if isinstance(X, list | tuple) and X else X
    if type(item).__module__.partition(".")[0] == "mne":
        return "`Cohort.from_mne(...)`"
    if isinstance(item, pd.DataFrame):
        if item is not X or isinstance(item.index, pd.MultiIndex) or is_nested(item):
            return "`Cohort.from_sktime(...)`"
        return _LONG_FRAME
    if isinstance(item, pd.Series):
        return _LONG_FRAME
    return None


def has_axes(X: object, n_axes: int) -> bool:
    """Whether an array of so many axes is passed; frames are no arrays."""
    return not isinstance(X, pd.DataFrame) and getattr(X, "ndim", None) == n_axes


def is_nested(frame: pd.DataFrame) -> bool:
    """Whether the cells of a frame are series, as in sktime's ``nested_univ``."""
    return frame.size > 0 and isinstance(frame.iat[0, 0], pd.Series)


def check_names(channels: Any, arrays: Sequence[np.ndarray]) -> None:
    """Refuse names that do not fit arrays (n_channels, n_timepoints)."""
    if channels is None:
        return
    n_names = 1 if isinstance(channels, str) else len(channels)
    n_channels, n_times = arrays[0].shape
    if n_names != n_channels:
        raise InvalidRecordingError(
            f"channels names {n_names} channel(s), but the first case has {n_channels} (shape "
            f"{arrays[0].shape}, read as n_channels x n_timepoints). "
            + (
                "If time comes first in it, use `Cohort.from_arrays(...)`."
                if n_names == n_times
                else "Give one name per channel."
            )
        )
