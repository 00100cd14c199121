"""Groups of subjects: mean curves, differences, and how well parameters tell them apart."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike

from percdl.analysis.checks import Labels, as_numbers, check_lengths, name_each
from percdl.analysis.permutation import (
    Cluster,
    compare_means,
    critical_value,
    make_exchangeable,
    permute,
    permute_clusters,
    tabulate_clusters,
)
from percdl.exceptions import InvalidParameterError
from percdl.seeds import Seed, as_random_state


class GroupCurve(NamedTuple):
    """Mean, standard deviation (n - 1) and size of a group of curves."""

    mean: Float[np.ndarray, "L P"]
    sd: Float[np.ndarray, "L P"]
    n_members: int


def summarize_groups(
    curves: Float[np.ndarray, "S L P"], groups: Labels, persons: Labels | None = None
) -> dict[str, GroupCurve]:
    """Return mean and spread of each group of curves, as `split_groups` splits them."""
    parts = split_groups(curves, groups, persons=persons).items()
    return {name: GroupCurve(own.mean(0), own.std(0, ddof=1), len(own)) for name, own in parts}


def average_persons(
    values: Float[np.ndarray, "S ..."], persons: Labels
) -> tuple[np.ndarray, list[str]]:
    """Average the recordings of each person, leaving out rows with NaN.

    Permuting recordings of one person independently would give false positives. Cost O(S F) for
    rows of F values.

    Parameters
    ----------
    values, persons : array (S, ...), list
        One row and the person of each recording.

    Returns
    -------
    values, persons : array (n, ...), list of str
        One row per person, NaN without complete rows, and their names in order of appearance.

    Examples
    --------
    >>> average_persons(np.array([[1.0], [3.0], [5.0]]), ["Ada", "Ada", "Bo"])
    (array([[2.], [5.]]), ['Ada', 'Bo'])
    """
    codes, people = pd.factorize(name_each("rows of values", len(values), persons, "persons"))
    known, sums = is_complete(values), np.zeros((len(people), *values.shape[1:]))
    np.add.at(sums, codes[known], values[known])
    counts = np.bincount(codes[known], minlength=len(people)).astype(float)
    counts[counts == 0] = np.nan
    return (sums.T / counts).T, people.tolist()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Groups of curves compared sample by sample.

    Attributes
    ----------
    names, sizes, means : tuples and array (G, L, P)
        The G groups, the members of each with the curve, and their mean curves.
    statistic : array (L, P)
        Welch's t of two groups (positive where the first is above the second), or F of more.
    threshold, clusters : float, tuple of Cluster
        Samples beyond the threshold form clusters; smallest p value first.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    means: Float[np.ndarray, "G L P"]
    statistic: Float[np.ndarray, "L P"]
    threshold: float
    clusters: tuple[Cluster, ...]

    def __repr__(self) -> str:
        of = _name_groups(self.names, self.sizes)
        return f"Comparison({of}; {len(self.clusters)} clusters, p = {self.p_value:.3g})"

    @property
    def difference(self) -> Float[np.ndarray, "L P"]:
        """Mean of the first group less that of the second; raises for more than two groups."""
        if len(self.names) != 2:
            raise InvalidParameterError(
                f"{len(self.names)} groups have no single difference; use `means`."
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
        """Return one row per cluster; with a sampling rate, its ends in seconds too."""
        differences = self.difference if len(self.names) == 2 else None
        return tabulate_clusters(self.clusters, differences, sfreq)


def compare_groups(
    curves: ArrayLike,
    groups: Labels,
    *names: str,
    persons: Labels | None = None,
    pointwise_level: float = 0.05,
    n_permutations: int = 1000,
    random_state: Seed = 0,
) -> Comparison:
    """Test whether groups have different curves, by cluster permutation.

    A t (two groups) or F statistic is computed at every sample. Neighbouring samples of one
    channel beyond a threshold form a cluster; its mass is the sum of their statistics. It is
    compared with the largest mass when people are exchanged between the groups at random (Maris
    and Oostenveld, 2007, https://doi.org/10.1016/j.jneumeth.2007.03.024). A cluster is significant
    as a whole: its ends are not bounds of the difference. Cost O(n_permutations S L P).

    Parameters
    ----------
    curves : array (S, L) or (S, L, P)
        One curve per person, such as ``effects.timing[:, k, 0]`` of `separate_effects`. People
        with NaN are left out.
    groups, *names : list of str, str
        Group of each curve (None leaves it out), and the groups to compare, by default all.
        With two groups, differences are the first minus the second.
    persons : list, optional
        Person of each curve, if people have several: they are averaged first.
    pointwise_level : float
        Samples with a p value below it form clusters. A high level finds weak long differences, a
        low one strong short ones. Choose it before looking.
    n_permutations, random_state : int
        Number and seed of the permutations; the smallest p value is 1 / n_permutations.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> curves = np.random.default_rng(0).normal(size=(40, 30))
    >>> curves[:20, 10:18] += 2
    >>> found = compare_groups(curves, ["A"] * 20 + ["B"] * 20, "A", "B")
    >>> [(c.start, c.stop, c.p_value) for c in found.significant()]
    [(10, 18, 0.001)]
    """
    values = as_numbers(curves, "curves")
    if values.ndim not in (2, 3) or 0 in values.shape:
        raise InvalidParameterError(
            f"`curves` has shape {values.shape}; pass one curve per person, array (S, L) or "
            "(S, L, P), such as `effects.amplitude[:, 0]`."
        )
    values = values if values.ndim == 3 else values[..., None]
    members = split_groups(values, groups, names, persons, at_least=2)
    sizes, n_tested = tuple(map(len, members.values())), len(members) - 1
    parts = make_exchangeable(members)
    threshold = critical_value(pointwise_level, n_tested, sum(sizes) - n_tested - 1)
    clusters = permute_clusters(
        parts, compare_means, threshold, n_tested == 1, n_permutations, random_state
    )
    statistic = compare_means(*parts, axis=0)
    means = np.stack([own.mean(0) for own in members.values()])
    return Comparison(tuple(members), sizes, means, statistic, threshold, clusters)


@dataclass(frozen=True, eq=False)
class ParameterComparison:
    """Parameters of groups compared, one by one and all together.

    Attributes
    ----------
    names, sizes : tuples
        The G groups, and the members of each with all parameters.
    parameters, means : tuple of str and array (G, F)
        Names of the F parameters, and the mean of each group.
    statistic : array (F,)
        Welch's t of two groups (positive where the first is above), or F of more.
    p_value, p_adjusted : array (F,)
        Of each parameter alone, and corrected for their number (family-wise error).
    omnibus, omnibus_p : float
        Mean of the squared t, or of the F, and its p value: whether there is any difference.
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
        means = {f"mean {name}": mean for name, mean in zip(self.names, self.means, strict=True)}
        frame = pd.DataFrame({"parameter": self.parameters, **means}).assign(
            statistic=self.statistic, p_value=self.p_value, p_adjusted=self.p_adjusted
        )
        return frame.sort_values(["p_adjusted", "p_value"], kind="stable", ignore_index=True)


def compare_parameters(
    features: ArrayLike,
    groups: Labels,
    *names: str,
    parameters: Sequence[str] | None = None,
    persons: Labels | None = None,
    n_permutations: int = 1000,
    random_state: Seed = 0,
) -> ParameterComparison:
    """Test every parameter for a difference between groups, and all of them together.

    People are exchanged between the groups at random, or in every possible way if there are no
    more than ``n_permutations``. The largest statistic of each permutation corrects for the
    number of parameters (Westfall and Young, 1993). Cost O(n_permutations S F).

    Parameters
    ----------
    features : array (S, F)
        One row per person, such as ``model.transform(cohort)`` or cadence, stride time, ...
    groups, *names, persons, n_permutations, random_state
        See `compare_groups`.
    parameters : list of str, optional
        Names of the parameters; by default ``"0"``, ``"1"``, ...

    Returns
    -------
    ParameterComparison

    Examples
    --------
    >>> features = np.random.default_rng(0).normal(size=(30, 4))
    >>> features[:15, 2] += 2
    >>> compare_parameters(features, ["A"] * 15 + ["B"] * 15).table()["parameter"][0]
    '2'
    """
    x = as_numbers(features, "features")
    if x.ndim != 2 or 0 in x.shape:
        raise InvalidParameterError(
            f"`features` has shape {x.shape}; pass one row of parameters per person, array (S, F)."
        )
    labels = tuple(map(str, range(x.shape[1]) if parameters is None else parameters))
    check_lengths("parameters", x.shape[1], labels, "names of parameters")
    members = split_groups(x, groups, names, persons, at_least=2)
    parts = make_exchangeable(members)
    done = permute(parts, compare_means, "independent", n_permutations, random_state)
    observed, null = np.abs(done.statistic), np.abs(done.null)
    power = 2 if len(members) == 2 else 1
    omnibus = np.mean(done.statistic**power)
    return ParameterComparison(
        tuple(members),
        tuple(map(len, members.values())),
        labels,
        np.stack([own.mean(0) for own in members.values()]),
        done.statistic,
        done.p_value(observed, null),
        done.p_value(observed, null.max(1, keepdims=True)),
        float(omnibus),
        float(done.p_value(omnibus, np.mean(done.null**power, axis=1))),
    )


def feature_auc(
    features: ArrayLike,
    labels: ArrayLike,
    *,
    persons: Labels | None = None,
    splits: Iterable[tuple[Any, Any]] | None = None,
    n_splits: int = 5,
    test_size: float = 0.3,
    random_state: Seed = 0,
    classifier: Any = None,
) -> Float[np.ndarray, " n_splits"]:
    """Return the AUC of a classifier on several splits of the subjects.

    The paper's protocol: a support vector machine (C=1, Gaussian kernel, gamma="scale") on
    standardized features, stratified splits of 70 % training and 30 % test subjects, macro
    one-vs-one AUC of the class probabilities. Means, scales and missing features (filled with the
    mean) are learned from the training part only. Other probabilities from the same machine give
    other figures (on five classes of ECGs, one-vs-rest sigmoids give 0.02 less). Cost:
    ``n_splits`` fits of the classifier, each O(S^2 F) to O(S^3 F) for the paper's.

    Parameters
    ----------
    features, labels : array (S, F), array (S,)
        Such as ``model.transform(cohort)``, NaN is missing, and the class of each subject (None
        or NaN leaves it out).
    persons : list, optional
        The person of each row, if people have several recordings: all of them are in the training
        part, or all in the test part. Otherwise the score says how well people are recognized.
    splits : iterable of (train, test), optional
        Positions or masks, such as official folds, instead of random splits.
    n_splits, test_size, random_state
        Number, test share and seed of the random splits.
    classifier : scikit-learn classifier, optional
        Used instead of the paper's; needs ``predict_proba``.

    Returns
    -------
    array (n_splits,)
        One score per split; 0.5 is chance.

    Examples
    --------
    >>> features, labels = np.repeat([[0.0], [1.0]], 20, axis=0), ["NORM"] * 20 + ["MI"] * 20
    >>> feature_auc(features, labels, n_splits=2)
    array([1., 1.])
    """
    from sklearn.impute import SimpleImputer
    from sklearn.model_selection import StratifiedShuffleSplit, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    x, y = as_numbers(features, "features"), np.asarray(labels)
    if x.ndim != 2:
        raise InvalidParameterError(f"`features` has shape {x.shape}; pass one row per subject.")
    check_lengths("rows of features", len(x), y, "labels")
    if (missing := np.asarray(pd.isna(np.asarray(labels, object)))).any():
        if splits is not None:
            raise InvalidParameterError(
                f"{missing.sum()} of {len(y)} labels are missing, first that of row "
                f"{missing.argmax()}, but `splits` names rows. Leave these rows out of all three."
            )
        people = np.arange(len(x))
        if persons is not None:
            check_lengths("labels", len(y), persons, "persons")
            people = np.asarray(persons, object)
        x, persons = x[~missing], people[~missing]
        y = np.array(np.asarray(labels, object)[~missing].tolist())
    if len(np.unique(y)) < 2:
        raise InvalidParameterError("`labels` holds one class only. Pass at least two classes.")
    who = _number_persons(y, np.arange(len(x)) if persons is None else persons)
    rng = as_random_state(random_state)
    draw = StratifiedShuffleSplit(n_splits, test_size=test_size, random_state=rng)
    rows, firsts = np.argsort(who, kind="stable"), np.unique(who, return_index=True)[1]
    of = np.split(rows, np.cumsum(np.bincount(who))[:-1])
    drawn = draw.split(firsts, y[firsts]) if splits is None else ()
    parts = [tuple(np.concatenate([of[i] for i in part]) for part in pair) for pair in drawn]
    folds = parts if splits is None else splits
    if classifier is None:
        svm = SVC(C=1.0, kernel="rbf", gamma="scale", random_state=0).set_params(probability=True)
        imputer = SimpleImputer(keep_empty_features=True)
        classifier = make_pipeline(imputer, StandardScaler(), svm)
    raises: Any = "raise"
    options = {"cv": folds, "scoring": "roc_auc_ovo", "error_score": raises}
    with warnings.catch_warnings():
        # scikit-learn announces the end of the paper's protocol for version 1.11.
        warnings.filterwarnings("ignore", "The `probability` parameter", FutureWarning)
        return cross_val_score(classifier, x, y, **options)


def _number_persons(labels: np.ndarray, persons: Any) -> np.ndarray:
    """Return the number of each row's person; raise if a person has two labels."""
    who, names = pd.factorize(name_each("labels", len(labels), persons, "persons"))
    several = np.flatnonzero(pd.Series(labels).groupby(who).nunique() > 1)
    if len(several):
        raise InvalidParameterError(
            f"Person {names[several[0]]!r} has several labels. Leave `persons` out, or choose "
            "recordings of one label each."
        )
    return who


def _name_groups(names: Sequence[str], sizes: Sequence[int]) -> str:
    return " and ".join(f"{name} ({n})" for name, n in zip(names, sizes, strict=True))


def is_complete(values: Float[np.ndarray, "S ..."]) -> np.ndarray:
    """Return which rows are finite."""
    return np.asarray(np.isfinite(values.reshape(len(values), -1)).all(1))


def split_groups(
    values: Float[np.ndarray, "S ..."],
    groups: Labels,
    names: Sequence[str] = (),
    persons: Labels | None = None,
    at_least: int = 0,
) -> dict[str, np.ndarray]:
    """Return the rows of the named groups (by default all), with at least two members each.

    Rows with NaN are left out. With ``persons``, the rows of each person are averaged first.
    """
    check_lengths("rows of values", len(values), groups, "groups")
    of = [None if pd.isna(name) else str(name) for name in groups]
    there = [name for name in dict.fromkeys(of) if name is not None]
    chosen = [*map(str, names or there)]
    for name in chosen:
        if name not in there:
            raise InvalidParameterError(f"There is no group {name!r}; known groups: {there}.")
    if persons is not None:
        check_lengths("rows of values", len(values), persons, "persons")
        rows = [row for row, name in enumerate(of) if name in chosen]
        listed = list(persons)
        who = name_each("rows of values", len(rows), [listed[row] for row in rows], "persons")
        values, people = average_persons(values[rows], who)
        group_of: dict[str, str | None] = {}
        for person, name in zip(who, (of[row] for row in rows), strict=True):
            if group_of.setdefault(person, name) != name:
                raise InvalidParameterError(
                    f"Person {person!r} belongs to groups {group_of[person]!r} and {name!r}. Give "
                    "every person one group."
                )
        of = [group_of[person] for person in people]
    known, labels = is_complete(values), np.array(of, object)
    parts = {name: values[known & (labels == name)] for name in chosen}
    if len(parts) < max(at_least, len(names)):
        raise InvalidParameterError(f"A comparison needs two different groups, not {list(parts)}.")
    for name, part in parts.items():
        if len(part) < 2:
            raise InvalidParameterError(
                f"Group {name!r} has {len(part)} member(s) with all values; at least two are "
                "needed. Subjects with NaN are left out."
            )
    return parts
