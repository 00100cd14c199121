"""Where along the cycle groups differ beyond chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike

from percdl.analysis.clusters import (
    Cluster,
    check_permutations,
    permute_clusters,
    tabulate_clusters,
)
from percdl.analysis.contrasts import compare_means, critical_value
from percdl.analysis.samples import Labels, gather
from percdl.exceptions import InvalidParameterError


@dataclass(frozen=True, eq=False)
class Comparison:
    """The curves of some groups compared, sample by sample.

    Attributes
    ----------
    names : tuple of str
        The G groups.
    sizes : tuple of int
        Members of each who have the curve.
    means : array (G, L, P)
        Mean curve of each group.
    statistic : array (L, P)
        Welch's t of two groups (positive where the first is above the second), his F of more.
    threshold : float
        Beyond it a sample belongs to a cluster.
    clusters : tuple of Cluster
        The least probable first.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    means: Float[np.ndarray, "G L P"]
    statistic: Float[np.ndarray, "L P"]
    threshold: float
    clusters: tuple[Cluster, ...]

    def __repr__(self) -> str:
        """Say who was compared, and what was found."""
        who = " and ".join(f"{name} ({n})" for name, n in zip(self.names, self.sizes, strict=True))
        return f"Comparison({who}; {len(self.clusters)} clusters, p = {self.p_value:.3g})"

    @property
    def difference(self) -> Float[np.ndarray, "L P"]:
        """Mean of the first group less that of the second; of two groups only."""
        if len(self.names) != 2:
            raise InvalidParameterError(
                f"{len(self.names)} groups have no single difference; use `means`, or compare "
                "two of them."
            )
        return self.means[0] - self.means[1]

    @property
    def p_value(self) -> float:
        """Of the whole comparison: that the groups have the same curves everywhere."""
        return min((cluster.p_value for cluster in self.clusters), default=1.0)

    def significant(self, level: float = 0.05) -> tuple[Cluster, ...]:
        """Return the clusters with a p value of at most ``level``."""
        return tuple(cluster for cluster in self.clusters if cluster.p_value <= level)

    def table(self, sfreq: float | None = None) -> pd.DataFrame:
        """Return one row per cluster: where it is, the mean difference in it, its p value.

        With a sampling rate, its ends in seconds too.
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
    """Test along the whole cycle whether groups have different curves.

    A t (two groups) or F statistic is computed at every sample. Neighbouring samples of one
    channel beyond a threshold form a cluster; its mass is the sum of their statistics. People
    are then exchanged between the groups at random, and the largest mass of each permutation,
    over all samples and channels, is what chance brings. (Maris and Oostenveld, 2007,
    https://doi.org/10.1016/j.jneumeth.2007.03.024; the permutations are those of MNE-Python.)

    Parameters
    ----------
    curves : array (S, L) or (S, L, P)
        One curve per person, such as ``effects.timing[:, k, 0]`` or
        ``effects.amplitude[:, k]`` of `separate_effects`, or
        ``model.personal_dictionary_[:, k]``. People whose curve holds NaN are left out.
    groups : list of str
        Everyone's group; None leaves a person out.
    *names : str
        The groups to compare, such as ``"Parkinson", "Healthy"``: the first less the second.
        Three or more are tested for any difference among them. By default all groups.
    persons : list, optional
        Who each curve belongs to, where people have several: they are averaged first, since
        curves of one person must not be exchanged as if they came from different people. See
        `average_persons`.
    pointwise_level : float
        Samples whose own p value (of Student's t or F) is below it form clusters. A high one
        finds weak long differences, a low one strong short ones. Choose it before looking.
    n_permutations : int
        The grouping of the data counts as one; the smallest p value is 1 / n_permutations.
    random_state : int, RandomState or None
        Decides the permutations, and so everything. The order of people plays no part, nor
        does the unit of the curves, and exchanging two groups turns the signs alone.

    Returns
    -------
    Comparison
        ``significant()`` gives the clusters, ``table()`` all of them as a frame.

    Notes
    -----
    *What a p value says*: were people exchangeable between the groups, the largest cluster of
    the whole cycle would be as large as this one with that probability. So the chance of
    calling anything significant where groups are alike is at most the level, whatever L and P.

    *What it does not say*: a cluster is significant as a whole. That a given sample in it
    differs is not shown, nor do its first and last sample bound the difference: they move with
    the threshold and the noise. (Sassenhagen and Draschkow, 2019,
    https://doi.org/10.1111/psyp.13335.) No cluster is no proof of equality. Groups that differ
    in age or speed differ by way of those, too: see `regress`. And strictly, what is tested is
    that curves of both groups are distributed alike; that a mere difference in spread is not
    taken for one of means holds approximately.

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
    samples = gather(as_curves(curves), groups, names, persons)
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


def as_curves(curves: ArrayLike) -> Float[np.ndarray, "S L P"]:
    """Return curves with an axis of channels; raise where there is no axis of time."""
    found = np.asarray(curves, float)
    if found.ndim not in (2, 3) or 0 in found.shape:
        raise InvalidParameterError(
            f"`curves` has shape {found.shape}; pass one curve per person, array (S, L) or "
            "(S, L, P), such as `effects.amplitude[:, 0]`."
        )
    return found if found.ndim == 3 else found[..., None]
