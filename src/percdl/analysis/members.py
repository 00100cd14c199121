"""Who is compared with whom: members of the reference, recordings of one person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Shaped
from numpy.typing import ArrayLike

from percdl.analysis.reference import LEAST_PERSONS
from percdl.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from percdl.estimators.personalization import Personalization

Groups = Sequence[str | None] | np.ndarray | None
Persons = Sequence[object] | np.ndarray | Mapping[str, object] | None


def find_members(
    groups: Groups, reference: str | ArrayLike | None, n_subjects: int
) -> Bool[np.ndarray, " S"]:
    """Return who belongs to the reference (S,)."""
    if groups is not None and len(groups) != n_subjects:
        raise InvalidParameterError(
            f"There are {n_subjects} subjects and {len(groups)} groups. Pass the group of each "
            "subject of the fit, such as `cohort.groups`."
        )
    if isinstance(reference, str):
        labels = () if groups is None else groups
        names = list(dict.fromkeys(name for name in labels if name is not None))
        if reference not in names:
            raise InvalidParameterError(
                f"`measure_deviation(reference={reference!r})` is none of the groups: "
                f"{', '.join(map(repr, names)) or 'there are none; pass `groups`'}."
            )
        return np.array([name == reference for name in labels])
    if reference is None:
        if groups is not None:
            raise InvalidParameterError(
                "`measure_deviation` needs to know which group is the reference: pass "
                "`reference=`, one of "
                f"{', '.join(repr(name) for name in dict.fromkeys(groups) if name is not None)}."
            )
        return np.ones(n_subjects, bool)
    mask = np.asarray(reference)
    if mask.shape != (n_subjects,) or mask.dtype != bool:
        raise InvalidParameterError(
            f"`reference` must be a group or {n_subjects} booleans, one per subject; it is an "
            f"array of {mask.dtype} of shape {mask.shape}."
        )
    return mask


def name_persons(
    persons: Persons, everyone: Sequence[Personalization]
) -> Shaped[np.ndarray, " S"]:
    """Return who each subject is: the reference's subjects, then those who are judged."""
    home = everyone[0].subjects
    if persons is not None and not isinstance(persons, Mapping):
        if len(persons) != len(home):
            raise InvalidParameterError(
                f"There are {len(home)} subjects and {len(persons)} persons. Pass one per "
                "subject, as `groups`, or a dict of subject to person."
            )
        persons = dict(zip(home, persons, strict=True))
    names = {} if persons is None else persons
    return np.array([str(names.get(s, s)) for part in everyone for s in part.subjects])


def check_same_model(judged: Personalization, home: Personalization) -> None:
    """Raise unless both were seen through the same atoms and the same transform."""
    same = judged.transform == home.transform
    if not same or not np.array_equal(judged.dictionary, home.dictionary):
        raise InvalidParameterError(
            "`measure_deviation` compares people seen through one model; these were seen through "
            "two, of other atoms or transforms. Pass `model.personalize(new)` of the model that "
            "is `reference_from`."
        )


def check_size(persons: np.ndarray, reference: object) -> None:
    """Raise where nobody can be left out of the reference."""
    n_persons = len(np.unique(persons))
    if n_persons < LEAST_PERSONS:
        name = f" {reference!r}" if isinstance(reference, str) else ""
        raise InvalidParameterError(
            f"The reference{name} has {n_persons} person(s); it takes {LEAST_PERSONS} to tell "
            "what is usual, and many more to tell it well."
        )
