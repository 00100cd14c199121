"""What a plot is given: shapes, channels, subjects and groups, checked before drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from percdl.exceptions import InvalidParameterError
from percdl.signals.cohort import unknown_subject

# Names of subjects, groups or channels, in any of the forms they come in.
Labels: TypeAlias = Sequence[Any] | np.ndarray | pd.Series | pd.Index


def as_shape(values: Any, name: str, *shapes: str, such_as: str | None = None) -> np.ndarray:
    """Return an array of numbers that has one of the shapes, such as ``"S L"``."""
    array = np.asarray(values)
    allowed = [shape.split() for shape in shapes]
    numeric = np.issubdtype(array.dtype, np.number) or array.dtype == bool
    if array.ndim in map(len, allowed) and array.size and numeric:
        return array.astype(float, copy=False)
    wanted = " or ".join(f"({', '.join(axes)}{',' * (len(axes) == 1)})" for axes in allowed)
    example = "" if such_as is None else f", such as `{such_as}`"
    raise InvalidParameterError(
        f"`{name}` has shape {array.shape} and type {array.dtype}. Pass numbers of shape "
        f"{wanted}{example}."
    )


def same_shape(values: Any, other: np.ndarray, name: str, other_name: str) -> np.ndarray:
    """Return an array that has the shape of another."""
    array = np.asarray(values, float)
    if array.shape != other.shape:
        raise InvalidParameterError(
            f"`{name}` has shape {array.shape}, `{other_name}` has {other.shape}. Pass the same."
        )
    return array


def check_position(position: int, count: int, what: str) -> None:
    """Raise where an atom or a channel is asked for that is not there."""
    if not -count <= position < count:
        raise InvalidParameterError(
            f"`{what}={position}` is out of range: there are {count}, numbered from 0 to "
            f"{count - 1}."
        )


def names_of(given: Labels | None, count: int, what: str) -> list[str]:
    """Return the names given, or ``"atom 0"``, ``"atom 1"``, ... ."""
    if given is None:
        return [f"{what} {i}" for i in range(count)]
    if len(given) != count:
        raise InvalidParameterError(
            f"`{what}s` has {len(given)} name(s) for {count} {what}(s). Pass one for each."
        )
    return [str(name) for name in given]


def find_subjects(wanted: Labels, subjects: Labels | None, count: int) -> list[int]:
    """Return the positions of subjects asked for by position or by name."""
    return [find_subject(one, subjects, count) for one in wanted]


def find_subject(wanted: int | str, subjects: Labels | None, count: int) -> int:
    """Return the position of a subject asked for by position or by name."""
    if isinstance(wanted, str):
        if subjects is None:
            raise InvalidParameterError(
                f"Subject {wanted!r} is asked for by name. Pass `subjects`, the names of all."
            )
        names = names_of(subjects, count, "subject")
        if wanted not in names:
            raise InvalidParameterError(unknown_subject(wanted, names))
        return names.index(wanted)
    check_position(int(wanted), count, "subject")
    return int(wanted) % count


def groups_of(groups: Labels | None, count: int) -> list[str | None]:
    """Return the group of each subject as text; None where it is None or NaN."""
    if groups is None:
        return ["all"] * count
    if len(groups) != count:
        raise InvalidParameterError(
            f"`groups` has {len(groups)} item(s) for {count} subject(s). Pass the group of each."
        )
    return [None if pd.isna(group) else str(group) for group in groups]


def check_group(group: str, groups: Sequence[str | None]) -> None:
    """Raise where nobody is in a group."""
    if group not in groups:
        known = ", ".join(dict.fromkeys(str(name) for name in groups if name is not None))
        raise InvalidParameterError(f"Nobody is in group {group!r}. The groups are: {known}.")


def check_events(events: pd.DataFrame, needed: Sequence[str]) -> None:
    """Raise where a table of events lacks a column, or mixes subjects."""
    missing = [column for column in needed if column not in events.columns]
    if missing:
        raise InvalidParameterError(
            f"`events` has no column {', '.join(missing)}; it has "
            f"{', '.join(map(str, events.columns))}. Pass rows of `model.events_`."
        )
    n_subjects = len(set(events["subject"])) if "subject" in events.columns else 1
    if n_subjects > 1:
        raise InvalidParameterError(
            f"`events` holds {n_subjects} subjects, the recording is of one. "
            'Pass `events[events["subject"] == subject]`.'
        )
