"""The words attached to signals: subject ids, groups, channel names and units."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from percdl.exceptions import InvalidParameterError, InvalidRecordingError

Label = str | int | np.integer


def as_label(value: object, what: str, who: str) -> str:
    """Return a subject id or a group as text.

    Only text and whole numbers are taken: a float such as 7.0 mostly comes from an
    integer column with a hole in it, and ``"7.0"`` would match nothing.
    """
    if not isinstance(value, Label) or str(value) == "":
        raise InvalidRecordingError(
            f"{who}: {what}={value!r} is not a usable label. "
            f"Pass non-empty text or a whole number, e.g. {what}='P01'."
        )
    return str(value)


def as_names(names: str | Iterable[Any], what: str = "channels") -> tuple[Any, ...]:
    """Return names as a tuple; a lone string is one name, not a series of letters."""
    if isinstance(names, str):
        return (names,)
    try:
        return tuple(names)
    except TypeError as error:
        raise InvalidParameterError(
            f"{what}={names!r} has no entries. Pass a list, or leave it out."
        ) from error


def check_hashable(column: pd.Series) -> None:
    """Refuse cells that hold lists, sets or dicts: they name nobody, and are no times."""
    try:
        column.unique()
    except TypeError as error:
        raise InvalidRecordingError(
            f"Column {column.name!r} holds collections ({error}). A cell holds one value."
        ) from error


def channel_names(
    channels: str | Iterable[str] | None, shape: tuple[int, ...], who: str
) -> tuple[str, ...]:
    """Return one distinct name per column of an array of that shape."""
    n_times, n_channels = shape
    if channels is None:
        return tuple(f"ch{index}" for index in range(n_channels))
    names = as_names(channels)
    if len(names) != n_channels:
        rows_are_channels = len(names) == n_times
        raise InvalidRecordingError(
            f"{who}: channels={list(names)} names {len(names)} channel(s), but values has "
            f"{n_channels} column(s) (shape {shape}, read as n_times x n_channels). "
            + ("Pass values.T." if rows_are_channels else "Give one name per column.")
        )
    _check_texts(names, "channels", who)
    if len(set(names)) != len(names):
        raise InvalidRecordingError(
            f"{who}: channels={list(names)} repeats a name. Give each channel its own name."
        )
    return tuple(str(name) for name in names)


def channel_units(units: str | Iterable[str] | None, n_channels: int, who: str) -> tuple[str, ...]:
    """Return one unit per channel; a lone string is the unit of every channel."""
    if units is None or isinstance(units, str):
        return (str(units or ""),) * n_channels
    named = as_names(units, "units")
    if len(named) != n_channels:
        raise InvalidRecordingError(
            f"{who}: units={list(named)} gives {len(named)} unit(s) for {n_channels} channel(s). "
            "Give one per channel, or one string for all."
        )
    _check_texts(named, "units", who)
    return tuple(str(unit) for unit in named)


def as_steps(processing: str | Iterable[str], who: str) -> tuple[str, ...]:
    """Return the steps of processing as a tuple; a lone string is one step."""
    steps = as_names(processing, "processing")
    _check_texts(steps, "processing", who)
    return tuple(str(step) for step in steps)


def _check_texts(names: tuple[str, ...], what: str, who: str) -> None:
    for name in names:
        if not isinstance(name, str):
            raise InvalidRecordingError(
                f"{who}: {what}={list(names)} contains {name!r}, which is not text. "
                "Pass a list of strings."
            )
