"""Groups of subjects: who belongs to which, and the mean and spread of their curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from percdl.analysis.checks import Labels, check_lengths
from percdl.exceptions import InvalidParameterError

# A spread below this share of the largest value of a channel is rounding: ends of warps are fixed.
ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class GroupCurve:
    """Mean and spread of the curves of a group.

    Attributes
    ----------
    mean, sd : array (L, P)
        Over the members; the standard deviation is that of a sample (n - 1).
    n_members : int
        Number of members with the curve.
    """

    mean: Float[np.ndarray, "L P"]
    sd: Float[np.ndarray, "L P"]
    n_members: int

    def band(self, width: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean minus and plus ``width`` standard deviations."""
        return self.mean - width * self.sd, self.mean + width * self.sd


def summarize_groups(
    curves: Float[np.ndarray, "S L P"], groups: Sequence[str | None]
) -> dict[str, GroupCurve]:
    """Return the mean and standard deviation of each group, in order of appearance.

    Cost O(S (L P + G)) for G groups.

    Parameters
    ----------
    curves : array (S, L, P)
        One curve per subject, such as ``model.personal_dictionary_[:, 0]``. Subjects with NaN in
        their curve are left out.
    groups : list of str
        Group of each subject; subjects of group None are left out.

    Returns
    -------
    dict of str to GroupCurve
        One entry per group.

    Examples
    --------
    >>> curves = np.array([[[1.0]], [[3.0]], [[5.0]], [[5.0]]])
    >>> found = summarize_groups(curves, ["a", "a", "b", "b"])
    >>> found["a"].mean.item(), found["b"].sd.item()
    (2.0, 0.0)
    """
    if len(curves) != len(groups):
        raise InvalidParameterError(
            f"There are {len(curves)} curves and {len(groups)} groups. Pass the group of each "
            "curve's subject."
        )
    known = ~np.isnan(curves).any((1, 2))
    of = np.array([str(name) for name in groups])
    found = {}
    for name in dict.fromkeys(name for name in groups if name is not None):
        own = curves[known & (of == name)]
        if len(own) < 2:
            raise InvalidParameterError(
                f"Group {name!r} has {len(own)} curve(s); a standard deviation needs two."
            )
        found[name] = GroupCurve(own.mean(0), own.std(0, ddof=1), len(own))
    return found


def relative_variability(group: GroupCurve, reference: GroupCurve) -> Float[np.ndarray, "L P"]:
    """Return how much more a group varies than a reference, sample by sample.

    This is the difference of the standard deviations over the largest one of the reference, per
    channel: 0 if both vary alike. Unlike their ratio, it stays readable where nobody varies. Cost
    O(L P).

    Parameters
    ----------
    group, reference : GroupCurve
        Results of `summarize_groups`.

    Returns
    -------
    array (L, P)
        Above 0 where the group varies more.

    Examples
    --------
    >>> few = GroupCurve(np.zeros((2, 1)), np.array([[0.0], [2.0]]), 5)
    >>> many = GroupCurve(np.zeros((2, 1)), np.array([[1.0], [2.0]]), 5)
    >>> relative_variability(many, few).ravel()
    array([0.5, 0. ])
    """
    largest = reference.sd.max(0)
    if not (largest > 0).all():
        raise InvalidParameterError(
            "The reference group does not vary at all, so nothing can be relative to it."
        )
    return (group.sd - reference.sd) / largest


