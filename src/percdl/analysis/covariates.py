"""Regression on covariates such as age, speed or sex, with permutation tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats
from jaxtyping import Float
from numpy.typing import ArrayLike

from percdl.analysis.checks import as_numbers, check_lengths
from percdl.analysis.groups import is_complete
from percdl.analysis.permutation import (
    Cluster,
    canonical_order,
    center,
    critical_value,
    permute,
    permute_clusters,
    regression_contrast,
    tabulate_clusters,
)
from percdl.exceptions import InvalidParameterError
from percdl.seeds import Seed

# Results of each term.
OF_TERMS = ("coefficient", "standard_error", "t", "p_value")


@dataclass(frozen=True, eq=False)
class CovariateTest:
    """Test of one covariate beside the others, by Freedman and Lane.

    Attributes
    ----------
    statistic, p_adjusted : array (...)
        t of its coefficient, or F if it has several (a category of three or more levels), and the
        p value corrected for the number of values; along a cycle that of the cluster, or 1.
    clusters : tuple of Cluster
        Along a cycle; otherwise empty.
    """

    statistic: np.ndarray
    p_adjusted: np.ndarray
    clusters: tuple[Cluster, ...]

    @property
    def p_value(self) -> float:
        """P value of the covariate as a whole: the smallest of all values."""
        return float(self.p_adjusted.min())

    def significant(self, level: float = 0.05) -> tuple[Cluster, ...]:
        """Return the clusters with a p value of at most ``level``."""
        return tuple(cluster for cluster in self.clusters if cluster.p_value <= level)


@dataclass(frozen=True, eq=False)
class Regression:
    """A linear regression of values of people on covariates.

    Attributes
    ----------
    terms : tuple of str
        The T terms, such as ``"intercept"``, ``"age"``, ``"group[Parkinson]"``.
    coefficient, standard_error, t, p_value : array (T, ...)
        Of each term, the others held fixed. p values are those of Student's t, per value.
    r_squared, adjusted_r_squared : array (...)
        Share of the variance explained.
    tests : dict of str to CovariateTest
        Test of each covariate.
    n_subjects, n_left_out, dof : int
        Subjects used, subjects with missing values, degrees of freedom.
    """

    terms: tuple[str, ...]
    coefficient: Float[np.ndarray, "T ..."]
    standard_error: Float[np.ndarray, "T ..."]
    t: Float[np.ndarray, "T ..."]
    p_value: Float[np.ndarray, "T ..."]
    r_squared: np.ndarray
    adjusted_r_squared: np.ndarray
    tests: dict[str, CovariateTest]
    n_subjects: int
    n_left_out: int
    dof: int

    def __repr__(self) -> str:
        found = ", ".join(f"{name} p = {test.p_value:.3g}" for name, test in self.tests.items())
        return f"Regression({self.n_subjects} subjects, {self.n_left_out} left out; {found})"

    def coefficient_of(self, term: str) -> np.ndarray:
        """Return the coefficients of one term, for all values."""
        if term not in self.terms:
            raise InvalidParameterError(
                f"There is no term {term!r}; there are {', '.join(self.terms)}."
            )
        return np.asarray(self.coefficient[self.terms.index(term)])

    def table(self) -> pd.DataFrame:
        """Return one row per term and value."""
        of_terms = {name: getattr(self, name).ravel() for name in OF_TERMS}
        index = pd.MultiIndex.from_product(
            [self.terms, range(self.coefficient[0].size)], names=["term", "value"]
        )
        return pd.DataFrame(of_terms, index=index).reset_index()

    def cluster_table(self, sfreq: float | None = None) -> pd.DataFrame:
        """Return one row per covariate and cluster; with a sampling rate, in seconds too."""
        found = [(name, c) for name, test in self.tests.items() for c in test.clusters]
        table = tabulate_clusters([cluster for _, cluster in found], None, sfreq)
        table.insert(0, "covariate", pd.Series([name for name, _ in found], dtype=str))
        return table


def regress(
    values: ArrayLike,
    covariates: pd.DataFrame,
    *,
    along_cycle: bool = False,
    reference: Mapping[str, Any] | None = None,
    pointwise_level: float = 0.05,
    n_permutations: int = 1000,
    random_state: Seed = 0,
) -> Regression:
    """Regress parameters or curves of people on covariates.

    ``value = intercept + sum of coefficient x covariate``, by least squares for each value. A
    coefficient is a partial effect: that of a group beside age and speed is the difference between
    people of the same age and speed. The tests permute the residuals of the regression on all
    other covariates (Freedman and Lane, 1983; Winkler et al., 2014,
    https://doi.org/10.1016/j.neuroimage.2014.01.060). They are exact for a single covariate and
    approximate otherwise, and assume the same residual variance for all people. Cost
    O(n_permutations S F T) for each covariate, with F values per person and T terms.

    Parameters
    ----------
    values : array (S,), (S, F), (S, L) or (S, L, P)
        One row per person: parameters, or curves such as ``effects.timing[:, k, 0]``. Average
        several recordings of one person first, see `average_persons`.
    covariates : DataFrame of S rows
        In the same order. Numbers are centred; text, categories and booleans are compared with a
        reference level. People with missing values are left out, and counted.
    along_cycle : bool
        Whether values are curves with clusters, as in `compare_groups`. Otherwise every value is
        tested alone, corrected by the largest statistic of each permutation.
    reference : dict, optional
        Reference levels, such as ``{"group": "Healthy"}``; by default the first one.
    pointwise_level, n_permutations, random_state
        See `compare_groups`.

    Returns
    -------
    Regression

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"age": rng.uniform(20, 80, 40), "sex": ["f", "m"] * 20})
    >>> stride = 1 + 0.01 * people["age"].to_numpy() + 0.1 * rng.normal(size=40)
    >>> regress(stride, people).terms
    ('intercept', 'age', 'sex[m]')
    """
    everyone = np.atleast_1d(as_numbers(values, "values"))
    check_lengths("rows of values", len(everyone), covariates, "rows of covariates")
    if along_cycle and everyone.ndim not in (2, 3):
        raise InvalidParameterError(
            f"`along_cycle=True` needs curves (S, L) or (S, L, P), not shape {everyone.shape}."
        )
    known = covariates.notna() & ~covariates.isin([np.inf, -np.inf])
    complete = is_complete(everyone) & known.all(axis=1).to_numpy()
    rows = np.flatnonzero(complete)[canonical_order(everyone[complete])]
    kept = everyone[rows]
    # Samples of a cycle share a unit, parameters and channels do not.
    in_units = kept if kept.ndim > 1 + along_cycle else kept[..., None]
    centred = center(in_units).reshape(kept.shape)
    design = build_design(covariates.iloc[rows], dict(reference or {}))
    level = pointwise_level if along_cycle else None
    options = {"n_permutations": n_permutations, "random_state": random_state}
    return Regression(
        terms=design.terms,
        tests={
            name: _permute_residuals(design, name, centred, level, **options)
            for name in design.columns_of
        },
        n_subjects=len(kept),
        n_left_out=len(everyone) - len(kept),
        **_least_squares(design, centred, np.mean(kept, axis=0, keepdims=True)),
    )


class Design(NamedTuple):
    """Terms, columns (S, T) and the columns of each covariate in a regression."""

    terms: tuple[str, ...]
    matrix: Float[np.ndarray, "S T"]
    columns_of: dict[str, list[int]]


def build_design(covariates: pd.DataFrame, reference: Mapping[str, Any]) -> Design:
    """Return the columns of complete covariates: numbers centred, categories as indicators."""
    columns: dict[str, np.ndarray] = {"intercept": np.ones(len(covariates))}
    columns_of = {}
    names = [*columns, *map(str, covariates)]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidParameterError(
            f"Covariate {min(twice)!r}: the name is used twice"
            f"{', for the constant as well' if 'intercept' in twice else ''}. Rename or drop it."
        )
    if unknown := {*map(str, reference)} - {*names}:
        raise InvalidParameterError(
            f"`reference` names {min(unknown)!r}; the covariates are {', '.join(names[1:])}."
        )
    for name, column in covariates.items():
        own = _encode(str(name), column, reference.get(str(name)))
        columns_of[str(name)] = list(range(len(columns), len(columns) + len(own)))
        columns |= own
    terms, matrix = tuple(columns), np.stack(list(columns.values()), 1)
    if len(matrix) <= len(terms) + 1:
        raise InvalidParameterError(
            f"{len(matrix)} subjects have all values and covariates; the {len(terms)} terms "
            f"({', '.join(terms)}) need at least {len(terms) + 2}."
        )
    scaled = matrix / np.linalg.norm(matrix, axis=0)
    rank = np.linalg.matrix_rank(scaled)
    redundant = [
        repr(name)
        for name, own in columns_of.items()
        if rank - np.linalg.matrix_rank(np.delete(scaled, own, axis=1)) < len(own)
    ]
    if redundant:
        raise InvalidParameterError(
            f"Covariates {', '.join(redundant)} cannot be distinguished in these subjects: one "
            "follows from the others (such as a sensor used in one group only). Leave one out."
        )
    return Design(terms, matrix, columns_of)


def _encode(name: str, column: pd.Series, reference: Any) -> dict[str, np.ndarray]:
    """Return a centred number, or one indicator per level except the reference."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        levels = [str(x) for x in column.cat.remove_unused_categories().cat.categories]
    else:
        levels = sorted(set(column.astype(str)))
    if len(levels) < 2:
        raise InvalidParameterError(
            f"Covariate {name!r} is the same for all complete subjects. Leave it out."
        )
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        values = column.to_numpy(float)
        return {name: values - values.mean()}
    first = levels[0] if reference is None else str(reference)
    if first not in levels:
        raise InvalidParameterError(
            f"`reference={{{name!r}: {reference!r}}}`: no subject has it; {name} is one of "
            f"{', '.join(levels)}."
        )
    of = column.astype(str).to_numpy()
    return {f"{name}[{x}]": (of == x).astype(float) for x in levels if x != first}


