"""Age, speed, sex: how values of people go with what else is known of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats
from jaxtyping import Bool
from numpy.typing import ArrayLike
from scipy.stats import permutation_test

from percdl.analysis.clusters import Cluster, check_permutations, permute_clusters
from percdl.analysis.contrasts import (
    as_generator,
    chance_of,
    critical_value,
    regression_contrast,
    steady,
)
from percdl.analysis.design import Design, build_design
from percdl.analysis.regression import CovariateTest, Regression
from percdl.analysis.samples import canonical_order
from percdl.exceptions import InvalidParameterError

# How many permuted values are held at a time.
BATCH_SIZE = 2**22


def regress(
    values: ArrayLike,
    covariates: pd.DataFrame,
    *,
    along_cycle: bool = False,
    reference: Mapping[str, Any] | None = None,
    pointwise_level: float = 0.05,
    n_permutations: int = 1000,
    random_state: Any = 0,
) -> Regression:
    """Regress parameters or curves of people on covariates, all of them together.

    ``value = intercept + sum of coefficient x covariate``, by least squares for each value. A
    coefficient is a partial effect: with ``covariates[["group", "age", "speed"]]``, that of the
    group is the difference between people of the same age and speed.

    Parameters
    ----------
    values : array (S,), (S, F), (S, L) or (S, L, P)
        One row per person: parameters, or curves such as ``effects.timing[:, k, 0]``.
    covariates : DataFrame of S rows
        In the same order. Numbers are centred, text, categories and truth values compared with a
        reference level, so that the intercept is the average person of the reference. People with
        anything missing are left out, and counted.
    along_cycle : bool
        Whether values are curves: neighbouring samples then form clusters, as in
        `compare_groups`. Else every value is tested by itself, the largest statistic of each
        permutation correcting for their number.
    reference : dict, optional
        Level that others are compared with, such as ``{"group": "Healthy"}``; by default the
        first category, or the first in the alphabet.
    pointwise_level, n_permutations, random_state
        As in `compare_groups`.

    Returns
    -------
    Regression
        Coefficients, their standard errors, and a test of each covariate.

    Notes
    -----
    The tests permute the residuals of the regression on all other covariates (Freedman and
    Lane, 1983; Winkler et al., 2014, https://doi.org/10.1016/j.neuroimage.2014.01.060): with
    other covariates in the model they are approximate, without them exact. They assume that
    residuals are alike in all people, unlike `compare_groups`, which lets groups differ in
    spread.

    Adjusting is no cure for a group that has its covariate to itself: where all patients are old
    and all others young, or recorded with another sensor, nothing can tell the two apart. A
    covariate that follows from others raises an error; one that nearly does has large standard
    errors. Whether to adjust at all is a question about causes: if a disease slows people
    down, a difference adjusted for speed is only what is left of its effect.

    People with several recordings: average them first, see `average_persons`.

    Cost O(n_permutations S F T) for each covariate, with F values of each person and T terms.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"age": rng.uniform(20, 80, 40), "sex": ["f", "m"] * 20})
    >>> stride = 1 + 0.01 * people["age"].to_numpy() + 0.1 * rng.normal(size=40)
    >>> found = regress(stride, people)
    >>> found.terms, float(found.coefficient_of("age"))
    (('intercept', 'age', 'sex[m]'), 0.01)
    """
    check_permutations("regress", n_permutations, pointwise_level)
    everyone = np.asarray(values, float)
    _check(everyone, covariates, along_cycle)
    known = _complete(everyone, covariates)
    rows = np.flatnonzero(known)[canonical_order(everyone[known])]
    kept = everyone[rows]
    # Samples of a cycle share a unit, parameters and channels do not.
    in_units = kept if kept.ndim > 1 + along_cycle else kept[..., None]
    centred = steady(in_units).reshape(kept.shape)
    design = build_design(covariates.iloc[rows], dict(reference or {}))
    rule = _Rule(along_cycle, pointwise_level, n_permutations, random_state)
    return Regression(
        terms=design.terms,
        tests={name: rule.test(design, name, centred) for name in design.columns_of},
        n_subjects=len(kept),
        n_left_out=len(everyone) - len(kept),
        **_least_squares(design, centred, np.mean(kept, axis=0, keepdims=True)),
    )


@dataclass(frozen=True)
class _Rule:
    """How covariates are tested."""

    along_cycle: bool
    pointwise_level: float
    n_permutations: int
    random_state: Any

    def test(self, design: Design, covariate: str, values: np.ndarray) -> CovariateTest:
        """Permute what the other covariates leave of the values (Freedman and Lane)."""
        tested, others = design.split(covariate)
        contrast = regression_contrast(tested, others)
        flat = values.reshape(len(values), -1)
        rest = flat - others @ np.linalg.lstsq(others, flat, rcond=None)[0]
        statistic = contrast(rest, axis=0).reshape(values.shape[1:])
        if self.along_cycle:
            curves = rest.reshape(*values.shape[:2], -1)
            clusters = self._clusters(curves, contrast, tested.shape[1], design)
            return CovariateTest(statistic, _spread(clusters, curves, values.shape[1:]), clusters)
        adjusted = self._adjust(rest, contrast).reshape(values.shape[1:])
        return CovariateTest(statistic, adjusted, ())

    def _clusters(self, rest, contrast, n_tested: int, design: Design) -> tuple[Cluster, ...]:
        dof = len(rest) - len(design.terms)
        return permute_clusters(
            # MNE permutes the rows of two samples; here they are one.
            [rest[:1], rest[1:]],
            lambda *parts: contrast(np.concatenate(parts, axis=-1)),
            critical_value(self.pointwise_level, n_tested, dof),
            two_sided=n_tested == 1,
            n_permutations=self.n_permutations,
            random_state=self.random_state,
        )

    def _adjust(self, rest: np.ndarray, contrast) -> np.ndarray:
        found: Any = permutation_test(
            (rest,),
            contrast,
            permutation_type="pairings",
            vectorized=True,
            axis=0,
            n_resamples=self.n_permutations - 1,
            batch=max(1, BATCH_SIZE // rest.size),
            # `rng` is unknown to SciPy before 1.15.
            random_state=as_generator(self.random_state),  # pyright: ignore[reportCallIssue]
        )
        null = np.abs(found.null_distribution).max(1, keepdims=True)
        drawn = math.factorial(len(rest)) > self.n_permutations - 1
        return chance_of(np.abs(found.statistic), null, drawn)


def _least_squares(design: Design, values: np.ndarray, mean: np.ndarray) -> dict[str, Any]:
    """Return coefficients and what goes with them, for all values (less their mean) together."""
    x, flat = design.matrix, values.reshape(len(values), -1)
    dof = len(x) - x.shape[1]
    coefficient = np.linalg.lstsq(x, flat, rcond=None)[0]
    left, total = np.sum((flat - x @ coefficient) ** 2, axis=0), np.sum(flat**2, axis=0)
    coefficient[0] += mean.ravel()
    error = np.sqrt(np.diag(np.linalg.inv(x.T @ x))[:, None] * left / dof)
    t = np.divide(coefficient, error, out=np.zeros_like(error), where=error > 0)
    unexplained = np.divide(left, total, out=np.ones_like(total), where=total > 0)
    by_term = {"coefficient": coefficient, "standard_error": error, "t": t}
    by_term["p_value"] = 2 * scipy.stats.t.sf(np.abs(t), dof)
    of_all = {"r_squared": 1 - unexplained}
    of_all["adjusted_r_squared"] = 1 - unexplained * (len(x) - 1) / dof
    shape = values.shape[1:]
    shaped = {name: array.reshape(-1, *shape) for name, array in by_term.items()}
    return shaped | {name: array.reshape(shape) for name, array in of_all.items()} | {"dof": dof}


def _spread(clusters: tuple[Cluster, ...], curves: np.ndarray, shape: tuple[int, ...]):
    """Return the p value of the cluster that each sample is in, 1 outside."""
    p_value = np.ones(curves.shape[1:])
    for cluster in clusters:
        p_value[cluster.start : cluster.stop, cluster.channel] = cluster.p_value
    return p_value.reshape(shape)


def _complete(values: np.ndarray, covariates: pd.DataFrame) -> Bool[np.ndarray, " S"]:
    """Say who has all values and all covariates."""
    finite = np.isfinite(values.reshape(len(values), -1)).all(1)
    known = covariates.notna() & ~covariates.isin([np.inf, -np.inf])
    return finite & known.all(axis=1).to_numpy()


def _check(values: np.ndarray, covariates: pd.DataFrame, along_cycle: bool) -> None:
    if len(values) != len(covariates) or values.ndim == 0:
        raise InvalidParameterError(
            f"There are {len(values)} rows of values and {len(covariates)} rows of covariates. "
            "Pass one row of each per person, in the same order."
        )
    if not len(covariates.columns):
        raise InvalidParameterError("`covariates` has no column: there is nothing to regress on.")
    if along_cycle and values.ndim not in (2, 3):
        raise InvalidParameterError(
            f"`along_cycle=True` takes curves (S, L) or (S, L, P), not shape {values.shape}."
        )
