"""Plots of subjects: deviation from a reference, and their parameters in the plane."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from percdl.exceptions import InvalidParameterError
from percdl.plotting import style
from percdl.plotting.checks import Labels, as_shape, find_subject, groups_of, names_of

FEW = 30  # subjects whose names fit along an axis
COVERAGE = 0.95


def plot_deviation_ranking(
    deviation: ArrayLike,
    groups: Labels | None = None,
    *,
    reference: str | None = None,
    subjects: Labels | None = None,
    n_named: int = 5,
    name: str = "deviation index",
    ax: Axes | None = None,
) -> Axes:
    """Draw the deviation of each subject, the largest first.

    Up to 30 subjects are all named along the axis. Of more, the first few are named beside their
    points, and a strip for each group under the points shows its ranks.

    Parameters
    ----------
    deviation : array (S,)
        Deviation index of each subject; NaN are left out.
    groups : list of str, optional
        Group of each subject; subjects of group None are left out.
    reference : str, optional
        The group whose range, from the 2.5th to the 97.5th percentile, is shaded.
    subjects, ax : optional
        See `plot_personal_atoms`.
    n_named : int
        How many of more than 30 subjects to name.
    name : str
        Label of the vertical axis.

    Returns
    -------
    Axes

    Examples
    --------
    >>> plot_deviation_ranking([0.8, 1.1, 4.2], ["healthy", "healthy", "patient"]).get_ylabel()
    'deviation index'
    """
    deviation = as_shape(deviation, "deviation", "S")
    group_of = groups_of(groups, len(deviation))
    labels = names_of(subjects, len(deviation), "subject")
    group_names = [group for group in dict.fromkeys(group_of.tolist()) if group is not None]
    if reference is not None and reference not in group_names:
        raise InvalidParameterError(
            f"No subject is in group {reference!r}. The groups are: {', '.join(group_names)}."
        )
    known = ~np.isnan(deviation) & (group_of != np.array(None))
    if not known.any():
        raise InvalidParameterError("`deviation` is NaN for all subjects with a group.")
    order = np.flatnonzero(known)[np.argsort(-deviation[known], kind="stable")]
    height, group = deviation[order], group_of[order]
    ax = style.make_axes(ax, size=(6.0, 4.0))
    if reference is not None and (group == reference).any():
        tail = (1 - COVERAGE) / 2
        low, high = np.quantile(height[group == reference], [tail, 1 - tail])
        label = f"{COVERAGE:.0%} of {reference}"
        ax.axhspan(low, high, color=style.FAINT, alpha=0.5, lw=0, zorder=0, label=label)
    style.label(ax, "rank of the subject", name)
    points = np.stack([np.arange(1, len(order) + 1), height], axis=1)
    size = float(np.clip(60 / np.sqrt(len(order)), 2.5, 7.0))
    _draw_groups(ax, points, group, group_names, size)
    ax.update_datalim([(1, 0)])  # the axis of distances includes zero
    ax.autoscale_view()
    sorted_labels = [labels[s] for s in order]
    if len(order) <= FEW:
        looks = {"rotation": 45, "ha": "right", "rotation_mode": "anchor", "fontsize": "small"}
        ax.set_xticks(np.arange(1, len(order) + 1), sorted_labels, **looks)
        ax.set_xlabel("subject, the most deviating first")
    else:
        _add_strips(ax, height, group, group_names)
        _name_first(ax, height, sorted_labels[:n_named])
    if groups is not None:
        style.add_legend(ax, headroom=0.1, n_columns=4)
    return ax


def _add_strips(ax: Axes, height: np.ndarray, group: np.ndarray, names: list[str]) -> None:
    """Mark the ranks of each group in a separate row: thousands of points overlap."""
    if len(names) < 2:
        return
    floor = min(0.0, height[-1])
    row = 0.08 * ((height[0] - floor) or 1.0)
    for index, name in enumerate(names):
        tint, y = style.look(index).color, floor - (index + 1.5) * row
        ranks = np.flatnonzero(group == name) + 1
        opacity = float(np.clip(60 / len(height), 0.15, 1.0))
        ax.vlines(ranks, y - 0.4 * row, y + 0.4 * row, colors=tint, linewidth=1, alpha=opacity)
        ax.text(1.02 * len(height), y, name, va="center", fontsize="x-small")
    ax.spines["left"].set_bounds(floor, height[0])
    ax.set_yticks([tick for tick in ax.get_yticks() if floor <= tick <= height[0]])


def _name_first(ax: Axes, height: np.ndarray, names: list[str]) -> None:
    """Write the first names above the falling curve, each joined to its point by a thin line.

    From the lowest up, a name stands at the height of its point or one line above the previous.
    """
    if not names:
        return
    # A line of text as a share of the panel; the axis will grow by these lines and the legend.
    share = 11 / (ax.bbox.height / ax.figure.dpi * 72)
    line = 1.4 * ax.dataLim.height * share / max(0.3, 1 - len(names) * share)
    x = len(names) + 0.03 * len(height)
    y = -np.inf
    arrow = {"arrowstyle": "-", "color": style.OBSERVED, "linewidth": 0.6}
    for rank in range(len(names), 0, -1):
        point = (rank, height[rank - 1])
        y = max(point[1] + 0.5 * line, y + line)
        looks = {"va": "center", "fontsize": "small", "arrowprops": arrow}
        ax.annotate(names[rank - 1], point, (x, y), **looks)
    ax.update_datalim([(1, y + line)])
    ax.autoscale_view()


def plot_deviation_profile(
    profile: np.ndarray,
    *,
    threshold: float = 2.0,
    subject: str | None = None,
    channels: Labels | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the distance of one subject from a reference along the cycle, in standard deviations.

    Values beyond the threshold are filled.

    Parameters
    ----------
    profile : array (L,) or (L, P)
        z-scores of the subject at each sample, and in each channel.
    threshold : float
        Position of the two dashed lines.
    subject : str, optional
        Name of the subject.
    channels, sfreq, ax : optional
        See `plot_atoms`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> plot_deviation_profile(3 * np.sin(np.linspace(0, 6, 50)), sfreq=100).get_xlabel()
    'time (s)'
    """
    profile = as_shape(profile, "profile", "L", "L, P")
    if np.isnan(profile).all():
        raise InvalidParameterError(
            f"`profile` of {subject or 'this subject'} is NaN throughout: it never uses this "
            "atom. Choose another subject."
        )
    curves = profile if profile.ndim == 2 else profile[:, None]
    ax = style.make_axes(ax)
    time, unit = style.time_axis(len(curves), sfreq)
    several = curves.shape[1] > 1
    names = names_of(channels, curves.shape[1], "channel") if several else [subject or "subject"]
    for p, name in enumerate(names):
        tint, line, _ = style.look(p)
        z = curves[:, p]
        for limit, beyond in ((threshold, z > threshold), (-threshold, z < -threshold)):
            fill = {"where": beyond, "interpolate": True, "alpha": 0.35}
            style.fill_band(ax, time, limit, z, tint, **fill)
        label = f"{subject}, {name}" if several and subject else name
        ax.plot(time, z, line, color=tint, linewidth=1.8, label=label)
    ax.axhline(0, color=style.OBSERVED, linewidth=0.8)
    limits = f"± {threshold:g} sd of the reference"
    ax.axhline(threshold, color=style.SHARED, linestyle="--", linewidth=1, label=limits)
    ax.axhline(-threshold, color=style.SHARED, linestyle="--", linewidth=1)
    ax.margins(x=0.02)
    return style.finish(ax, f"time ({unit})", "deviation z (sd of the reference)", 3)


