"""How far a person is from a reference population, and where in the cycle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from percdl.analysis.effects import SLOWEST
from percdl.analysis.features import describe_people
from percdl.analysis.fitted import as_personalization
from percdl.analysis.members import (
    Groups,
    Persons,
    check_same_model,
    check_size,
    find_members,
    name_persons,
)
from percdl.analysis.reference import Reference
from percdl.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL
    from percdl.estimators.personalization import Personalization


@dataclass(frozen=True, eq=False)
class Deviation:
    """How far each subject is from a reference population that it is no part of.

    Attributes
    ----------
    subjects : tuple of str
        Who is judged, in the order of the fit.
    groups : tuple of str or None
        Their groups.
    is_reference : array (S,)
        Who of them is a member of the reference population.
    index : array (S,)
        The deviation index: the Mahalanobis distance over the median one of the reference's
        own members. 1 is a typical member, 2 twice as far from the norm; NaN for subjects
        without any atom.
    atom_index : array (S, K)
        The same of each atom alone; NaN for subjects without the atom.
    percentile : array (S,)
        Percentage of the other members of the reference, each left out of it in turn, whose
        index is smaller: 0 to 100.
    profile : array (S, K, L, P)
        z-scores of the personal atoms, sample by sample: where the cycle is higher or lower.
    timing_profile : array (S, K, C, L)
        z-scores of the logarithm of local speed psi': above 0 where the subject runs faster
        through its cycle than the reference. C = 0 where the transform warps no time.
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
        """Say who is far away: the arrays are long."""
        known = self.table().dropna(subset="index")
        if not len(known):
            return f"Deviation({len(self.subjects)} subjects, no index)"
        return (
            f"Deviation({len(self.subjects)} subjects, {self.is_reference.sum()} of them "
            f"reference; index {known['index'].iloc[-1]:.2f} to {known['index'].iloc[0]:.2f}, "
            f"largest {known['subject'].iloc[0]!r})"
        )

    def table(self) -> pd.DataFrame:
        """Return one row per subject, the largest index first, unknown ones last.

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
    r"""Judge every subject by a reference population from which it is left out.

    The index is a Mahalanobis distance with shrinkage, over its median in the reference, each
    member left out in turn:

    .. math:: \sqrt{y^\top C^{-1} y}, \qquad C = (1 - \alpha) S + \alpha I.

    y is the difference of a subject's features from the mean of the reference and S the
    covariance there, in units of the spread of each kind of feature; :math:`\alpha` is the
    shrinkage of scikit-learn's ``OAS``. All four are those of the other members, exactly.
    Features that do not vary in the reference are not judged.

    Parameters
    ----------
    fitted : PerCDL, IndCDL or Personalization
        Who is judged: the subjects of a fit, or people met afterwards, ``model.personalize(new)``.
    groups : list of str, optional
        Group of each subject, such as ``cohort.groups``; of those of ``reference_from`` where
        that is given.
    reference : str or array of bool, optional
        The group that is the reference, or whether each subject belongs to it. By default
        everyone, where there are no groups.
    reference_from : PerCDL, IndCDL or Personalization, optional
        Where the reference is, if it is not among those who are judged.
    persons : list or dict, optional
        Who each subject is, where several recordings are of one person: all of them are left
        out together. One per subject, as ``groups``, or a dict of subject to person. By default
        subjects with the same id are the same person, and all others differ.
    space : {"parameters", "atoms"}
        What people are compared by: the parameters, a time warp by its displacement, since its
        layers are redundant; or the personal atoms. See `features.describe_people`.
    shrinkage : float, optional
        Fixed share of the shrinkage, 0 to 1, instead of that of OAS.

    Returns
    -------
    Deviation
        The index of everyone, its percentile, and profiles along the cycle.

    Notes
    -----
    With several atoms the features of all count together; for a subject without some atom
    those of the others do, against the members who have them. Cost O(n F^3) for n members and
    F features: seconds for 2,000 members and 200 features.

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
    check_same_model(judged, home)
    if shrinkage is not None and not 0 <= shrinkage <= 1:
        raise InvalidParameterError(
            f"`measure_deviation(shrinkage={shrinkage!r})` must be between 0 and 1, or None."
        )
    members = find_members(groups, reference, len(home.subjects))
    everyone = [home] if judged is home else [home, judged]
    who = name_persons(persons, everyone)
    check_size(who[: len(members)][members], reference)
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


def local_speed(warps: Float[np.ndarray, "*batch L"]) -> Float[np.ndarray, "*batch L"]:
    """Return psi', population samples per sample of the subject: above 1 where it is faster.

    By central differences, of warps such as ``model.warps_``.

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
    # Whoever has the same atoms is judged by those, against the members who have them too.
    for atoms in np.unique(known[known.any(1)], axis=0):
        rows, comparable = (known == atoms).all(1), members & known[:, atoms].all(1)
        index[rows] = _judge(values[:, atoms], kinds, rows, who, comparable, shrinkage)
    return index, atom_index


def _judge(values, kinds, rows, who, members, shrinkage) -> np.ndarray | float:
    """Return the index of some subjects; NaN where the reference has too few members."""
    n_subjects, n_atoms, _ = values.shape
    kinds = (kinds + np.arange(n_atoms)[:, None] * (kinds.max(initial=0) + 1)).ravel()
    values = values.reshape(n_subjects, -1)
    norm = Reference(values[members], who[members], kinds)
    if not norm.is_large_enough:
        return np.nan
    varies = norm.varies
    if not varies.any():
        raise InvalidParameterError(
            "The parameters do not vary in the reference, so nobody can be compared with it. Fit "
            "a model with a transform, such as `PerCDL(transform=TimeWarp())`."
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
