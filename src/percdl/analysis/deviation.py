"""How far a subject is from a reference population, and where in the cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import ArrayLike
from scipy.fft import dst

from percdl.analysis.checks import as_personalization
from percdl.analysis.effects import SLOWEST
from percdl.analysis.reference import LEAST_PERSONS, Reference
from percdl.exceptions import InvalidParameterError
from percdl.transforms import TimeWarp

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL
    from percdl.estimators.personalization import Personalization

Groups = Sequence[str | None] | np.ndarray | None
Persons = Sequence[object] | np.ndarray | Mapping[str, object] | None


@dataclass(frozen=True, eq=False)
class Deviation:
    """Distance of each subject from a reference population without that subject.

    Attributes
    ----------
    subjects : tuple of str
        Subject ids, in the order of the fit.
    groups : tuple of str or None
        Their groups.
    is_reference : array (S,)
        Members of the reference population.
    index : array (S,)
        The deviation index: the Mahalanobis distance over its median in the reference. 1 is a
        typical member, 2 twice as far from the norm; NaN for subjects without any atom.
    atom_index : array (S, K)
        The same for each atom alone; NaN for subjects without the atom.
    percentile : array (S,)
        Percentage (0 to 100) of the other members of the reference with a smaller index.
    profile : array (S, K, L, P)
        z-scores of the personal atoms, sample by sample: where the cycle is higher or lower.
    timing_profile : array (S, K, C, L)
        z-scores of the logarithm of the local speed psi': above 0 where the subject is faster than
        the reference. C = 0 if the transform has no time warp.
    """

    subjects: tuple[str, ...]
    groups: tuple[str | None, ...]
    is_reference: Bool[np.ndarray, " S"]
    index: Float[np.ndarray, " S"]
    atom_index: Float[np.ndarray, "S K"]
    percentile: Float[np.ndarray, " S"]
    profile: Float[np.ndarray, "S K L P"]
    timing_profile: Float[np.ndarray, "S K C L"]

    def __repr__(self) -> str:
        known = self.table().dropna(subset="index")
        if not len(known):
            return f"Deviation({len(self.subjects)} subjects, no index)"
        return (
            f"Deviation({len(self.subjects)} subjects, {self.is_reference.sum()} of them "
            f"reference; index {known['index'].iloc[-1]:.2f} to {known['index'].iloc[0]:.2f}, "
            f"largest {known['subject'].iloc[0]!r})"
        )

    def table(self) -> pd.DataFrame:
        """Return one row per subject, the largest index first and NaN last.

        Columns subject, group, is_reference, index, percentile, and atom_0, ... with the index
        of each atom.
        """
        frame = pd.DataFrame(
            {
                "subject": self.subjects,
                "group": self.groups,
                "is_reference": self.is_reference,
                "index": self.index,
                "percentile": self.percentile,
                **{f"atom_{k}": column for k, column in enumerate(self.atom_index.T)},
            }
        )
        return frame.sort_values("index", ascending=False, kind="stable", ignore_index=True)


def measure_deviation(
    fitted: BaseCDL | Personalization,
    groups: Groups = None,
    reference: str | ArrayLike | None = None,
    *,
    reference_from: BaseCDL | Personalization | None = None,
    persons: Persons = None,
    space: str = "parameters",
    shrinkage: float | None = None,
) -> Deviation:
    r"""Measure the distance of every subject from a reference population.

    The index is a Mahalanobis distance with shrinkage, over its median in the reference, with
    each member left out in turn:

    .. math:: \sqrt{y^\top C^{-1} y}, \qquad C = (1 - \alpha) S + \alpha I.

    y is the difference of a subject's features from the mean of the reference and S the
    covariance there, in units of the spread of each kind of feature; :math:`\alpha` is the
    shrinkage of scikit-learn's ``OAS``. All four are those of the other members, exactly.
    Features that do not vary in the reference are ignored.

    Parameters
    ----------
    fitted : PerCDL, IndCDL or Personalization
        The subjects to judge: those of a fit, or new ones, ``model.personalize(new)``.
    groups : list of str, optional
        Group of each subject, such as ``cohort.groups``; of the subjects of ``reference_from`` if
        that is passed.
    reference : str or array of bool, optional
        The reference group, or whether each subject belongs to it. By default everyone, if there
        are no groups.
    reference_from : PerCDL, IndCDL or Personalization, optional
        The subjects that contain the reference, if they are not those to judge.
    persons : list or dict, optional
        Person of each subject, if people have several recordings: they are left out together.
        One per subject, as ``groups``, or a dict of subject to person. By default subjects with
        the same id are the same person.
    space : {"parameters", "atoms"}
        The features: the parameters (a time warp by the sine coefficients of its displacement,
        since its layers are redundant) or the personal atoms.
    shrinkage : float, optional
        Fixed shrinkage, 0 to 1, instead of that of OAS.

    Returns
    -------
    Deviation
        The index of every subject, its percentile, and profiles along the cycle.

    Notes
    -----
    The features of all atoms count together; a subject without some atom is judged by the others,
    against the members who have them. Cost O(n F^3) for n members and F features: seconds for
    2,000 members and 200 features.

    Examples
    --------
    Everyone against the healthy, and a new patient against the same norm:

    >>> from percdl import IndCDL, make_synthetic
    >>> truth = make_synthetic(9, random_state=0)
    >>> cohort, groups = truth.cohort, ["healthy"] * 6 + ["patient"] * 3
    >>> model = IndCDL(2, 50, penalty=1.0, init=truth.dictionary).fit(cohort)
    >>> measure_deviation(model, groups, "healthy").index.shape
    (9,)
    >>> new = model.personalize(cohort[:1])
    >>> measure_deviation(new, groups, "healthy", reference_from=model).percentile.shape
    (1,)
    """
    judged = as_personalization(fitted)
    home = judged if reference_from is None else as_personalization(reference_from)
    _check_same_model(judged, home)
    if shrinkage is not None and not 0 <= shrinkage <= 1:
        raise InvalidParameterError(
            f"`measure_deviation(shrinkage={shrinkage!r})` must be between 0 and 1, or None."
        )
    members = _find_members(groups, reference, len(home.subjects))
    everyone = [home] if judged is home else [home, judged]
    who = _name_persons(persons, everyone)
    _check_size(who[: len(members)][members], reference)
    members = np.concatenate([members, np.zeros(len(who) - len(members), bool)])

    described = [describe_people(part, space) for part in everyone]
    values, kinds = np.concatenate([part for part, _ in described]), described[0][1]
    atoms = np.concatenate([part.personal_dictionary for part in everyone])
    speeds = np.concatenate([np.maximum(local_speed(part.warps), SLOWEST) for part in everyone])
    index, atom_index = _measure(values, kinds, who, members, shrinkage)
    shown = slice(len(who) - len(judged.subjects), None)
    labels = (None,) * len(judged.subjects) if groups is None or judged is not home else groups
    return Deviation(
        subjects=tuple(judged.subjects),
        groups=tuple(labels),
        is_reference=members[shown],
        index=index[shown],
        atom_index=atom_index[shown],
        percentile=_rank(index, who, members)[shown],
        profile=_profile(atoms, who, members)[shown],
        timing_profile=_profile(np.log(speeds), who, members)[shown],
    )


def describe_people(
    found: Personalization, space: str = "parameters"
) -> tuple[Float[np.ndarray, "S K F"], Int[np.ndarray, " F"]]:
    """Return the features of all atoms, and the kind of each feature (kinds share a unit).

    NaN for subjects without the atom. In the space ``"atoms"`` the features are the samples of
    the personal atoms. In ``"parameters"`` every parameter is a kind of its own, except those of a
    time warp: different parameters can make the same warp, so it is described by the first sine
    coefficients of its displacement ``psi(t) - t`` in samples, one-to-one for a single layer.
    """
    if space not in ("parameters", "atoms"):
        raise InvalidParameterError(f"`space={space!r}` must be one of 'parameters', 'atoms'.")
    if space == "atoms":
        atoms = found.personal_dictionary
        values = atoms.reshape(*atoms.shape[:2], -1)
        return values, np.zeros(values.shape[2], int)
    warp, where = found.transform.warp_part(*found.dictionary.shape[1:]) or (None, slice(0))
    if not isinstance(warp, TimeWarp):
        return found.params, np.arange(found.params.shape[2])
    length = found.dictionary.shape[1]
    inside = (found.warps - np.arange(length))[..., 1:-1]
    sines = np.asarray(dst(inside, type=1))[..., : warp.width] / (length - 1)
    sines = sines.reshape(*found.params.shape[:2], -1)
    others = np.delete(found.params, where, axis=2)
    kinds = np.concatenate([np.zeros(sines.shape[2], int), 1 + np.arange(others.shape[2])])
    return np.concatenate([sines, others], axis=2), kinds


def local_speed(warps: Float[np.ndarray, "*batch L"]) -> Float[np.ndarray, "*batch L"]:
    """Return psi' by central differences: above 1 where the subject is faster.

    >>> local_speed(np.array([[0.0, 1.0, 3.0, 5.0]]))
    array([[1. , 1.5, 2. , 2. ]])
    """
    return np.gradient(warps, axis=-1)


def _measure(values, kinds, who, members, shrinkage) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of all atoms together (S,), and of each alone (S, K)."""
    n_subjects, n_atoms = values.shape[:2]
    known = ~np.isnan(values).any(2)
    index, atom_index = np.full(n_subjects, np.nan), np.full((n_subjects, n_atoms), np.nan)
    for k in range(n_atoms):
        rows, comparable = known[:, k], members & known[:, k]
        atom_index[rows, k] = _judge(values[:, [k]], kinds, rows, who, comparable, shrinkage)
    # Subjects with the same atoms are judged by those, against the members who have them too.
    for atoms in np.unique(known[known.any(1)], axis=0):
        rows, comparable = (known == atoms).all(1), members & known[:, atoms].all(1)
        index[rows] = _judge(values[:, atoms], kinds, rows, who, comparable, shrinkage)
    return index, atom_index


