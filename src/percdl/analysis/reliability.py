"""Test-retest: how well a measurement repeats, and which changes exceed its error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy import stats
from scipy.spatial.distance import pdist

from percdl.analysis.checks import (
    Fitted,
    Labels,
    as_numbers,
    as_personalization,
    check_fitted_on,
    check_level,
    name_each,
)
from percdl.analysis.deviation import measure_deviation
from percdl.analysis.effects import log_speed
from percdl.analysis.groups import average_persons, is_complete
from percdl.analysis.rhythm import measure_regularity
from percdl.estimators.personalization import Personalization
from percdl.exceptions import InvalidParameterError

# Columns of `measure_regularity` that describe one recording, and their names here.
RHYTHM = {"interval_median": "period", "interval_robust_cv": "period cv"}


def measure_reliability(
    values: Any, persons: Labels, visits: Labels | None = None, *, level: float = 0.95
) -> pd.DataFrame:
    r"""Measure how well numbers repeat when people are recorded again.

    A value is modelled as mean + person + visit + error, all random, with variances
    :math:`\sigma_P^2, \sigma_V^2, \sigma_E^2`. Returned are the intraclass correlation ICC(2,1)
    (two-way random, absolute agreement, single measurement), the standard error of measurement
    (SEM) and the smallest detectable change (SDC):

    .. math:: \mathrm{ICC} = \frac{\sigma_P^2}{\sigma_P^2 + \sigma_V^2 + \sigma_E^2}, \qquad
        \mathrm{SEM} = \sqrt{\sigma_V^2 + \sigma_E^2}, \qquad
        \mathrm{SDC} = 1.96 \sqrt 2\, \mathrm{SEM}.

    The variances are unbiased (Henderson's method 3); if every person has every visit, they are
    those of the two-way analysis of variance. The interval of the ICC is that of McGraw and Wong
    (1996, https://doi.org/10.1037/1082-989X.1.1.30), those of SEM and SDC are Satterthwaite's.
    Both assume normal distributions. With missing visits they are approximate: the numbers of
    people and visits are replaced by those that give the mean squares the same expectation.
    Cost O(S F V^2) for F measurements and V visits.

    Parameters
    ----------
    values : DataFrame, or array (S,) or (S, F)
        One row per recording and one column per measurement: `describe_recordings`, curves such
        as ``effects.timing[:, 0, 0]``, or any table. NaN are left out.
    persons, visits : list, list or None
        Person and visit of each recording, such as ``cohort.persons`` and ``cohort.visits``.
        Visits are labels that people share. By default (or if all are None) the recordings of a
        person are visits 1, 2, ... in their order.
    level : float
        Coverage of the intervals, and share of unchanged people within the SDC.

    Returns
    -------
    DataFrame
        One row per measurement: n_persons, n_visits, n_recordings, and icc, sem and sdc, each
        with the ends of its interval (``icc_low``, ``icc_high``, ...). SEM and SDC have the unit
        of the measurement. An estimate of a small ICC can be below 0.

    Examples
    --------
    >>> again = np.array([[1.0, 1.1], [2.0, 2.1], [3.0, 2.8], [4.0, 4.1]])
    >>> found = measure_reliability(again.ravel(), np.repeat(["Ada", "Bo", "Cy", "Di"], 2))
    >>> found[["icc", "icc_low", "sdc"]].round(2).values.tolist()
    [[0.99, 0.93, 0.26]]
    """
    check_level(level)
    frame = _as_frame(values)
    who, when, _ = _as_codes(len(frame), persons, visits)
    rows = {}
    for name in frame:
        x: Any = frame[name].to_numpy(float)
        known = np.isfinite(x)
        squares = _analyse(x[known], who[known], when[known], str(name))
        rows[name] = {**squares.counts, **_intervals(squares, level)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("measure")


class _Squares(NamedTuple):
    """Mean squares of persons, visits and errors, their degrees of freedom, and multiplicities.

    The expected mean square of persons is ``k`` times their variance plus that of the errors, that
    of visits ``n`` times; with all visits, k is the number of visits and n that of people.
    """

    mean: tuple[float, float, float]
    freedom: tuple[int, int, int]
    k: float
    n: float
    counts: dict[str, int]


def _analyse(
    x: Float[np.ndarray, " S"], who: Int[np.ndarray, " S"], when: Int[np.ndarray, " S"], name: str
) -> _Squares:
    """Return the mean squares of persons beside visits, and of visits beside persons."""
    who, when = (np.unique(codes, return_inverse=True)[1] for codes in (who, when))
    n_persons, n_visits = (int(codes.max(initial=-1)) + 1 for codes in (who, when))
    x = x - x.mean() if len(x) else x
    inside, within = _less_mean(x, who), _less_mean(x, when)
    beside = np.eye(n_visits)[when]
    for column in beside.T:
        column[:] = _less_mean(column, who)
    effects, _, rank, _ = np.linalg.lstsq(beside, inside, rcond=1e-10)
    rest = np.sum((inside - beside @ effects) ** 2)
    between = (np.sum(within**2) - rest, np.sum(inside**2) - rest)
    n_free = int(rank)
    freedom = (n_persons + n_free - n_visits, n_free, len(x) - n_persons - n_free)
    if min(freedom) < 1:
        raise InvalidParameterError(
            f"{name!r} has {len(x)} values of {n_persons} people at {n_visits} visits, too few to "
            "separate people from errors. At least two people need the same two visits; leave "
            "`visits` out to number each person's recordings in order."
        )
    means = (between[0] / freedom[0], between[1] / freedom[1], rest / freedom[2])
    counts = {"n_persons": n_persons, "n_visits": n_visits, "n_recordings": len(x)}
    k, n = (len(x) - n_visits) / freedom[0], (len(x) - n_persons) / freedom[1]
    return _Squares(means, freedom, k, n, counts)


def _less_mean(x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return each value less the mean of the values with the same code."""
    return x - (np.bincount(codes, x) / np.bincount(codes))[codes] if len(x) else x


def _intervals(squares: _Squares, level: float) -> dict[str, float]:
    """Return ICC(2,1), SEM and SDC with their intervals."""
    (person, visit, error), (free_p, free_v, free_e), k, n, _ = squares
    tail = (1 - level) / 2

    def freedom(a: float, b: float) -> float:  # Satterthwaite's, of a visit + b error
        parts = np.array([a * visit, b * error])
        return parts.sum() ** 2 / np.sum(parts**2 / [free_v, free_e])

    with np.errstate(divide="ignore", invalid="ignore"):
        rest = k * visit + (k * n - k - n) * error
        icc = n * (person - error) / (rest + n * person)
        signal = k * max(icc, 0.0) / n
        df = freedom(signal, max(1 - icc, 0.0) + signal * (n - 1))
        below, above = stats.f.isf(tail, free_p, df), stats.f.isf(tail, df, free_p)
        low = n * (person - below * error) / (below * rest + n * person)
        high = n * (above * person - error) / (rest + n * above * person)
        sem = np.sqrt((visit + (n - 1) * error) / n)
        df = freedom(1 / n, 1 - 1 / n)
        ends = sem * np.sqrt(df / stats.chi2.isf([tail, 1 - tail], df))
    scale, errors = stats.norm.isf(tail) * np.sqrt(2), np.array([sem, *ends])
    found = {"icc": (icc, low, high), "sem": errors, "sdc": scale * errors}
    return {
        f"{name}{end}": float(value)
        for name, values in found.items()
        for end, value in zip(("", "_low", "_high"), values, strict=True)
    }


def measure_changes(
    values: Any,
    persons: Labels,
    visits: Labels | None = None,
    reliability: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Compare each visit of a person with the first one, and with the smallest detectable change.

    Of people who have not changed, 5 % exceed the smallest detectable change of one measurement
    at one visit by chance, and more exceed that of one measurement out of several. Cost O(S F) for
    F measurements.

    Parameters
    ----------
    values, persons, visits
        See `measure_reliability`. The first recording of a person is the first visit.
    reliability : DataFrame, optional
        Result of `measure_reliability` on people who did not change between visits. By default it
        is computed from ``values``: true changes then count as errors, and fewer are found.

    Returns
    -------
    DataFrame
        One row per measurement and later visit: measure, person, first_visit, visit, before,
        after, sdc, change and beyond (whether the change is larger than sdc).

    Examples
    --------
    >>> stable = measure_reliability([1, 1.1, 2, 2.1, 3, 2.8, 4, 4.1], list("aabbccdd"))
    >>> measure_changes([1.0, 1.2, 2.0, 3.0], ["Ada", "Ada", "Bo", "Bo"], None, stable)["beyond"]
    0    False
    1     True
    Name: beyond, dtype: bool
    """
    frame = _as_frame(values)
    if reliability is None:
        reliability = measure_reliability(frame, persons, visits)
    if missing := [str(name) for name in frame if name not in reliability.index]:
        raise InvalidParameterError(
            f"`reliability` has no measurement {missing[0]!r}; it has "
            f"{', '.join(map(str, reliability.index))}. Name the columns alike."
        )
    who, _, labels = _as_codes(len(frame), persons, visits)
    names = list(dict.fromkeys(map(str, persons)))
    rows = []
    for name in frame:
        x: Any = frame[name].to_numpy(float)
        sdc = float(reliability.loc[name, "sdc"])  # pyright: ignore[reportArgumentType]
        for person in range(len(names)):
            own = np.flatnonzero((who == person) & np.isfinite(x))
            rows += [
                (name, names[person], labels[own[0]], labels[row], x[own[0]], x[row], sdc)
                for row in own[1:]
            ]
    columns = ["measure", "person", "first_visit", "visit", "before", "after", "sdc"]
    found = pd.DataFrame(rows, columns=columns)
    change = found["after"] - found["before"]
    return found.assign(change=change, beyond=change.abs() > found["sdc"])


def describe_recordings(
    fitted: Fitted,
    X: Any = None,
    *,
    reference: Fitted | None = None,
    persons: Labels | None = None,
    n_components: int = 3,
) -> pd.DataFrame:
    """Describe each recording by a few numbers, for `measure_reliability`.

    Warps are described by the principal components of their displacement ``psi(t) - t`` and of the
    logarithm of their local speed, since different parameters can give the same warp. A score is
    the root mean square, over the cycle, of the part of the curve that the component explains.
    Cost O(S F min(S, F)) for curves of F = K C L samples.

    Parameters
    ----------
    fitted, X : estimator or Personalization, Cohort or arrays, optional
        The subjects to describe, and their recordings, for the period of the events.
    reference : model or result of ``personalize``, optional
        Other people, who define the components and the norm of the deviation index. Without them,
        both come from the recordings described, which makes the ICC of the components larger.
    persons : list, optional
        Person of each recording described. Without a reference, components are computed from the
        mean of each person, and each person's norm excludes that person.
    n_components : int
        Number of components of each curve.

    Returns
    -------
    DataFrame
        Indexed by subject: ``warp 1``, ... (samples) and ``log speed 1``, ..., or ``atom 1``, ...
        if the transform has no warp; ``deviation`` (the index of `measure_deviation`); with ``X``
        for each atom ``period`` (seconds, median interval) and ``period cv`` (its robust
        coefficient of variation).

    Examples
    --------
    >>> from percdl import IndCDL, make_synthetic
    >>> truth = make_synthetic(9, random_state=0)
    >>> model = IndCDL(2, 50, penalty=1.0, init=truth.dictionary).fit(truth.cohort)
    >>> list(describe_recordings(model, n_components=2))
    ['atom 1', 'atom 2', 'deviation']
    """
    found = as_personalization(fitted)
    home = found if reference is None else as_personalization(reference)
    who = persons if home is found else None
    columns, own, norm = {}, _curves(found), _curves(home)
    for name, curves in own.items():
        people = norm[name] if who is None else average_persons(norm[name], who)[0]
        for i, scores in enumerate(_project(curves, people, n_components).T):
            columns[f"{name} {i + 1}"] = scores
    others = None if home is found else home
    columns["deviation"] = measure_deviation(found, persons=who, reference_from=others).index
    table = pd.DataFrame(columns, index=pd.Index(found.subjects, name="subject"))
    if X is None:
        return table
    length, n_atoms = found.dictionary.shape[1], len(found.dictionary)
    rhythm = measure_regularity(
        found.events, check_fitted_on(fitted, X), atom_length=length, n_atoms=n_atoms
    ).set_index("subject")
    for k in range(n_atoms):
        end = "" if n_atoms == 1 else f", atom {k}"
        for column, name in RHYTHM.items():
            table[f"{name}{end}"] = rhythm.loc[rhythm["atom"] == k, column]
    return table


def compare_distances(curves: Any, persons: Labels) -> tuple[float, float]:
    """Return the mean distance of curves of two people, and of two curves of one person.

    The distance is the root mean square difference. Curves say little about people unless the
    first is much larger than the second. Curves with NaN are left out. Cost O(S^2 F) for curves
    of F samples.

    Parameters
    ----------
    curves, persons : array (S, ...), list
        One curve per recording, such as ``model.personalize(cohort).warps[:, 0, 0]``, and its
        person.

    Returns
    -------
    between, within : float
        In the unit of the curves.

    Examples
    --------
    >>> compare_distances([[0.0, 0.0], [1.0, 1.0], [4.0, 4.0]], ["Ada", "Ada", "Bo"])
    (3.5, 1.0)
    """
    values = as_numbers(curves, "curves")
    names = name_each("curves", len(values), persons, "persons")
    flat, kept = values.reshape(len(values), -1), is_complete(values)
    distances = pdist(flat[kept]) / np.sqrt(flat.shape[1])
    who = pd.factorize(names)[0][kept]
    same = pdist(who[:, None].astype(float)) == 0
    if same.all() or not same.any():
        raise InvalidParameterError(
            "`compare_distances` needs curves of two people, and two curves of one person."
        )
    return float(distances[~same].mean()), float(distances[same].mean())


def _curves(found: Personalization) -> dict[str, Float[np.ndarray, "S F"]]:
    """Return the curves that describe people; NaN for those without some atom."""
    curves = {"atom": found.personal_dictionary}
    if found.warps.shape[2]:
        displacement = found.warps - np.arange(found.warps.shape[3])
        curves = {"warp": displacement, "log speed": log_speed(found.own_times)}
    return {name: values.reshape(len(values), -1) for name, values in curves.items()}


def _project(curves: np.ndarray, people: np.ndarray, n_components: int) -> np.ndarray:
    """Return the scores of curves on the principal components of people."""
    known = people[is_complete(people)]
    centre = known.mean(0)
    _, _, axes = np.linalg.svd(known - centre, full_matrices=False)
    axes = axes[:n_components]
    # The sign of a component is arbitrary: its largest entry is positive.
    axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])[:, None]
    return (curves - centre) @ axes.T / np.sqrt(curves.shape[1])


def _as_frame(values: Any) -> pd.DataFrame:
    """Return measurements as a table with one row per recording; raise unless all are numbers."""
    if not isinstance(values, pd.DataFrame):
        values = as_numbers(values, "values")
        if values.ndim > 2:
            raise InvalidParameterError(
                f"`values` has shape {values.shape}; pass one row of numbers per recording."
            )
        return pd.DataFrame(values)
    if repeated := [str(name) for name in values.columns[values.columns.duplicated()]]:
        raise InvalidParameterError(f"`values` has several columns {repeated[0]!r}. Rename them.")
    text = [repr(name) for name in values if not pd.api.types.is_numeric_dtype(values[name])]
    if text:
        raise InvalidParameterError(f"`values` has text in column {', '.join(text)}. Drop it.")
    return values


def _as_codes(
    n_rows: int, persons: Labels, visits: Labels | None
) -> tuple[Int[np.ndarray, " S"], Int[np.ndarray, " S"], Sequence[Any]]:
    """Return numbers of persons and visits, and visits; raise if a person has a visit twice."""
    who = pd.factorize(name_each("rows of values", n_rows, persons, "persons"))[0]
    if visits is None or all(visit is None for visit in visits):
        when = pd.Series(who).groupby(who).cumcount().to_numpy() + 1
        return who, when, when.tolist()
    labels = list(visits)
    when = pd.factorize(name_each("rows of values", n_rows, labels, "visits"))[0]
    twice = pd.DataFrame({"who": who, "when": when}).duplicated().to_numpy()
    if twice.any():
        row = int(np.argmax(twice))
        raise InvalidParameterError(
            f"Person {list(persons)[row]!r} has visit {labels[row]!r} more than once. Give each "
            "recording of a person its own visit, or leave `visits` out to number them in order."
        )
    return who, when, labels
