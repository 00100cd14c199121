"""Checks of the arguments of plots: shapes, channels, subjects, groups and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from percdl.exceptions import InvalidParameterError
from percdl.signals.cohort import unknown_subject

# Names of subjects, groups or channels.
Labels: TypeAlias = Sequence[Any] | np.ndarray | pd.Series | pd.Index


def as_shape(values: Any, name: str, *shapes: str, such_as: str = "") -> np.ndarray:
    """Return an array of numbers; raise unless it has one of the shapes, such as ``"S, L"``."""
    array = np.asarray(values, float)
    if array.ndim in [len(shape.split(",")) for shape in shapes] and array.size:
        return array
    example = f", such as `{such_as}`" if such_as else ""
    raise InvalidParameterError(
        f"`{name}` has shape {array.shape}. Pass an array ({') or ('.join(shapes)}){example}."
    )


def same_shape(values: Any, other: np.ndarray, name: str, other_name: str) -> np.ndarray:
    """Return an array; raise unless it has the shape of another."""
    array = np.asarray(values, float)
    if array.shape != other.shape:
        raise InvalidParameterError(
            f"`{name}` has shape {array.shape}, `{other_name}` has {other.shape}. Pass the same."
        )
    return array


def check_position(position: int, count: int, what: str) -> None:
    """Raise if an atom, channel or subject does not exist."""
    if not -count <= position < count:
        raise InvalidParameterError(
            f"`{what}={position}` is out of range: there are {count}, numbered from 0."
        )


def names_of(given: Labels | None, count: int, what: str) -> list[str]:
    """Return the names given, or ``"atom 0"``, ``"atom 1"``, ... ."""
    names = [f"{what} {i}" for i in range(count)] if given is None else list(map(str, given))
    if len(names) != count:
        raise InvalidParameterError(
            f"`{what}s` has {len(names)} name(s) for {count} {what}(s). Pass one for each."
        )
    return names


def find_subject(wanted: int | str, subjects: Labels | None, count: int) -> int:
    """Return the position of a subject given by position or name."""
    if not isinstance(wanted, str):
        check_position(int(wanted), count, "subject")
        return int(wanted) % count
    names = names_of(subjects, count, "subject")
    if wanted not in names:
        raise InvalidParameterError(f"{unknown_subject(wanted, names)} Pass `subjects`.")
    return names.index(wanted)


def groups_of(groups: Labels | None, count: int) -> np.ndarray:
    """Return the group of each subject as text; None for None or NaN."""
    of = ["all"] * count if groups is None else [None if pd.isna(g) else str(g) for g in groups]
    if len(of) != count:
        raise InvalidParameterError(
            f"`groups` has {len(of)} item(s) for {count} subject(s). Pass the group of each."
        )
    return np.array(of, dtype=object)


def check_events(events: pd.DataFrame) -> None:
    """Raise if a table of events has several subjects."""
    n_subjects = len(set(events["subject"])) if "subject" in events.columns else 1
    if n_subjects > 1:
        raise InvalidParameterError(
            f"`events` holds {n_subjects} subjects, the recording is of one. "
            'Pass `events[events["subject"] == subject]`.'
        )
