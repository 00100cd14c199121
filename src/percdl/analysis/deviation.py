"""How far a subject is from a reference population, and where in the cycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Shaped
from scipy.special import stdtrit
from threadpoolctl import threadpool_limits

from percdl.analysis.checks import Fitted, Labels, as_personalization, check_lengths, name_each
from percdl.analysis.effects import log_speed
from percdl.analysis.groups import average_persons
from percdl.analysis.uncertainty import Uncertainty
from percdl.estimators.personalization import Personalization
from percdl.exceptions import InvalidParameterError
from percdl.steps.prior import coordinates, sine_projection
from percdl.transforms import TimeWarp

# Smallest standard deviation, as a share of the largest value of a kind; less is rounding.
ROUNDING = 1e-6
# With one person left out, a spread needs two others.
LEAST_PERSONS = 3


@dataclass(frozen=True, eq=False)
class Deviation:
    """Distance of each subject from a reference population without that subject.

    Attributes
    ----------
    subjects, groups, is_reference : tuples, array (S,)
        Subject ids, their groups or None, and whether they belong to the reference.
    index, atom_index : array (S,), array (S, K)
        The deviation index: the Mahalanobis distance over its median in the reference, of all
        atoms together and of each alone. 1 is a typical member, 2 twice as far from the norm; NaN
        for subjects without any atom, or without the atom.
    percentile : array (S,)
        Percentage (0 to 100) of the other members of the reference with a smaller index; the
        recordings of one person count as one member together.
    interval : array (S, 2)
        95 % interval of the index: a recording shows only some cycles of a person, with noise.
        The norm is taken as known. NaN if `measure_deviation` had no ``uncertainty``.
    profile, timing_profile : array (S, K, L, P), array (S, K, C, L)
        z-scores, sample by sample, of the personal atoms, and of the logarithm of the local speed
        psi' at each phase of the common atom, as in `Effects` (above 0 where the subject is
        faster). C = 0 if the transform has no time warp.
    """

    subjects: tuple[str, ...]
    groups: tuple[str | None, ...]
    is_reference: Bool[np.ndarray, " S"]
    index: Float[np.ndarray, " S"]
    atom_index: Float[np.ndarray, "S K"]
    percentile: Float[np.ndarray, " S"]
    interval: Float[np.ndarray, "S 2"]
    profile: Float[np.ndarray, "S K L P"]
    timing_profile: Float[np.ndarray, "S K C L"]

    def __repr__(self) -> str:
        table = self.table()
        return (
            f"Deviation({len(table)} subjects, {self.is_reference.sum()} of them reference; index "
            f"{table['index'].min():.2f} to {table['index'].max():.2f}, "
            f"largest {table['subject'][0]!r})"
        )

    def table(self) -> pd.DataFrame:
        """Return one row per subject, the largest index first and NaN last."""
        frame = pd.DataFrame(
            {
                "subject": self.subjects,
                "group": self.groups,
                "is_reference": self.is_reference,
                "index": self.index,
                "low": self.interval[:, 0],
                "high": self.interval[:, 1],
                "percentile": self.percentile,
                **{f"atom_{k}": column for k, column in enumerate(self.atom_index.T)},
            }
        )
        return frame.sort_values("index", ascending=False, kind="stable", ignore_index=True)


def measure_deviation(
    fitted: Fitted,
    groups: Labels | None = None,
    reference: str | None = None,
    *,
    reference_from: Fitted | None = None,
    persons: Labels | Mapping[str, object] | None = None,
    space: str = "parameters",
    shrinkage: float | None = None,
    uncertainty: Uncertainty | None = None,
) -> Deviation:
    r"""Measure the distance of every subject from a reference population.

    The index is a Mahalanobis distance with shrinkage, over its median in the reference, with
    each member left out in turn:

    .. math:: \sqrt{y^\top C^{-1} y}, \qquad C = (1 - \alpha) S + \alpha I.

    y is the difference of a subject's features from the mean of the reference and S the
    covariance there, in units of the spread of each kind of feature; :math:`\alpha` is the
    shrinkage of scikit-learn's ``OAS``. All four are computed without the subject, and each person
    of the reference counts once, however often recorded. A subject without some atom is judged by
    the other atoms, against the members who have them. Cost O(n F^3) for n members and F features.

    Parameters
    ----------
    fitted : PerCDL, IndCDL or Personalization
        The subjects to judge: those of a fit, or new ones, ``model.personalize(new)``.
    groups, reference : list of str, str, optional
        Group of each subject (of ``reference_from`` if passed), and the reference group. Without
        both, everyone is the reference.
    reference_from : PerCDL, IndCDL or Personalization, optional
        The subjects that contain the reference, if they are not those to judge.
    persons : list or dict, optional
        Person of each subject, if people have several recordings: they are left out together.
        One per subject, as ``groups``, or a dict of subject to person.
    space, shrinkage : {"parameters", "atoms"}, float, optional
        The features: the parameters (a time warp by its displacement) or the personal atoms; and
        a fixed shrinkage, 0 to 1, instead of that of OAS.
    uncertainty : Uncertainty, optional
        ``estimate_uncertainty(model, X)`` of the model that is ``fitted``, for the intervals. They
        need a transform that is a `TimeWarp`, and ``space="parameters"``.

    Returns
    -------
    Deviation

    Examples
    --------
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
    if shrinkage is not None and not 0 <= shrinkage <= 1:
        raise InvalidParameterError(f"`shrinkage={shrinkage!r}` must be between 0 and 1, or None.")
    judged = as_personalization(fitted)
    home = judged if reference_from is None else as_personalization(reference_from)
    everyone = [home] if judged is home else [home, judged]
    who = _name_persons(everyone, persons)
    members = np.zeros(len(who), bool)
    members[: len(home.subjects)] = _find_members(groups, reference, who[: len(home.subjects)])
    values, kinds = _join(everyone, space)
    atoms = np.concatenate([part.personal_dictionary for part in everyone])
    speeds = np.concatenate([log_speed(part.own_times) for part in everyone])
    index, atom_index, slopes = _judge(values, kinds, who, members, shrinkage)
    shown = slice(len(who) - len(judged.subjects), None)
    labels = (None,) * len(judged.subjects) if groups is None or judged is not home else groups
    return Deviation(
        subjects=tuple(judged.subjects),
        groups=tuple(labels),
        is_reference=members[shown],
        index=index[shown],
        atom_index=atom_index[shown],
        percentile=_rank(index, who, members)[shown],
        interval=_find_interval(judged, space, index[shown], slopes[shown], uncertainty),
        profile=score_curves(atoms, who, members)[shown],
        timing_profile=score_curves(speeds, who, members)[shown],
    )


