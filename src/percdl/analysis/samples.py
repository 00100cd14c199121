"""Who is compared with whom: one row per person, sorted into groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from percdl.analysis.contrasts import steady
from percdl.exceptions import InvalidParameterError

#: One label per row.
Labels = Sequence[Any] | np.ndarray | pd.Series


@dataclass(frozen=True, eq=False)
class Samples:
    """The values of the members of some groups.

    Attributes
    ----------
    names : tuple of str
        The groups compared, in the order asked for.
    values : tuple of arrays (n, ...)
        Their members' values. Members stand in an order of their own, which depends on their
        values alone: so do permutations, whatever the order in which people were passed.
    """

    names: tuple[str, ...]
    values: tuple[np.ndarray, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of members of each group."""
        return tuple(map(len, self.values))

    @property
    def means(self) -> np.ndarray:
        """Mean of each group, array (G, ...)."""
        return np.stack([members.mean(0) for members in self.values])

    @property
    def exchangeable(self) -> list[np.ndarray]:
        """What is permuted: values less the mean of all, groups sorted by name.

        Signs are turned where the first of two groups comes second by name, so that Welch's t
        of the parts is that of the first group against the second, and exchanging the two
        changes nothing but signs.
        """
        order = np.argsort(self.names)
        turned = len(self.names) == 2 and order[0] == 1
        pooled = steady(np.concatenate([self.values[i] for i in order]))
        ends = np.cumsum([len(self.values[i]) for i in order])[:-1]
        return np.split(-pooled if turned else pooled, ends)


def gather(
    values: Float[np.ndarray, "S ..."],
    groups: Labels,
    names: Sequence[str],
    persons: Labels | None,
) -> Samples:
    """Sort people into the groups named (all groups by default), at least two of two members.

    People whose values hold NaN, and those whose group is None or not named, are left out.
    With ``persons``, rows of the same person are averaged first.
    """
    of = _label(values, groups)
    if persons is not None:
        values, of = _one_row_each(values, of, persons)
    known = np.isfinite(values.reshape(len(values), -1)).all(1)
    there = list(dict.fromkeys(name for name in of if name is not None))
    chosen = tuple(map(str, names)) or tuple(there)
    _check_names(chosen, there)
    parts = [values[known & np.array([label == name for label in of])] for name in chosen]
    for name, part in zip(chosen, parts, strict=True):
        if len(part) < 2:
            raise InvalidParameterError(
                f"Group {name!r} has {len(part)} member(s) with all values; a comparison takes "
                "at least two of each group. Subjects with NaN are left out."
            )
    return Samples(chosen, tuple(part[canonical_order(part)] for part in parts))


def average_persons(
    values: Float[np.ndarray, "S ..."], persons: Labels
) -> tuple[np.ndarray, list[str]]:
    """Return one row per person, the mean of that person's rows, and who they are.

    Several recordings of one person resemble one another more than those of different people.
    A permutation test that exchanged them one by one would take them for independent people and
    find differences that are not there. Cost O(S (n + F)) for n people and rows of F values.

    Parameters
    ----------
    values : array (S, ...)
        One row per recording. Rows with NaN are left out of the mean; a person who has no
        other keeps NaN.
    persons : list
        Whose recording each is.

    Returns
    -------
    values : array (people, ...)
        One row per person.
    persons : list of str
        Who they are, in order.

    Examples
    --------
    >>> average_persons(np.array([[1.0], [3.0], [5.0]]), ["Ada", "Ada", "Bo"])
    (array([[2.], [5.]]), ['Ada', 'Bo'])
    """
    _check_lengths(values, persons, "persons")
    whose = np.array([str(person) for person in persons])
    people = list(dict.fromkeys(whose.tolist()))
    known = np.isfinite(values.reshape(len(values), -1)).all(1)
    rows = np.full((len(people), *values.shape[1:]), np.nan)
    for row, person in enumerate(people):
        own = values[known & (whose == person)]
        if len(own):
            rows[row] = own.mean(0)
    return rows, people


def canonical_order(values: Float[np.ndarray, "S ..."]) -> np.ndarray:
    """Return the lexicographic order of the rows: whoever comes first, permutations are alike."""
    return np.lexsort(values.reshape(len(values), -1).T[::-1])


def _label(values: np.ndarray, groups: Labels) -> list[str | None]:
    _check_lengths(values, groups, "groups")
    return [None if name is None or name != name else str(name) for name in groups]


def _one_row_each(values: np.ndarray, of: list[str | None], persons: Labels):
    """Average the rows of each person, who must belong to one group."""
    rows, people = average_persons(values, persons)
    group_of: dict[str, str | None] = {}
    for person, name in zip(map(str, persons), of, strict=True):
        if group_of.setdefault(person, name) != name:
            raise InvalidParameterError(
                f"Person {person!r} belongs to groups {group_of[person]!r} and {name!r}. "
                "Groups of different people are compared: give everyone one group."
            )
    return rows, [group_of[person] for person in people]


def _check_lengths(values: np.ndarray, labels: Labels, name: str) -> None:
    if len(values) != len(labels):
        raise InvalidParameterError(
            f"There are {len(values)} rows of values and {len(labels)} {name}. Pass one for "
            "each row."
        )


def _check_names(chosen: Sequence[str], there: Sequence[str]) -> None:
    known = ", ".join(map(repr, there)) or "none"
    for name in chosen:
        if name not in there:
            raise InvalidParameterError(f"There is no group {name!r}; known groups: {known}.")
    if len(set(chosen)) < 2 or len(set(chosen)) < len(chosen):
        raise InvalidParameterError(
            f"A comparison takes two different groups or more, not {list(chosen)}; known "
            f"groups: {known}."
        )
