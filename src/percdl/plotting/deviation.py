"""How far people are from a reference: all of them by rank, and one along the cycle."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from percdl.exceptions import InvalidParameterError
from percdl.plotting import style
from percdl.plotting.checks import Labels, as_shape, check_group, groups_of, names_of

FEW = 30  # subjects that fit along an axis with their names
COVERAGE = 0.95


def plot_deviation_ranking(
    deviation: np.ndarray,
    groups: Labels | None = None,
    *,
    reference: str | None = None,
    subjects: Labels | None = None,
    n_named: int = 5,
    name: str = "deviation index",
    ax: Axes | None = None,
) -> Axes:
    """Draw the deviation of each subject, the largest first.

    Up to 30 subjects are all named along the axis. Of more, the first few are named beside
    their points, and a strip for each group under the points shows its ranks.

    Parameters
    ----------
    deviation : array (S,)
        Deviation index of each subject; those of NaN are left out.
    groups : list of str, optional
        Group of each subject; those of None are left out.
    reference : str, optional
        The group whose range, from the 2.5th to the 97.5th percentile, is shaded.
    subjects : list of str, optional
        Names of all subjects.
    n_named : int
        How many of more than 30 subjects to name.
    name : str
        What the vertical axis shows.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> ax = plot_deviation_ranking(np.array([0.8, 1.1, 4.2]), ["healthy", "healthy", "patient"])
    >>> ax.get_ylabel()
    'deviation index'
    """
    deviation = as_shape(deviation, "deviation", "S")
    group_of = groups_of(groups, len(deviation))
    labels = names_of(subjects, len(deviation), "subject")
    if reference is not None:
        check_group(reference, group_of)
    known = ~np.isnan(deviation) & np.array([group is not None for group in group_of])
    if not known.any():
        raise InvalidParameterError("`deviation` is NaN for all who have a group.")
    order = np.flatnonzero(known)[np.argsort(-deviation[known], kind="stable")]
    height, group = deviation[order], np.array(group_of, dtype=object)[order]
    ax = style.make_axes(ax, size=(6.0, 4.0))
    if reference is not None and (group == reference).any():
        _shade_range(ax, height[group == reference], reference)
    group_names = [name for name in dict.fromkeys(group_of) if name is not None]
    _draw_ranks(ax, height, group, group_names)
    style.label(ax, "rank of the subject", name)
    sorted_labels = [labels[s] for s in order]
    if len(order) <= FEW:
        _name_all(ax, sorted_labels)
    else:
        _add_strips(ax, height, group, group_names)
        _name_first(ax, height, sorted_labels[:n_named])
    if groups is not None:
        style.add_legend(ax, headroom=0.1, n_columns=4)
    return ax


def plot_deviation_profile(
    profile: np.ndarray,
    *,
    threshold: float = 2.0,
    subject: str | None = None,
    channels: Labels | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how far one subject is from a reference along the cycle, in standard deviations.

    What lies beyond the threshold is filled.

    Parameters
    ----------
    profile : array (L,) or (L, P)
        z of the subject at each sample, and in each channel.
    threshold : float
        Where the two dashed lines lie.
    subject : str, optional
        The subject's name.
    channels : list of str, optional
        Names of the channels.
    sfreq : float, optional
        Samples per second; without it the time axis counts samples.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> plot_deviation_profile(3 * np.sin(np.linspace(0, 6, 50)), sfreq=100).get_xlabel()
    'time (s)'
    """
    profile = as_shape(profile, "profile", "L", "L P")
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
            ax.fill_between(
                time, limit, z, beyond, interpolate=True, color=tint, alpha=0.35, linewidth=0
            )
        label = f"{subject}, {name}" if several and subject else name
        ax.plot(time, z, line, color=tint, linewidth=1.8, label=label)
    ax.axhline(0, color=style.OBSERVED, linewidth=0.8)
    limits = f"± {threshold:g} sd of the reference"
    ax.axhline(threshold, color=style.SHARED, linestyle="--", linewidth=1, label=limits)
    ax.axhline(-threshold, color=style.SHARED, linestyle="--", linewidth=1)
    ax.margins(x=0.02)
    style.label(ax, f"time ({unit})", "deviation z (sd of the reference)")
    style.add_legend(ax, headroom=0.1, n_columns=3)
    return ax


def _shade_range(ax: Axes, values: Float[np.ndarray, " R"], reference: str) -> None:
    tail = (1 - COVERAGE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    label = f"{COVERAGE:.0%} of {reference}"
    ax.axhspan(low, high, color=style.FAINT, alpha=0.5, linewidth=0, zorder=0, label=label)


def _draw_ranks(ax: Axes, height: np.ndarray, group: np.ndarray, names: list[str]) -> None:
    size = float(np.clip(60 / np.sqrt(len(height)), 2.5, 7.0))
    ranks = np.arange(1, len(height) + 1)
    for index, name in enumerate(names):
        tint, _, marker = style.look(index)
        at = group == name
        label = f"{name} (n = {at.sum()})"
        ax.plot(ranks[at], height[at], marker, color=tint, markersize=size, label=label)
    ax.update_datalim([(1, 0)])  # distances are read from zero
    ax.autoscale_view()


def _add_strips(ax: Axes, height: np.ndarray, group: np.ndarray, names: list[str]) -> None:
    """Mark the ranks of each group in a row of its own: points of thousands lie too close."""
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


def _name_all(ax: Axes, names: list[str]) -> None:
    ranks: Int[np.ndarray, " S"] = np.arange(1, len(names) + 1)
    ax.set_xticks(ranks, names, rotation=45, ha="right", rotation_mode="anchor", fontsize="small")
    ax.set_xlabel("subject, the most deviating first")


def _name_first(ax: Axes, height: np.ndarray, names: list[str]) -> None:
    """Write the first names above the falling curve, each joined to its point by a thin line.

    From the lowest up, a name stands at its point's height or a line above the name before.
    """
    if not names:
        return
    # A line of text as a share of the panel; the axis will grow by these lines and the legend.
    share = 11 / (ax.bbox.height / ax.figure.dpi * 72)
    line = 1.4 * ax.dataLim.height * share / max(0.3, 1 - len(names) * share)
    x = len(names) + 0.03 * len(height)
    y = -np.inf
    for rank in range(len(names), 0, -1):
        y = max(height[rank - 1] + 0.5 * line, y + line)
        ax.annotate(
            names[rank - 1],
            (rank, height[rank - 1]),
            (x, y),
            va="center",
            fontsize="small",
            arrowprops={"arrowstyle": "-", "color": style.OBSERVED, "linewidth": 0.6},
        )
    ax.update_datalim([(1, y + line)])
    ax.autoscale_view()