def describe_people(
    found: Personalization, space: str = "parameters"
) -> tuple[Float[np.ndarray, "S K F"], Int[np.ndarray, " F"]]:
    """Return the features of all atoms, and the kind of each feature (kinds share a unit).

    Different parameters can make the same time warp, so a warp is described by the first sine
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
    sines = coordinates(found.warps, min(warp.width, found.warps.shape[-1] - 2))
    sines = sines.reshape(*found.params.shape[:2], -1)
    others = np.delete(found.params, where, axis=2)
    kinds = np.concatenate([np.zeros(sines.shape[2], int), 1 + np.arange(others.shape[2])])
    return np.concatenate([sines, others], axis=2), kinds


def _judge(values, kinds, who, members, shrinkage) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the index of all atoms together (S,), of each alone (S, K), slopes (S, K, F).

    The slopes are the derivatives of the first in the features.
    """
    known = np.asarray(~np.isnan(values).any(2))
    index, atom_index = np.full(len(who), np.nan), np.full(known.shape, np.nan)
    slopes, n_kinds = np.zeros(values.shape), kinds.max(initial=0) + 1

    def judge(atoms: np.ndarray, rows: np.ndarray) -> tuple[Any, Any]:
        """Return index and slopes of some subjects; NaN if the reference has too few members."""
        norm = members & known[:, atoms].all(1)
        if len(np.unique(who[norm])) < LEAST_PERSONS:
            return np.nan, np.nan
        own = values[:, atoms]
        each = (kinds + np.arange(own.shape[1])[:, None] * n_kinds).ravel()
        flat, judged = own.reshape(len(own), -1), rows | norm
        distance, slope = np.full(len(own), np.nan), np.full(flat.shape, np.nan)
        judging = flat[norm], who[norm], flat[judged], who[judged]
        distance[judged], slope[judged] = distances(*judging, each, shrinkage)
        unit = np.median(average_persons(distance[norm], who[norm])[0])
        return distance[rows] / unit, slope.reshape(own.shape)[rows] / unit

    for k in range(known.shape[1]):
        atom_index[known[:, k], k] = judge(np.array([k]), known[:, k])[0]
    # Subjects with the same atoms are judged by those, against the members who have them too.
    for present in np.unique(known[known.any(1)], axis=0):
        rows = (known == present).all(1)
        index[rows], slopes[np.ix_(rows, present)] = judge(present, rows)
    return index, atom_index, slopes