def average_persons(
    values: Float[np.ndarray, "S ..."], persons: Labels
) -> tuple[np.ndarray, list[str]]:
    """Average the recordings of each person.

    Recordings of one person are more alike than those of different people. A permutation test
    that exchanged them one by one would find differences that do not exist. Cost O(S (n + F)) for
    n people and rows of F values.

    Parameters
    ----------
    values : array (S, ...)
        One row per recording. Rows with NaN are left out of the mean; a person without any other
        row keeps NaN.
    persons : list
        Person of each recording.

    Returns
    -------
    values : array (people, ...)
        One row per person.
    persons : list of str
        Their names, in order of appearance.

    Examples
    --------
    >>> average_persons(np.array([[1.0], [3.0], [5.0]]), ["Ada", "Ada", "Bo"])
    (array([[2.], [5.]]), ['Ada', 'Bo'])
    """
    check_lengths(len(values), persons, "persons")
    whose = np.array([str(person) for person in persons])
    people = list(dict.fromkeys(whose.tolist()))
    known = np.isfinite(values.reshape(len(values), -1)).all(1)
    rows = np.full((len(people), *values.shape[1:]), np.nan)
    for row, person in enumerate(people):
        own = values[known & (whose == person)]
        if len(own):
            rows[row] = own.mean(0)
    return rows, people


@dataclass(frozen=True, eq=False)
class Samples:
    """The values of the members of the groups to compare.

    Members are sorted by their values, so the permutations do not depend on the order in which
    people were passed.
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
        """The values to permute: less the mean of all, groups sorted by name.

        Signs are turned if the first of two groups comes second by name. Welch's t of the parts is
        then that of the first group against the second, and exchanging the two groups changes
        nothing but signs.
        """
        order = np.argsort(self.names)
        turned = len(self.names) == 2 and order[0] == 1
        pooled = center(np.concatenate([self.values[i] for i in order]))
        ends = np.cumsum([len(self.values[i]) for i in order])[:-1]
        return np.split(-pooled if turned else pooled, ends)


def gather(
    values: Float[np.ndarray, "S ..."],
    groups: Labels,
    names: Sequence[str],
    persons: Labels | None,
) -> Samples:
    """Sort people into the named groups (by default all), with at least two members each.

    People with NaN, and those whose group is None or not named, are left out. With ``persons``,
    the rows of each person are averaged first.
    """
    check_lengths(len(values), groups, "groups")
    of = [None if name is None or name != name else str(name) for name in groups]
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
                f"Group {name!r} has {len(part)} member(s) with all values; a comparison needs "
                "at least two per group. Subjects with NaN are left out."
            )
    return Samples(chosen, tuple(part[canonical_order(part)] for part in parts))


def center(values: Float[np.ndarray, "S ..."]) -> Float[np.ndarray, "S ..."]:
    """Return the values less their mean over people; exactly 0 where nobody varies.

    The last axis is that of channels or parameters, which may differ in unit.
    """
    centred = values - values.mean(0)
    largest = np.abs(values).max(axis=tuple(range(values.ndim - 1)))
    return np.where(centred.std(0) <= ROUNDING * largest, 0, centred)


def canonical_order(values: Float[np.ndarray, "S ..."]) -> np.ndarray:
    """Return the lexicographic order of the rows."""
    return np.lexsort(values.reshape(len(values), -1).T[::-1])


def _one_row_each(values: np.ndarray, of: list[str | None], persons: Labels):
    """Average the rows of each person, who must belong to one group."""
    rows, people = average_persons(values, persons)
    group_of: dict[str, str | None] = {}
    for person, name in zip(map(str, persons), of, strict=True):
        if group_of.setdefault(person, name) != name:
            raise InvalidParameterError(
                f"Person {person!r} belongs to groups {group_of[person]!r} and {name!r}. Give "
                "every person one group."
            )
    return rows, [group_of[person] for person in people]


def _check_names(chosen: Sequence[str], there: Sequence[str]) -> None:
    known = ", ".join(map(repr, there)) or "none"
    for name in chosen:
        if name not in there:
            raise InvalidParameterError(f"There is no group {name!r}; known groups: {known}.")
    if len(set(chosen)) < max(2, len(chosen)):
        raise InvalidParameterError(
            f"A comparison needs two different groups or more, not {list(chosen)}; known "
            f"groups: {known}."
        )
