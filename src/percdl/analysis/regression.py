"""What a regression of people's values on covariates has found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from percdl.analysis.clusters import Cluster, tabulate_clusters
from percdl.exceptions import InvalidParameterError


@dataclass(frozen=True, eq=False)
class CovariateTest:
    """Whether a covariate explains anything beyond the others, by Freedman and Lane.

    Attributes
    ----------
    statistic : array (...)
        t of its coefficient; F where it has several (a category of three or more levels).
    p_adjusted : array (...)
        Corrected for the number of values. Along a cycle, all samples of a cluster have the p
        value of the cluster, and samples outside of clusters have 1.
    clusters : tuple of Cluster
        Along a cycle; else empty.
    """

    statistic: np.ndarray
    p_adjusted: np.ndarray
    clusters: tuple[Cluster, ...]

    @property
    def p_value(self) -> float:
        """Of the covariate as a whole: that it explains nothing anywhere."""
        return float(self.p_adjusted.min())

    def significant(self, level: float = 0.05) -> tuple[Cluster, ...]:
        """Return the clusters with a p value of at most ``level``."""
        return tuple(cluster for cluster in self.clusters if cluster.p_value <= level)


@dataclass(frozen=True, eq=False)
class Regression:
    """Values of people as a sum of what their covariates contribute.

    Attributes
    ----------
    terms : tuple of str
        The T terms, such as ``"intercept"``, ``"age"``, ``"group[Parkinson]"``.
    coefficient, standard_error, t, p_value : array (T, ...)
        Of each term, the others held fixed. p values are those of Student's t, for each value
        by itself.
    r_squared, adjusted_r_squared : array (...)
        Share of the variance explained, and the same less what chance explains.
    tests : dict of str to CovariateTest
        Of each covariate, controlled over all values.
    n_subjects, n_left_out, dof : int
        Subjects used, those without all values, degrees of freedom.
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
        """Say what was regressed on what."""
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
        n_values = self.coefficient[0].size
        columns = {
            "term": np.repeat(self.terms, n_values),
            "value": np.tile(np.arange(n_values), len(self.terms)),
        }
        for name in ("coefficient", "standard_error", "t", "p_value"):
            columns[name] = getattr(self, name).ravel()
        return pd.DataFrame(columns)

    def cluster_table(self, sfreq: float | None = None) -> pd.DataFrame:
        """Return one row per covariate and cluster; with a sampling rate, in seconds too."""
        parts = []
        for name, test in self.tests.items():
            part = tabulate_clusters(test.clusters, None, sfreq)
            part.insert(0, "covariate", name)
            parts.append(part)
        return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