def _find_interval(
    found: Personalization, space: str, index, slopes, uncertainty: Uncertainty | None
) -> Float[np.ndarray, "S 2"]:
    """Return 95 % intervals of the index, from the covariances of the warps (delta method)."""
    if uncertainty is None:
        return np.full((len(index), 2), np.nan)
    warp = found.transform
    if not isinstance(warp, TimeWarp) or space != "parameters":
        raise InvalidParameterError(
            '`measure_deviation(uncertainty=...)` needs a `TimeWarp` and `space="parameters"`, '
            f"not {warp!r} and {space!r}. Leave `uncertainty` out."
        )
    if not np.array_equal(uncertainty.warps, found.warps, equal_nan=True):
        raise InvalidParameterError(
            "`uncertainty` is of another fit. Pass `estimate_uncertainty(model, X)` of the model "
            "whose subjects are judged."
        )
    variance = np.zeros(len(index))
    n_warps, length = found.warps.shape[2:]
    project = sine_projection(length, min(warp.width, length - 2))
    for s, k, covariance in uncertainty.warp_covariances():
        along = (slopes[s, k].reshape(n_warps, -1) @ project).ravel()
        variance[s] += along @ covariance @ along
    half = stdtrit(uncertainty.dof, 0.975) * np.sqrt(variance)
    return np.stack([np.maximum(index - half, 0), index + half], axis=1)


def score_curves(curves, who, members) -> np.ndarray:
    """Return z-scores of the curves (S, K, ...) of each atom; NaN where they are unknown.

    ``members`` are the norm, without the person (``who``) that is scored.
    """
    scores = np.full(curves.shape, np.nan)
    for k in range(curves.shape[1]):
        values = curves[:, k].reshape(len(curves), -1)
        known = ~np.isnan(values).any(1)
        norm = members & known
        if len(np.unique(who[norm])) >= LEAST_PERSONS:
            floor = ROUNDING * np.abs(values[norm]).max(initial=np.finfo(float).tiny)
            centre, shares = _share_spread(values[norm], who[norm])
            centred, own = values - centre, np.flatnonzero(known)
            for rows, _, mean, sd, _ in _leave_out(shares, who[norm], who[known]):
                z = (centred[own[rows]] - mean) / np.maximum(sd, floor)
                scores[own[rows], k] = z.reshape(len(rows), *curves.shape[2:])
    return scores


def _rank(index, who, members) -> np.ndarray:
    """Return the percentage of the other members with a smaller index; persons count once."""
    counted, ranks = members & ~np.isnan(index), np.full(len(index), np.nan)
    votes = share_votes(who, counted)
    for s in np.flatnonzero(~np.isnan(index)):
        others = np.where(who != who[s], votes, 0)
        ranks[s] = 100 * others[index < index[s]].sum() / max(others.sum(), 1)
    return ranks


def share_votes(
    who: Shaped[np.ndarray, " S"], counted: Bool[np.ndarray, " S"]
) -> Float[np.ndarray, " S"]:
    """Return the vote of each recording: 1, shared by the counted recordings of its person."""
    codes = np.unique(who, return_inverse=True)[1]
    return counted / np.maximum(np.bincount(codes, counted), 1)[codes]


def _name_persons(
    everyone: list[Personalization], persons: Labels | Mapping[str, object] | None
) -> np.ndarray:
    """Return the person of each subject; ``persons`` are those of the first part."""
    names = {}
    if persons is not None:
        first = everyone[0].subjects
        if isinstance(persons, Mapping):
            persons = [persons.get(subject, subject) for subject in first]
        each = name_each("subjects", len(first), persons, "persons")
        names = dict(zip(first, each, strict=True))
    return np.array([str(names.get(s, s)) for part in everyone for s in part.subjects])


def _find_members(groups: Labels | None, reference: str | None, who: np.ndarray) -> np.ndarray:
    """Return which subjects belong to the reference; raise if it has too few persons."""
    members = np.ones(len(who), bool)
    if groups is not None or reference is not None:
        labels = [None] * len(who) if groups is None else list(groups)
        check_lengths("subjects", len(who), labels, "groups")
        if reference is None or reference not in labels:
            names = ", ".join(repr(name) for name in dict.fromkeys(labels) if name is not None)
            raise InvalidParameterError(
                f"`measure_deviation(reference={reference!r})` must be one of the groups: "
                f"{names or 'there are none; pass `groups`'}."
            )
        members = np.array([name == reference for name in labels])
    n_persons = len(np.unique(who[members]))
    if n_persons < LEAST_PERSONS:
        raise InvalidParameterError(
            f"The reference {reference or 'of all subjects'!r} has {n_persons} person(s); it "
            f"needs at least {LEAST_PERSONS}, and many more for a good estimate."
        )
    return members


