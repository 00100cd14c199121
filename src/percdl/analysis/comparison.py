"""Do groups differ: where along the cycle, and in which parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike

from percdl.analysis.checks import Labels
from percdl.analysis.groups import gather
from percdl.analysis.permutation import (
    Cluster,
    check_permutations,
    compare_means,
    critical_value,
    permute,
    permute_clusters,
    tabulate_clusters,
)
from percdl.exceptions import InvalidParameterError


@dataclass(frozen=True, eq=False)
class Comparison:
    """Groups of curves compared sample by sample.

    Attributes
    ----------
    names : tuple of str
        The G groups.
    sizes : tuple of int
        Members of each group with the curve.
    means : array (G, L, P)
        Mean curve of each group.
    statistic : array (L, P)
        Welch's t of two groups (positive where the first is above the second), or F of more.
    threshold : float
        Samples beyond it form clusters.
    clusters : tuple of Cluster
        Smallest p value first.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    means: Float[np.ndarray, "G L P"]
    statistic: Float[np.ndarray, "L P"]
    threshold: float
    clusters: tuple[Cluster, ...]

    def __repr__(self) -> str:
        found = f"{len(self.clusters)} clusters, p = {self.p_value:.3g}"
        return f"Comparison({_name_groups(self.names, self.sizes)}; {found})"

    @property
    def difference(self) -> Float[np.ndarray, "L P"]:
        """Mean of the first group less that of the second; raises for more than two groups."""
        if len(self.names) != 2:
            raise InvalidParameterError(
                f"{len(self.names)} groups have no single difference; use `means`, or compare "
                "two of them."
            )
        return self.means[0] - self.means[1]

    @property
    def p_value(self) -> float:
        """P value of the whole comparison: the smallest of all clusters, or 1."""
        return min((cluster.p_value for cluster in self.clusters), default=1.0)

    def significant(self, level: float = 0.05) -> tuple[Cluster, ...]:
        """Return the clusters with a p value of at most ``level``."""
        return tuple(cluster for cluster in self.clusters if cluster.p_value <= level)

    def table(self, sfreq: float | None = None) -> pd.DataFrame:
        """Return one row per cluster: position, mean difference, p value.

        With a sampling rate, the position in seconds too.
        """
        differences = self.difference if len(self.names) == 2 else None
        return tabulate_clusters(self.clusters, differences, sfreq)


def compare_groups(
    curves: ArrayLike,
    groups: Labels,
    *names: str,
    persons: Labels | None = None,
    pointwise_level: float = 0.05,
    n_permutations: int = 1000,
    random_state: Any = 0,
) -> Comparison:
    """Test whether groups have different curves, by cluster permutation.

    A t (two groups) or F statistic is computed at every sample. Neighbouring samples of one
    channel beyond a threshold form a cluster; its mass is the sum of their statistics. It is
    compared with the largest mass, over all samples and channels, when people are exchanged
    between the groups at random (Maris and Oostenveld, 2007,
    https://doi.org/10.1016/j.jneumeth.2007.03.024; permutations by MNE-Python).

    Parameters
    ----------
    curves : array (S, L) or (S, L, P)
        One curve per person, such as ``effects.timing[:, k, 0]`` or
        ``effects.amplitude[:, k]`` of `separate_effects`, or
        ``model.personal_dictionary_[:, k]``. People with NaN in their curve are left out.
    groups : list of str
        Group of each person; None leaves a person out.
    *names : str
        The groups to compare, such as ``"Parkinson", "Healthy"``: the first less the second.
        Three or more are tested for any difference. By default all groups.
    persons : list, optional
        Person of each curve, if people have several: they are averaged first, see
        `average_persons`.
    pointwise_level : float
        Samples with a pointwise p value (Student's t or F) below it form clusters. A high level
        finds weak long differences, a low one strong short ones. Choose it before looking.
    n_permutations : int
        Including the grouping of the data; the smallest p value is 1 / n_permutations.
    random_state : int, RandomState or None
        Seed of the permutations. The order of people and the unit of the curves do not matter.

    Returns
    -------
    Comparison
        ``significant()`` gives the clusters, ``table()`` all of them as a DataFrame.

    Notes
    -----
    The chance of any significant cluster when groups are alike is at most the level, for any L
    and P. A cluster is significant as a whole: it does not show that a given sample differs, and
    its ends are not bounds of the difference (Sassenhagen and Draschkow, 2019,
    https://doi.org/10.1111/psyp.13335). For covariates such as age see `regress`.

    Cost O(n_permutations S L P).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> curves = rng.normal(size=(40, 30))
    >>> curves[:20, 10:18] += 2
    >>> found = compare_groups(curves, ["A"] * 20 + ["B"] * 20, "A", "B")
    >>> [(c.start, c.stop, c.p_value) for c in found.significant()]
    [(10, 18, 0.001)]
    """
    check_permutations("compare_groups", n_permutations, pointwise_level)
    samples = gather(_as_curves(curves), groups, names, persons)
    n_tested = len(samples.names) - 1
    threshold = critical_value(pointwise_level, n_tested, sum(samples.sizes) - n_tested - 1)
    parts = samples.exchangeable
    clusters = permute_clusters(
        parts,
        compare_means,
        threshold,
        two_sided=n_tested == 1,
        n_permutations=n_permutations,
        random_state=random_state,
    )
    statistic = compare_means(*parts, axis=0)
    return Comparison(samples.names, samples.sizes, samples.means, statistic, threshold, clusters)