def plot_embedding(
    features: np.ndarray,
    groups: Labels | None = None,
    *,
    embedding: Any = None,
    highlight: Labels = (),
    subjects: Labels | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the parameters of each subject as a point of the plane.

    Cost O(S F min(S, F)) at most, for the principal components.

    Parameters
    ----------
    features : array (S, F) or (S, K, M)
        Such as ``model.transform(cohort)`` or ``model.params_``; subjects with NaN are left out.
    groups : list of str, optional
        Group of each subject; subjects of group None are left out.
    embedding : estimator or array (S, 2), optional
        An estimator that maps standardized features to the plane with ``fit_transform``, or the
        points. By default the first two principal components.
    highlight, subjects, ax : optional
        See `plot_personal_atoms`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> features = np.random.default_rng(0).normal(size=(20, 4))
    >>> len(plot_embedding(features, ["patients"] * 10 + ["controls"] * 10).get_lines())
    2
    """
    features = as_shape(features, "features", "S, F", "S, K, M", such_as="model.transform(cohort)")
    features = features.reshape(len(features), -1)
    group_of = groups_of(groups, len(features))
    chosen = [find_subject(one, subjects, len(features)) for one in highlight]
    labels = names_of(subjects, len(features), "subject")
    points, axes_names = embed(features, embedding, group_of != np.array(None))
    known = np.asarray(~np.isnan(points).any(1))
    ax = style.make_axes(ax, size=(5.0, 4.5))
    size = float(np.clip(100 / np.sqrt(len(points)), 3.5, 7.0))
    names = [name for name in dict.fromkeys(group_of.tolist()) if name is not None]
    alpha = 0.8 if len(points) < 500 else 0.5
    _draw_groups(ax, points, np.where(known, group_of, ""), names, size, alpha)
    ground = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1}
    named = {"textcoords": "offset points", "fontsize": "small", "bbox": ground}
    for s in chosen:
        if known[s]:
            ax.plot(*points[s], "o", color=style.SHARED, fillstyle="none", markersize=size + 6)
            ax.annotate(labels[s], tuple(points[s]), (8, 6), **named)
    style.label(ax, *axes_names)
    if groups is not None:
        style.add_legend(ax, headroom=0.05, n_columns=3)
    return ax


def _draw_groups(
    ax: Axes, points, group_of, names: list[str], size: float, alpha: float = 1
) -> None:
    """Draw the points of each group in its own colour and marker."""
    for index, name in enumerate(names):
        tint, _, marker = style.look(index)
        own = points[group_of == name]
        label = f"{name} (n = {len(own)})"
        ax.plot(*own.T, marker, color=tint, markersize=size, alpha=alpha, label=label)


def embed(
    features: Float[np.ndarray, "S F"], embedding: Any, kept: np.ndarray
) -> tuple[Float[np.ndarray, "S 2"], tuple[str, str]]:
    """Return a point per subject, NaN for those left out, and the names of the two axes."""
    from sklearn.base import clone
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    kept, names = kept & ~np.isnan(features).any(1), ("dimension 1", "dimension 2")
    if embedding is not None and not hasattr(embedding, "fit_transform"):
        points = np.asarray(embedding, float)
        if points.shape != (len(features), 2):
            raise InvalidParameterError(
                f"`embedding` has shape {points.shape}. Pass two numbers for each of the "
                f"{len(features)} subjects, or an estimator with `fit_transform`."
            )
        return np.where(kept[:, None], points, np.nan), names
    if kept.sum() < 3 or features.shape[1] < 2:
        raise InvalidParameterError(
            f"`features` has {kept.sum()} complete subject(s) of {features.shape[1]} feature(s). "
            "A plane needs at least three subjects and two features."
        )
    estimator: Any = PCA(2) if embedding is None else clone(embedding, safe=False)
    points = np.full((len(features), 2), np.nan)
    found = estimator.fit_transform(StandardScaler().fit_transform(features[kept]))
    points[kept] = np.asarray(found)[:, :2]
    if hasattr(estimator, "explained_variance_ratio_"):
        shares = estimator.explained_variance_ratio_
        first, second = (f"component {i + 1} ({shares[i]:.0%} of variance)" for i in range(2))
        names = (first, second)
    return points, names
