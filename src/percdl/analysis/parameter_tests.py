"""Which parameters groups differ in, and whether they differ at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.stats import permutation_test

from percdl.analysis.clusters import check_permutations
from percdl.analysis.contrasts import as_generator, chance_of, compare_means
from percdl.analysis.samples import Labels, gather
from percdl.exceptions import InvalidParameterError

# How many permuted values are held at a time.
BATCH_SIZE = 2**22


@dataclass(frozen=True, eq=False)
class ParameterComparison:
    """The parameters of some groups compared, one by one and all together.

    Attributes
    ----------
    names, sizes : tuples
        The G groups and how many members of each have all parameters.
    parameters : tuple of str
        What the F parameters are called.
    means : array (G, F)
        Mean of each group.
    statistic : array (F,)
        Welch's t of two groups (positive where the first is above), his F of more.
    p_value : array (F,)
        Of each parameter by itself: of F true nulls, level times F are expected below a level.
    p_adjusted : array (F,)
        Corrected for their number: the chance of any below a level is at most the level.
    omnibus : float
        Mean of the squared t, or of the F, over the parameters.
    omnibus_p : float
        Of the one question whether the groups differ in any parameter: it sees many small
        differences that no parameter shows by itself.
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
        """Say who was compared, and whether they differ."""
        who = " and ".join(f"{name} ({n})" for name, n in zip(self.names, self.sizes, strict=True))
        return (
            f"ParameterComparison({who}; {len(self.parameters)} parameters, omnibus p = "
            f"{self.omnibus_p:.3g}, smallest adjusted p = {self.p_adjusted.min():.3g})"
        )

    def table(self) -> pd.DataFrame:
        """Return one row per parameter, the least probable first."""
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

    People are exchanged between the groups at random, or in every possible way where that takes
    no more than ``n_permutations``. The largest statistic of each permutation corrects for the
    number of parameters, and knows how they go together (Westfall and Young, 1993). Cost
    O(n_permutations S F).

    Parameters
    ----------
    features : array (S, F)
        One row per person, such as ``model.transform(cohort)`` or cadence, stride time, ...
        People with NaN are left out.
    groups, *names, persons
        As in `compare_groups`.
    parameters : list of str, optional
        What they are called; by default ``"0"``, ``"1"``, ...
    n_permutations : int
        The smallest p value is 1 / n_permutations.
    random_state : int, RandomState or None
        Decides the permutations.

    Returns
    -------
    ParameterComparison
        Tests of each parameter and of all together; ``table()`` has them as a frame.

    Notes
    -----
    A parameter of a warp says little by itself: several of them make one bend. What they do to
    the cycle is `separate_effects`, and `compare_groups` says where.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> features = rng.normal(size=(30, 4))
    >>> features[:15, 2] += 2
    >>> compare_parameters(features, ["A"] * 15 + ["B"] * 15).table()["parameter"][0]
    '2'
    """
    check_permutations("compare_parameters", n_permutations, 0.05)
    x = np.asarray(features, float)
    labels = _name_parameters(x, parameters)
    samples = gather(x, groups, names, persons)
    found: Any = permutation_test(
        samples.exchangeable,
        compare_means,
        vectorized=True,
        axis=0,
        n_resamples=n_permutations - 1,
        batch=max(1, BATCH_SIZE // x.size),
        # `rng` is unknown to SciPy before 1.15.
        random_state=as_generator(random_state),  # pyright: ignore[reportCallIssue]
    )
    null, observed = np.asarray(found.null_distribution), np.asarray(found.statistic)
    # Permutations were drawn, unless all could be gone through.
    drawn = count_groupings(samples.sizes) > n_permutations - 1
    power = 2 if len(samples.names) == 2 else 1
    omnibus = np.mean(observed**power)
    return ParameterComparison(
        samples.names,
        samples.sizes,
        labels,
        samples.means,
        observed,
        chance_of(np.abs(observed), np.abs(null), drawn),
        chance_of(np.abs(observed), np.abs(null).max(1, keepdims=True), drawn),
        float(omnibus),
        float(chance_of(omnibus, np.mean(null**power, axis=1), drawn)),
    )


def count_groupings(sizes: Sequence[int]) -> int:
    """Return in how many ways people can be split into groups of these sizes.

    >>> count_groupings([2, 2])
    6
    """
    return math.factorial(sum(sizes)) // math.prod(map(math.factorial, sizes))


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
