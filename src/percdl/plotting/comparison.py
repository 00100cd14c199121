"""Groups side by side, and where along the cycle they differ."""

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
        A curve per subject, such as ``model.personal_dictionary_[:, 0]``; subjects with NaN
        are left out.
    groups : list of str
        Group of each subject; those of None are left out.
    clusters : list of Cluster or of (start, stop, p), optional
        Runs of samples ``start`` to ``stop - 1`` where the groups differ, with their p value:
        ``compare_groups(...).clusters``, of which those of the channel are drawn, or numbers.
        Those with ``p <= alpha`` are shaded over the whole height; the others are an empty bar.
    channel : int
        Which channel to draw.
    band : {"ci", "sd"}
        The 95% confidence interval of the mean (Student), or one standard deviation.
    alpha : float
        The level at which a cluster is called significant.
    units, sfreq, ax : optional
        See `plot_atoms`.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> curves = np.random.default_rng(0).normal(size=(20, 50))
    >>> curves[:10, 20:30] += 2
    >>> groups = ["patients"] * 10 + ["controls"] * 10
    >>> plot_group_comparison(curves, groups, [(20, 30, 0.001)], sfreq=100).get_xlabel()
    'time (s)'
    """
    from percdl.analysis.groups import summarize_groups  # here, for it loads JAX

    curves = as_shape(curves, "curves", "S L", "S L P", such_as="model.personal_dictionary_[:, 0]")
    curves = curves if curves.ndim == 3 else curves[:, :, None]
    check_position(channel, curves.shape[2], "channel")
    if band not in BANDS:
        raise InvalidParameterError(f"`band={band!r}` must be one of {', '.join(BANDS)}.")
    runs = _check_clusters(clusters, channel % curves.shape[2], curves.shape[1])
    summaries = summarize_groups(curves[:, :, [channel]], groups_of(groups, len(curves)))
    ax = style.make_axes(ax)
    time, unit = style.time_axis(curves.shape[1], sfreq)
    for index, (name, group) in enumerate(summaries.items()):
        tint, line, _ = style.look(index)
        half = _half_width(group, band)[:, 0]
        mean = group.mean[:, 0]
        ax.fill_between(time, mean - half, mean + half, color=tint, alpha=0.2, linewidth=0)
        label = f"{name} (n = {group.n_members})"
        ax.plot(time, mean, line, color=tint, linewidth=1.8, label=label)
    ax.fill_between([], [], color=style.OBSERVED, alpha=0.4, linewidth=0, label=BANDS[band])
    _mark_clusters(ax, runs, alpha, 1.0 if sfreq is None else sfreq)
    ax.margins(x=0.02)
    style.label(ax, f"time ({unit})", style.with_units("amplitude", units))
    style.add_legend(ax, headroom=0.1, n_columns=2)
    return ax


def _half_width(group: Any, band: str) -> np.ndarray:
    if band == "sd":
        return group.sd
    quantile = stats.t.ppf(0.975, group.n_members - 1)
    return quantile * group.sd / np.sqrt(group.n_members)


def _check_clusters(
    clusters: Sequence[Any], channel: int, n_times: int
) -> list[tuple[int, int, float]]:
    """Return start, stop and p value of the clusters of a channel."""
    from percdl.analysis.clusters import Cluster

    checked = []
    for cluster in clusters:
        if isinstance(cluster, Cluster):
            if cluster.channel == channel:
                checked.append((cluster.start, cluster.stop, cluster.p_value))
            continue
        if np.shape(cluster) != (3,):
            raise InvalidParameterError(
                f"`clusters` holds {cluster!r}. Pass those of `compare_groups`, or a list of "
                "(start, stop, p)."
            )
        start, stop, p = cluster
        if not (0 <= start < stop <= n_times and 0 <= p <= 1):
            raise InvalidParameterError(
                f"`clusters` holds ({start}, {stop}, {p}): start and stop must be samples of the "
                f"cycle, 0 <= start < stop <= {n_times}, and p between 0 and 1."
            )
        checked.append((int(start), int(stop), float(p)))
    return sorted(checked)


def _mark_clusters(
    ax: Axes, clusters: list[tuple[int, int, float]], alpha: float, rate: float
) -> None:
    """Draw a bar under the curves for each cluster, with its p value under the bar."""
    if not clusters:
        return
    low, high = ax.dataLim.intervaly
    height = (high - low) or 1.0
    names = {True: f"cluster, p ≤ {alpha:g}", False: "cluster, not significant"}
    for index, (start, stop, p) in enumerate(clusters):
        begin, width = (start - 0.5) / rate, (stop - start) / rate
        significant = p <= alpha
        ax.broken_barh(
            [(begin, width)],
            (low - 0.1 * height, 0.03 * height),
            facecolor=style.SHARED if significant else "none",
            edgecolor=style.SHARED,
            label=names.pop(significant, None),
        )
        if significant:
            ax.broken_barh(
                [(begin, width)],
                (low - 0.07 * height, high - low + 0.07 * height),
                facecolor=style.FAINT,
                alpha=0.45,
                linewidth=0,
                zorder=0,
            )
        level = low - (0.12 + 0.09 * (index % 2)) * height  # neighbours on two levels
        ax.text(begin + width / 2, level, format_p(p), ha="center", va="top", fontsize="x-small")
    ax.update_datalim([(ax.dataLim.x0, low - (0.2 + 0.09 * (len(clusters) > 1)) * height)])


def format_p(p: float) -> str:
    """Return a p value as text.

    >>> format_p(0.0123), format_p(0.00004), format_p(0.31)
    ('p = 0.012', 'p < 0.001', 'p = 0.31')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
