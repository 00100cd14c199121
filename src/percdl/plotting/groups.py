"""Plots of groups: mean curves with bands, and where groups differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy import stats

from percdl.exceptions import InvalidParameterError
from percdl.plotting import style
from percdl.plotting.checks import Labels, as_shape, check_position, groups_of

BANDS = {"ci": "95% confidence of the mean", "sd": "± 1 sd"}


def plot_group_comparison(
    curves: np.ndarray,
    groups: Labels,
    clusters: Sequence[Any] = (),
    *,
    channel: int = 0,
    band: str = "ci",
    alpha: float = 0.05,
    units: str | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean curve of each group with a band, and where a test says they differ.

    Parameters
    ----------
    curves : array (S, L) or (S, L, P)
        One curve per subject, such as ``model.personal_dictionary_[:, 0]``.
    groups : list of str
        Group of each subject. Subjects of group None, or with NaN, are left out.
    clusters : list of Cluster or of (start, stop, p), optional
        Runs of samples where the groups differ, such as ``compare_groups(...).clusters``. Those
        with ``p <= alpha`` are shaded; the others are an empty bar.
    channel : int
        Which channel to draw.
    band : {"ci", "sd"}
        The 95% confidence interval of the mean (Student), or one standard deviation.
    alpha : float
        Level of significance of the clusters.
    units, sfreq, ax : optional
        See `plot_atoms`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> curves = np.random.default_rng(0).normal(size=(20, 50))
    >>> groups = ["patients"] * 10 + ["controls"] * 10
    >>> plot_group_comparison(curves, groups, [(20, 30, 0.001)], sfreq=100).get_xlabel()
    'time (s)'
    """
    from percdl.analysis.groups import Cluster, summarize_groups  # here, because it loads JAX

    curves = as_shape(
        curves, "curves", "S, L", "S, L, P", such_as="model.personal_dictionary_[:, 0]"
    )
    curves = curves if curves.ndim == 3 else curves[:, :, None]
    check_position(channel, curves.shape[2], "channel")
    if band not in BANDS:
        raise InvalidParameterError(f"`band={band!r}` must be one of {', '.join(BANDS)}.")
    summaries = summarize_groups(curves[:, :, [channel]], groups_of(groups, len(curves)))
    ax = style.make_axes(ax)
    time, unit = style.time_axis(curves.shape[1], sfreq)
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
    return style.finish(ax, f"time ({unit})", style.with_units("amplitude", units), 2)


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
