"""Groups of people: their mean curves with bands, and where one varies more than another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from percdl.plotting import style


def plot_group_band(
    mean: Float[np.ndarray, " L"],
    sd: Float[np.ndarray, " L"],
    name: str,
    *,
    width: float = 2.0,
    color: str | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean curve of a group with a band of standard deviations.

    Parameters
    ----------
    mean, sd : array (L,)
        Over the members of the group.
    name : str
        For the legend.
    width : float
        Half the height of the band, in standard deviations.
    color : str, optional
        The first colour by default.
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
    >>> mean = np.sin(np.linspace(0, 6, 50))
    >>> plot_group_band(mean, np.full(50, 0.1), "controls", sfreq=100).get_xlabel()
    'time (s)'
    """
    ax = style.make_axes(ax)
    time, unit = style.time_axis(len(mean), sfreq)
    tint = color or style.color(0)
    band = mean - width * sd, mean + width * sd
    ax.fill_between(time, *band, color=tint, alpha=0.2, lw=0, label=f"± {width:g} sd")
    ax.plot(time, mean, color=tint, lw=1.8, label=name)
    style.label(ax, f"time ({unit})", "amplitude")
    return ax


def plot_relative_variability(
    variability: Float[np.ndarray, " L"],
    name: str,
    *,
    color: str | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how much more a group varies than a reference; the area above zero is filled.

    Parameters
    ----------
    variability : array (L,)
        See `percdl.analysis.relative_variability`.
    name : str
        For the legend.
    color : str, optional
        The second colour by default.
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
    >>> more = np.sin(np.linspace(0, 6, 50))
    >>> plot_relative_variability(more, "patients", sfreq=100).get_xlabel()
    'time (s)'
    """
    ax = style.make_axes(ax)
    time, unit = style.time_axis(len(variability), sfreq)
    tint = color or style.color(1)
    ax.axhline(0, color=style.OBSERVED, lw=0.8)
    ax.fill_between(time, 0, np.maximum(variability, 0), color=tint, alpha=0.25, lw=0)
    ax.plot(time, variability, color=tint, lw=1.5, label=name)
    style.label(ax, f"time ({unit})", "relative variability")
    return ax


def mark_moments(moments: Mapping[str, float], ax: Axes, *, named: bool = True) -> Axes:
    """Draw vertical lines at named moments, in units of the time axis.

    ``named=False`` draws the lines alone, for panels below one that names them.

    Parameters
    ----------
    moments : dict of name to time
        Where the lines stand.
    ax : Axes
        Where to draw.
    named : bool
        Whether to write the names.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> ax = plot_group_band(np.zeros(50), np.ones(50), "controls", sfreq=100)
    >>> len(mark_moments({"heel on": 0.1, "toe off": 0.4}, ax).texts)
    2
    """
    for index, (name, moment) in enumerate(moments.items()):
        look = style.LINE_STYLES[1 + index % (len(style.LINE_STYLES) - 1)]
        ax.axvline(moment, color=style.OBSERVED, lw=1, ls=look, zorder=0)
        if named:
            ax.annotate(
                name,
                (moment, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, 2 + 9 * (index % 2)),  # neighbours on two levels
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize="x-small",
                color="0.3",
            )
    return ax