def _judge(values, kinds, rows, who, members, shrinkage) -> np.ndarray | float:
    """Return the index of some subjects; NaN if the reference has too few members."""
    n_subjects, n_atoms, _ = values.shape
    kinds = (kinds + np.arange(n_atoms)[:, None] * (kinds.max(initial=0) + 1)).ravel()
    values = values.reshape(n_subjects, -1)
    norm = Reference(values[members], who[members], kinds)
    if not norm.is_large_enough:
        return np.nan
    varies = norm.varies
    if not varies.any():
        raise InvalidParameterError(
            "The parameters do not vary in the reference, so no subject can be compared with it. "
            "Fit a model with a transform, such as `PerCDL(transformation=TimeWarp())`."
        )
    values, kinds = values[:, varies], kinds[varies]
    norm = Reference(values[members], who[members], kinds)
    judged = rows | members
    distance = np.full(n_subjects, np.nan)
    distance[judged] = norm.distances(values[judged], who[judged], shrinkage)
    return distance[rows] / np.median(distance[members])


def _profile(curves, who, members) -> np.ndarray:
    """Return z-scores of the curves (S, K, ...) of each atom; NaN where they are unknown."""
    scores = np.full(curves.shape, np.nan)
    for k in range(curves.shape[1]):
        values = curves[:, k].reshape(len(curves), -1)
        known = ~np.isnan(values).any(1)
        norm = Reference(values[members & known], who[members & known])
        if norm.is_large_enough:
            found = norm.z_scores(values[known], who[known])
            scores[known, k] = found.reshape(len(found), *curves.shape[2:])
    return scores


