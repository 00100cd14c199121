"""Subjects as points of the plane: alike ones lie close."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from percdl.exceptions import InvalidParameterError
from percdl.plotting import style
from percdl.plotting.checks import Labels, as_shape, find_subjects, groups_of, names_of


def plot_embedding(
    features: np.ndarray,
    groups: Labels | None = None,
    *,
    embedding: Any = None,
    highlight: Labels = (),
    subjects: Labels | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw each subject's parameters as a point of the plane.

    Cost O(S F min(S, F)) at most, for the principal components.

    Parameters
    ----------
    features : array (S, F) or (S, K, M)
        Such as ``model.transform(cohort)`` or ``model.params_``; subjects with NaN (an atom
        they never use) are left out.
    groups : list of str, optional
        Group of each subject; those of None are left out.
    embedding : estimator or array (S, 2), optional
        What maps standardized features to the plane with ``fit_transform``, or the points
        themselves. By default the first two principal components.
    highlight : list of int or str, optional
        Positions or names of the subjects to circle and name.
    subjects : list of str, optional
        Names of all subjects.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> features = np.random.default_rng(0).normal(size=(20, 4))
    >>> ax = plot_embedding(features, ["patients"] * 10 + ["controls"] * 10)
    >>> len(ax.get_lines())
    2
    """
    features = as_shape(features, "features", "S F", "S K M", such_as="model.transform(cohort)")
    features = features.reshape(len(features), -1)
    group_of = groups_of(groups, len(features))
    chosen = find_subjects(highlight, subjects, len(features))
    labels = names_of(subjects, len(features), "subject")
    has_group = np.array([group is not None for group in group_of])
    points, axes_names = embed(features, embedding, has_group)
    known = np.asarray(~np.isnan(points).any(1))
    ax = style.make_axes(ax, size=(5.0, 4.5))
    size = float(np.clip(100 / np.sqrt(len(points)), 3.5, 7.0))
    alpha = 0.8 if len(points) < 500 else 0.5
    for index, name in enumerate(dict.fromkeys(name for name in group_of if name is not None)):
        tint, _, marker = style.look(index)
        at = known & np.array([group == name for group in group_of])
        label = f"{name} (n = {at.sum()})"
        ax.plot(*points[at].T, marker, color=tint, markersize=size, alpha=alpha, label=label)
    for s in chosen:
        if known[s]:
            _circle(ax, points[s], labels[s], size)
    style.label(ax, *axes_names)
    if groups is not None:
        style.add_legend(ax, headroom=0.05, n_columns=3)
    return ax


def embed(
    features: Float[np.ndarray, "S F"], embedding: Any, kept: np.ndarray
) -> tuple[Float[np.ndarray, "S 2"], tuple[str, str]]:
    """Return a point per subject, NaN for those left out, and the names of the two axes."""
    kept = kept & ~np.isnan(features).any(1)
    if embedding is not None and not hasattr(embedding, "fit_transform"):
        points = as_shape(embedding, "embedding", "S 2")
        if points.shape != (len(features), 2):
            raise InvalidParameterError(
                f"`embedding` has shape {points.shape}. Pass two numbers for each of the "
                f"{len(features)} subjects, or an estimator with `fit_transform`."
            )
        return np.where(kept[:, None], points, np.nan), ("dimension 1", "dimension 2")
    return _fit(features, embedding, kept)


def _fit(features: np.ndarray, estimator: Any, kept: np.ndarray):
    from sklearn.base import clone
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    if kept.sum() < 3 or features.shape[1] < 2:
        raise InvalidParameterError(
            f"`features` has {kept.sum()} complete subject(s) of {features.shape[1]} feature(s). "
            "A plane takes at least three subjects and two features."
        )
    estimator = PCA(2) if estimator is None else clone(estimator, safe=False)
    points = np.full((len(features), 2), np.nan)
    found = np.asarray(estimator.fit_transform(StandardScaler().fit_transform(features[kept])))
    if found.shape[1] < 2:
        raise InvalidParameterError(
            f"`embedding={estimator}` gives {found.shape[1]} dimension; it must give two."
        )
    points[kept] = found[:, :2]
    kind = "component" if hasattr(estimator, "explained_variance_ratio_") else "dimension"
    shares = getattr(estimator, "explained_variance_ratio_", (None, None))
    first, second = (
        f"{kind} {i + 1}" + ("" if shares[i] is None else f" ({shares[i]:.0%} of variance)")
        for i in range(2)
    )
    return points, (first, second)


def _circle(ax: Axes, point: np.ndarray, name: str, size: float) -> None:
    ax.plot(*point, "o", color=style.SHARED, fillstyle="none", markersize=size + 6)
    ground = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1}
    ax.annotate(
        name, tuple(point), (8, 6), textcoords="offset points", fontsize="small", bbox=ground
    )
