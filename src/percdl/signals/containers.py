"""Recognize the containers of other libraries, and say which converter reads them."""

import pandas as pd

from percdl.exceptions import InvalidRecordingError
from percdl.signals.recording import qualified_name


def refusal(X: object, converter: str, needed: str, advice: str = "") -> InvalidRecordingError:
    """Return an error that names the value, the layout needed and the converter to use."""
    door = better_door(X)
    if door is not None and f".{converter}(" not in door:
        advice = f"Use {door} instead."
    return InvalidRecordingError(
        f"`Cohort.{converter}` needs {needed}, but got {in_words(X)}. {advice}".rstrip()
    )


def in_words(X: object) -> str:
    """Describe a value by its type and shape, and a list by its first item too."""
    if isinstance(X, list | tuple):
        first = f", the first {in_words(X[0])}" if len(X) else ""
        return f"a {qualified_name(X)} of {len(X)}{first}"
    shape = getattr(X, "shape", None)
    return f"a {qualified_name(X)}" + (f" of shape {shape}" if isinstance(shape, tuple) else "")


def better_door(X: object) -> str | None:
    """Return the converter for a container, if its type is known."""
    item = X[0] if isinstance(X, list | tuple) and X else X
    if type(item).__module__.partition(".")[0] == "mne":
        return "`Cohort.from_mne(...)`"
    if isinstance(item, pd.DataFrame) and (
        item is not X or isinstance(item.index, pd.MultiIndex) or is_nested(item)
    ):
        return "`Cohort.from_sktime(...)`"
    if isinstance(item, pd.DataFrame | pd.Series):
        return "`Cohort.from_frame(frame, subject=..., channels=[...])`"
    return None


def has_axes(X: object, n_axes: int) -> bool:
    """Whether a value is an array with this number of axes; frames are not arrays."""
    return not isinstance(X, pd.DataFrame) and getattr(X, "ndim", None) == n_axes


def is_nested(frame: pd.DataFrame) -> bool:
    """Whether the cells of a frame are series, as in sktime's ``nested_univ``."""
    return frame.size > 0 and isinstance(frame.iat[0, 0], pd.Series)