def _as_curves(curves: ArrayLike) -> Float[np.ndarray, "S L P"]:
    found = np.asarray(curves, float)
    if found.ndim not in (2, 3) or 0 in found.shape:
        raise InvalidParameterError(
            f"`curves` has shape {found.shape}; pass one curve per person, array (S, L) or "
            "(S, L, P), such as `effects.amplitude[:, 0]`."
        )
    return found if found.ndim == 3 else found[..., None]


@dataclass(frozen=True, eq=False)
class ParameterComparison:
    """Parameters of groups compared, one by one and all together.

    Attributes
    ----------
    names, sizes : tuples
        The G groups, and the members of each with all parameters.
    parameters : tuple of str
        Names of the F parameters.
    means : array (G, F)
        Mean of each group.
    statistic : array (F,)
        Welch's t of two groups (positive where the first is above), or F of more.
    p_value : array (F,)
        Of each parameter alone, not corrected.
    p_adjusted : array (F,)
        Corrected for the number of parameters: the chance of any below a level is at most the
        level.
    omnibus : float
        Mean of the squared t, or of the F, over the parameters.
    omnibus_p : float
        P value of any difference at all; detects many small differences that no single parameter
        shows.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    parameters: tuple[str, ...]
    means: Float[np.ndarray, "G F"]
    statistic: Float[np.ndarray, " F"]
    p_value: Float[np.ndarray, " F"]
    p_adjusted: Float[np.ndarray, " F"]
    omnibus: float
    omnibus_p: float

    def __repr__(self) -> str:
        return (
            f"ParameterComparison({_name_groups(self.names, self.sizes)}; "
            f"{len(self.parameters)} parameters, omnibus p = "
            f"{self.omnibus_p:.3g}, smallest adjusted p = {self.p_adjusted.min():.3g})"
        )

    def table(self) -> pd.DataFrame:
        """Return one row per parameter, smallest p value first."""
        frame = pd.DataFrame({"parameter": self.parameters})
        for name, mean in zip(self.names, self.means, strict=True):
            frame[f"mean {name}"] = mean
        frame["statistic"] = self.statistic
        frame["p_value"], frame["p_adjusted"] = self.p_value, self.p_adjusted
        return frame.sort_values(["p_adjusted", "p_value"], kind="stable", ignore_index=True)


def compare_parameters(
    features: ArrayLike,
    groups: Labels,
    *names: str,
    parameters: Sequence[str] | None = None,
    persons: Labels | None = None,
    n_permutations: int = 1000,
    random_state: Any = 0,
) -> ParameterComparison:
    """Test every parameter for a difference between groups, and all of them together.

    People are exchanged between the groups at random, or in every possible way if there are no
    more than ``n_permutations``. The largest statistic of each permutation corrects for the
    number of parameters and their dependence (Westfall and Young, 1993). Cost
    O(n_permutations S F).

    Parameters
    ----------
    features : array (S, F)
        One row per person, such as ``model.transform(cohort)`` or cadence, stride time, ...
        People with NaN are left out.
    groups, *names, persons
        See `compare_groups`.
    parameters : list of str, optional
        Names of the parameters; by default ``"0"``, ``"1"``, ...
    n_permutations : int
        The smallest p value is 1 / n_permutations.
    random_state : int, RandomState or None
        Seed of the permutations.

    Returns
    -------
    ParameterComparison
        Tests of each parameter and of all together; ``table()`` returns a DataFrame.

    Notes
    -----
    A single parameter of a warp has little meaning: several of them make one bend. Use
    `separate_effects` and `compare_groups` to see their effect on the cycle.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> features = rng.normal(size=(30, 4))
    >>> features[:15, 2] += 2
    >>> compare_parameters(features, ["A"] * 15 + ["B"] * 15).table()["parameter"][0]
    '2'
    """
    check_permutations("compare_parameters", n_permutations)
    x = np.asarray(features, float)
    labels = _name_parameters(x, parameters)
    samples = gather(x, groups, names, persons)
    done = permute(
        samples.exchangeable, compare_means, "independent", n_permutations, random_state
    )
    observed, null = np.abs(done.statistic), np.abs(done.null)
    power = 2 if len(samples.names) == 2 else 1
    omnibus = np.mean(done.statistic**power)
    return ParameterComparison(
        samples.names,
        samples.sizes,
        labels,
        samples.means,
        done.statistic,
        done.p_value(observed, null),
        done.p_value(observed, null.max(1, keepdims=True)),
        float(omnibus),
        float(done.p_value(omnibus, np.mean(done.null**power, axis=1))),
    )


def _name_parameters(features: np.ndarray, parameters: Sequence[str] | None) -> tuple[str, ...]:
    if features.ndim != 2 or 0 in features.shape:
        raise InvalidParameterError(
            f"`features` has shape {features.shape}; pass one row of parameters per person, "
            "array (S, F)."
        )
    labels = tuple(map(str, range(features.shape[1]) if parameters is None else parameters))
    if len(labels) != features.shape[1]:
        raise InvalidParameterError(
            f"There are {features.shape[1]} parameters and {len(labels)} names of parameters."
        )
    return labels


def _name_groups(names: Sequence[str], sizes: Sequence[int]) -> str:
    return " and ".join(f"{name} ({n})" for name, n in zip(names, sizes, strict=True))
