"""Plots of subjects and groups: mean curves, deviation, changes, parameters in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy import stats

from percdl.analysis.groups import Cluster, summarize_groups
from percdl.exceptions import InvalidParameterError
from percdl.plotting import style
from percdl.plotting.style import Labels, as_shape, find_subject, groups_of, names_of

FEW = 30  # names that fit along an axis
COVERAGE = 0.95
BANDS = {"ci": "95% confidence of the mean", "sd": "± 1 sd"}


@style.plot
def plot_group_comparison(
    curves: np.ndarray,
    groups: Labels,
    clusters: Sequence[Any] = (),
    *,
    persons: Labels | None = None,
    channel: int = 0,
    band: str = "ci",
    alpha: float = 0.05,
    units: str | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean curve of each group with a band, and where the groups differ.

    Parameters
    ----------
    curves : array (S, L) or (S, L, P)
        One curve per subject, such as ``model.personal_dictionary_[:, 0]``.
    groups : list of str
        Group of each subject. Subjects of group None, or with NaN, are left out.
    clusters : list of Cluster or of (start, stop, p), optional
        Runs of samples where the groups differ, such as ``compare_groups(...).clusters``. Those
        with ``p <= alpha`` are shaded; the others are an empty bar.
    persons : list, optional
        Person of each curve, if people have several: they are averaged first.
    band, alpha : {"ci", "sd"}, float
        The 95% confidence interval of the mean (Student) or one standard deviation, and the level
        of significance of the clusters.

    Examples
    --------
    >>> curves = np.random.default_rng(0).normal(size=(20, 50))
    >>> groups = ["patients"] * 10 + ["controls"] * 10
    >>> plot_group_comparison(curves, groups, [(20, 30, 0.001)], sfreq=100).get_xlabel()
    'time (s)'
    """
    such_as = "model.personal_dictionary_[:, 0]"
    curves = as_shape(curves, "curves", "S, L", "S, L, P", such_as=such_as)
    curves = curves if curves.ndim == 3 else curves[:, :, None]
    style.check_position(channel, curves.shape[2], "channel")
    if band not in BANDS:
        raise InvalidParameterError(f"`band={band!r}` must be one of {', '.join(BANDS)}.")
    who = None if persons is None else list(persons)
    summaries = summarize_groups(curves[:, :, [channel]], groups_of(groups, len(curves)), who)
    ax, time, label = style.time_axes(ax, curves.shape[1], sfreq)
    for index, (name, group) in enumerate(summaries.items()):
        tint, line, _ = style.look(index)
        mean, half, n = group.mean[:, 0], group.sd[:, 0], group.n_members
        if band == "ci":
            half = stats.t.ppf(0.975, n - 1) * half / np.sqrt(n)
        style.fill_band(ax, time, mean - half, mean + half, tint)
        ax.plot(time, mean, line, color=tint, linewidth=1.8, label=f"{name} (n = {n})")
    ax.fill_between([], [], color=style.OBSERVED, alpha=0.4, linewidth=0, label=BANDS[band])
    runs = [
        (c.start, c.stop, c.p_value) if isinstance(c, Cluster) else c
        for c in clusters
        if not isinstance(c, Cluster) or c.channel == channel % curves.shape[2]
    ]
    _mark_clusters(ax, sorted(runs), alpha, sfreq or 1.0)
    ax.margins(x=0.02)
    return style.finish(ax, label, "amplitude", 2, units)


def _mark_clusters(
    ax: Axes, clusters: list[tuple[int, int, float]], alpha: float, rate: float
) -> None:
    """Draw a bar under the curves for each cluster, with its p value under the bar."""
    low, high = ax.dataLim.intervaly
    height = (high - low) or 1.0
    names = {True: f"cluster, p ≤ {alpha:g}", False: "cluster, not significant"}
    for index, (start, stop, p) in enumerate(clusters):
        begin, width = (start - 0.5) / rate, (stop - start) / rate
        face = style.SHARED if p <= alpha else "none"
        ax.broken_barh(
            [(begin, width)], (low - 0.1 * height, 0.03 * height), facecolor=face,
            edgecolor=style.SHARED, label=names.pop(p <= alpha, None),
        )  # fmt: skip
        if p <= alpha:
            ax.broken_barh(
                [(begin, width)], (low - 0.07 * height, high - low + 0.07 * height),
                facecolor=style.FAINT, alpha=0.45, linewidth=0, zorder=0,
            )  # fmt: skip
        level = low - (0.12 + 0.09 * (index % 2)) * height  # neighbours on two levels
        text = "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
        ax.text(begin + width / 2, level, text, ha="center", va="top", fontsize="x-small")
    if clusters:
        ax.update_datalim([(ax.dataLim.x0, low - (0.2 + 0.09 * (len(clusters) > 1)) * height)])