def _permute_residuals(
    design: Design,
    covariate: str,
    values: np.ndarray,
    pointwise_level: float | None,
    **options: Any,
) -> CovariateTest:
    """Permute the residuals of the values on the other covariates (Freedman and Lane)."""
    own = design.columns_of[covariate]
    tested, others = design.matrix[:, own], np.delete(design.matrix, own, axis=1)
    contrast = regression_contrast(tested, others)
    flat = values.reshape(len(values), -1)
    rest = flat - others @ np.linalg.lstsq(others, flat, rcond=None)[0]
    statistic, shape = contrast(rest, axis=0), values.shape[1:]
    if pointwise_level is None:
        done = permute((rest,), contrast, "pairings", **options)
        p_value = done.p_value(np.abs(done.statistic), np.abs(done.null).max(1, keepdims=True))
        return CovariateTest(statistic.reshape(shape), p_value.reshape(shape), ())
    curves = rest.reshape(*values.shape[:2], -1)
    clusters = permute_clusters(
        [curves[:1], curves[1:]],  # MNE permutes the rows of two samples; here they are one
        lambda *parts: contrast(np.concatenate(parts, axis=-1)),
        critical_value(pointwise_level, len(own), len(rest) - len(design.terms)),
        len(own) == 1,
        **options,
    )
    p_value = np.ones(curves.shape[1:])
    for cluster in clusters:
        p_value[cluster.start : cluster.stop, cluster.channel] = cluster.p_value
    return CovariateTest(statistic.reshape(shape), p_value.reshape(shape), clusters)


def _least_squares(design: Design, values: np.ndarray, mean: np.ndarray) -> dict[str, Any]:
    """Return coefficients and their statistics, for all values (less their mean) at once."""
    x, flat = design.matrix, values.reshape(len(values), -1)
    dof = len(x) - x.shape[1]
    coefficient = np.linalg.lstsq(x, flat, rcond=None)[0]
    left, total = np.sum((flat - x @ coefficient) ** 2, axis=0), np.sum(flat**2, axis=0)
    coefficient[0] += mean.ravel()
    error = np.sqrt(np.diag(np.linalg.inv(x.T @ x))[:, None] * left / dof)
    t = np.divide(coefficient, error, out=np.zeros_like(error), where=error > 0)
    unexplained = np.divide(left, total, out=np.ones_like(total), where=total > 0)
    shape = values.shape[1:]
    by_term = (coefficient, error, t, 2 * scipy.stats.t.sf(np.abs(t), dof))
    shaped = (array.reshape(-1, *shape) for array in by_term)
    return dict(zip(OF_TERMS, shaped, strict=True)) | {
        "r_squared": (1 - unexplained).reshape(shape),
        "adjusted_r_squared": (1 - unexplained * (len(x) - 1) / dof).reshape(shape),
        "dof": dof,
    }