def _rank(index, who, members) -> np.ndarray:
    """Return the percentage of the other members with a smaller index."""
    counted = members & ~np.isnan(index)
    below = np.searchsorted(np.sort(index[counted]), index) * 1.0
    total = np.full(len(index), float(counted.sum()))
    for s in np.flatnonzero(np.isin(who, who[counted])):
        own = index[counted & (who == who[s])]
        below[s] -= (own < index[s]).sum()
        total[s] -= len(own)
    return np.where(np.isnan(index), np.nan, 100 * below / np.maximum(total, 1))


def _find_members(
    groups: Groups, reference: str | ArrayLike | None, n_subjects: int
) -> Bool[np.ndarray, " S"]:
    """Return which subjects belong to the reference."""
    if groups is not None and len(groups) != n_subjects:
        raise InvalidParameterError(
            f"There are {n_subjects} subjects and {len(groups)} groups. Pass the group of each "
            "subject of the fit, such as `cohort.groups`."
        )
    labels = [] if groups is None else list(groups)
    names = ", ".join(repr(name) for name in dict.fromkeys(labels) if name is not None)
    if isinstance(reference, str):
        if reference not in labels:
            raise InvalidParameterError(
                f"`measure_deviation(reference={reference!r})` is none of the groups: "
                f"{names or 'there are none; pass `groups`'}."
            )
        return np.array([name == reference for name in labels])
    if reference is None:
        if groups is not None:
            raise InvalidParameterError(
                "`measure_deviation` needs the reference group: pass `reference=`, one of "
                f"{names}."
            )
        return np.ones(n_subjects, bool)
    mask = np.asarray(reference)
    if mask.shape != (n_subjects,) or mask.dtype != bool:
        raise InvalidParameterError(
            f"`reference` must be a group or {n_subjects} booleans, one per subject; it is an "
            f"array of {mask.dtype} of shape {mask.shape}."
        )
    return mask


def _name_persons(
    persons: Persons, everyone: Sequence[Personalization]
) -> Shaped[np.ndarray, " S"]:
    """Return the person of each subject: those of the reference, then those to judge."""
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


def _check_same_model(judged: Personalization, home: Personalization) -> None:
    same = judged.transform == home.transform
    if not same or not np.array_equal(judged.dictionary, home.dictionary):
        raise InvalidParameterError(
            "`measure_deviation` compares subjects of one model, but these have other atoms or "
            "transforms than the reference. Pass `model.personalize(new)` of the model that is "
            "`reference_from`."
        )


def _check_size(persons: np.ndarray, reference: object) -> None:
    n_persons = len(np.unique(persons))
    if n_persons < LEAST_PERSONS:
        name = f" {reference!r}" if isinstance(reference, str) else ""
        raise InvalidParameterError(
            f"The reference{name} has {n_persons} person(s); it needs at least {LEAST_PERSONS}, "
            "and many more for a good estimate."
        )