@style.plot
def plot_deviation_ranking(
    deviation: ArrayLike,
    groups: Labels | None = None,
    *,
    reference: str | None = None,
    subjects: Labels | None = None,
    n_named: int = 5,
    ax: Axes | None = None,
) -> Axes:
    """Draw the deviation of each subject, the largest first.

    Up to 30 subjects are named along the axis. With more, the first ``n_named`` are listed above.

    Parameters
    ----------
    deviation : array (S,)
        Deviation index of each subject; NaN are left out.
    groups : list of str, optional
        Group of each subject; subjects of group None are left out.
    reference : str, optional
        The group to shade, from its 2.5th to its 97.5th percentile.
    n_named : int
        Number of subjects to name, if there are more than 30.

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
        style.shade_usual(ax, low, high, label)
    points = np.stack([np.arange(1, len(order) + 1), height], axis=1)
    size = float(np.clip(60 / np.sqrt(len(order)), 2.5, 7.0))
    _draw_groups(ax, points, group, group_names, size)
    ax.update_datalim([(1, 0)])  # the axis of distances includes zero
    ax.autoscale_view()
    names = [labels[s] for s in order]
    upright = {"rotation": 45, "ha": "right", "rotation_mode": "anchor", "fontsize": "small"}
    if len(order) <= FEW:
        ax.set_xticks(points[:, 0], names, **upright)
        style.label(ax, "subject, the most deviating first", "deviation index")
    else:
        ranked = [f"{rank}. {name}" for rank, name in enumerate(names[:n_named], 1)]
        ax.text(1, 1.05 * height[0], "\n".join(ranked), va="bottom", fontsize="small")
        ax.update_datalim([(1, 1.5 * height[0])])  # room for the names
        ax.autoscale_view()
        style.label(ax, "rank of the subject", "deviation index")
    if groups is not None:
        style.add_legend(ax, headroom=0.1, n_columns=4)
    return ax


@style.plot
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
    threshold, subject : float, str, optional
        Position of the two dashed lines, and name of the subject.

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
    ax, time, label = style.time_axes(ax, len(curves), sfreq)
    several = curves.shape[1] > 1
    names = names_of(channels, curves.shape[1], "channel") if several else [subject or "subject"]
    for p, name in enumerate(names):
        tint, line, _ = style.look(p)
        z = curves[:, p]
        for limit, beyond in ((threshold, z > threshold), (-threshold, z < -threshold)):
            fill = {"where": beyond, "interpolate": True, "alpha": 0.35}
            style.fill_band(ax, time, limit, z, tint, **fill)
        whole_name = f"{subject}, {name}" if several and subject else name
        ax.plot(time, z, line, color=tint, linewidth=1.8, label=whole_name)
    ax.axhline(0, color=style.OBSERVED, linewidth=0.8)
    style.draw_limits(ax, threshold, f"± {threshold:g} sd of the reference")
    ax.margins(x=0.02)
    return style.finish(ax, label, "deviation z (sd of the reference)", 3)


@style.plot
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


@style.plot
def plot_changes(
    changes: pd.DataFrame,
    measure: str | None = None,
    *,
    n_named: int = 8,
    units: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the change of each person since the first visit, and the smallest detectable change.

    People who leave the band at some visit are drawn in colour, and named at their last visit.

    Parameters
    ----------
    changes, measure : DataFrame, str, optional
        Result of `percdl.analysis.measure_changes`, and the measurement to draw, if several.
    n_named : int
        Largest number of people to name, the largest changes first.

    Examples
    --------
    >>> from percdl.analysis import measure_changes
    >>> found = measure_changes([1, 1.1, 2, 2.1, 3, 2.8, 4, 5], list("aabbccdd"))
    >>> plot_changes(found, units="change of the period (s)").get_ylabel()
    'change of the period (s)'
    """
    known = list(dict.fromkeys(changes["measure"]))
    measure = known[0] if measure is None and len(known) == 1 else measure
    own: Any = changes[changes["measure"] == measure]
    if own.empty:
        raise InvalidParameterError(
            f"`measure={measure!r}` has no changes. Pass one of: {', '.join(map(str, known))}."
        )
    ax, sdc = style.make_axes(ax, size=(6.0, 4.0)), float(own["sdc"].iloc[0])
    label = f"± smallest detectable change ({sdc:.3g})"
    style.shade_usual(ax, -sdc, sdc, label)
    style.draw_limits(ax, sdc)
    visits = list(dict.fromkeys([*own["first_visit"], *own["visit"]]))
    beyond = own.groupby("person", sort=False)["beyond"].any()
    for changed in (False, True):
        tint, line, marker = style.look(1) if changed else (style.OBSERVED, "-", "o")
        look: Any = {"color": tint, "linestyle": line, "marker": marker, "markersize": 4, "lw": 1}
        label = f"{'beyond' if changed else 'within'} it (n = {(beyond == changed).sum()})"
        for person in beyond.index[beyond == changed]:
            rows = own[own["person"] == person]
            x = [visits.index(rows["first_visit"].iloc[0]), *map(visits.index, rows["visit"])]
            ax.plot(x, [0.0, *rows["change"]], zorder=2 + changed, label=label, **look)
            label = None
    _name_changed(ax, own[own["person"].map(beyond)], visits, n_named)
    ax.set_xticks(range(len(visits)), [str(visit) for visit in visits])
    ax.margins(x=0.1)
    name = f"change of {measure}" if isinstance(measure, str) else "change"
    return style.finish(ax, "visit (changes since the first one)", name, 3, units)


def _name_changed(ax: Axes, rows: Any, visits: list[Any], n_named: int) -> None:
    """Write the names of the people with the largest changes beside their last visit."""
    sizes = rows["change"].abs().groupby(rows["person"]).max().nlargest(n_named)
    last = rows[rows["person"].isin(sizes.index)].drop_duplicates("person", keep="last")
    gap = 0.05 * ax.dataLim.height  # of two names
    for visit, people in last.sort_values("change").groupby("visit"):
        height = -np.inf
        for person, change in zip(people["person"], people["change"], strict=True):
            height = max(change, height + gap)
            place = (visits.index(visit), height)
            looks: Any = {"textcoords": "offset points", "fontsize": "small", "va": "center"}
            ax.annotate(str(person), place, (6, 0), **looks)


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