def _join(everyone: list[Personalization], space: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the features of all parts and the kind of each; raise if models differ."""
    first, last = everyone[0], everyone[-1]
    same = first.transform == last.transform
    if not same or not np.array_equal(first.dictionary, last.dictionary):
        raise InvalidParameterError(
            "`measure_deviation` compares subjects of one model, but these have other atoms or "
            "transforms. Pass `model.personalize(new)` of the model that is `reference_from`."
        )
    described = [describe_people(part, space) for part in everyone]
    return np.concatenate([part for part, _ in described]), described[0][1]


# The systems are small, so threads would only wait for each other.
@threadpool_limits.wrap(limits=1)
def distances(
    norm: Float[np.ndarray, "n F"],
    norm_persons: Shaped[np.ndarray, " n"],
    values: Float[np.ndarray, "m F"],
    persons: Shaped[np.ndarray, " m"],
    kinds: Int[np.ndarray, " F"] | None = None,
    shrinkage: float | None = None,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m F"]]:
    """Return Mahalanobis distances from the mean of all others, and their derivatives in values.

    See `measure_deviation`. ``norm`` are the measurements of a reference population. Those of one
    kind share a unit.
    """
    kinds = np.zeros(norm.shape[1], int) if kinds is None else kinds
    largest = np.full(kinds.max(initial=0) + 1, np.finfo(float).tiny)
    np.maximum.at(largest, kinds, np.abs(norm).max(0, initial=0.0))
    floor = ROUNDING * largest[kinds]
    centre, shares = _share_spread(norm, norm_persons)
    varies = np.sqrt((shares**2).sum(0) / (len(np.unique(norm_persons)) - 1)) > floor
    if not varies.any():
        raise InvalidParameterError(
            "The parameters do not vary in the reference, so no subject can be compared with "
            "it. Fit a model with a transform, such as `PerCDL(transformation=TimeWarp())`."
        )
    kinds, floor, shares = kinds[varies], floor[varies], shares[:, varies]
    values, scatter = (values - centre)[:, varies], shares.T @ shares
    squared, solved = np.empty(len(values)), np.empty(values.shape)
    for rows, absent, mean, sd, n in _leave_out(shares, norm_persons, persons):
        variances = np.maximum(sd, floor) ** 2
        unit = np.sqrt(np.bincount(kinds, variances) / np.maximum(np.bincount(kinds), 1))[kinds]
        scale = (n - 1) * np.outer(unit, unit)
        covariance = (scatter - absent.T @ absent - n * np.outer(mean, mean)) / scale
        share = _oas(covariance, n) if shrinkage is None else shrinkage
        if share == 0 and n <= len(unit):
            raise InvalidParameterError(
                f"`shrinkage=0` needs more people in the reference than measurements; "
                f"there are {n}, of {len(unit)} measurements. Leave it out."
            )
        y = ((values[rows] - mean) / unit).T
        regular = (1 - share) * covariance + share * np.eye(len(unit))
        solution = np.linalg.solve(regular, y)
        squared[rows], solved[rows] = (y * solution).sum(0), (solution / unit[:, None]).T
    distance, slopes = np.sqrt(squared), np.zeros((len(values), len(varies)))
    slopes[:, varies] = solved / np.maximum(distance, np.finfo(float).tiny)[:, None]
    return distance, slopes


def _oas(covariance: np.ndarray, n: int) -> float:
    """Return the shrinkage of scikit-learn's ``OAS``, which needs the n rows themselves."""
    square, mean = np.mean(covariance**2), np.trace(covariance) / len(covariance)
    spread = (n + 1) * (square - mean**2 / len(covariance))
    return float((square + mean**2) / spread) if spread > square + mean**2 else 1.0


def _share_spread(norm, persons) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of people, and each recording's share of the spread around it.

    The shares are ``sqrt(v) (x - mean)`` with the votes v: 1 over a person's recordings.
    """
    votes = share_votes(persons, np.ones(len(norm), bool))
    centre = votes @ norm / votes.sum()
    return centre, np.sqrt(votes)[:, None] * (norm - centre)


def _leave_out(shares, norm_persons, persons) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of each person, its shares of the spread, and mean, sd and n of the others.

    n counts people, and those outside the norm come together. Sums over the others are the totals
    minus the person's.
    """
    squares, members = (shares**2).sum(0), pd.Series(norm_persons).groupby(norm_persons).indices
    known = np.where(np.isin(persons, norm_persons), persons, "")
    for name, rows in pd.Series(known).groupby(known).indices.items():
        absent = shares[members.get(name, [])]
        n = len(members) - (name in members)
        mean = -absent.sum(0) / (n * np.sqrt(max(len(absent), 1)))
        rest = squares - (absent**2).sum(0) - n * mean**2
        yield rows, absent, mean, np.sqrt(np.maximum(rest, 0) / (n - 1)), n
