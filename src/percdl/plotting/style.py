"""One look for all figures: colours that colour-blind readers can tell apart, quiet axes.

Figures are made without pyplot, so no window opens and no figure is kept alive behind the
caller's back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

# Okabe and Ito (2008), most distinct first; black and grey stand for what is shared or observed.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
SHARED, OBSERVED, FAINT = "#000000", "#8A8A8A", "#C8C8C8"
LINE_STYLES: tuple[Any, ...] = ("-", "--", ":", "-.")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
Place = Literal["best", "upper left", "upper center", "lower right"]


class Look(NamedTuple):
    """How to draw one of several things; no two share all three."""

    color: str
    line: Any
    marker: str


def color(index: int) -> str:
    """Return the colour of the atom, channel or subject with this index."""
    return COLORS[index % len(COLORS)]


def look(index: int) -> Look:
    """Return colour, line style and marker of the group or atom with this index.

    Neighbours differ in all three, so that colour is never the only cue.
    """
    line = LINE_STYLES[index % len(LINE_STYLES)]
    return Look(color(index), line, MARKERS[index % len(MARKERS)])


def make_axes(ax: Axes | None, size: tuple[float, float] = (6.0, 3.5)) -> Axes:
    """Return the axes given, or those of a new figure (width and height in inches)."""
    if ax is None:
        ax = Figure(figsize=size, layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def time_axis(n_times: int, sfreq: float | None) -> tuple[Float[np.ndarray, " n"], str]:
    """Return the times of samples 0, 1, ... and their unit: seconds, or samples without a rate."""
    samples = np.arange(n_times, dtype=float)
    return (samples, "samples") if sfreq is None else (samples / sfreq, "s")


def label(ax: Axes, x: str, y: str) -> None:
    """Name both axes, units included."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)


def with_units(name: str, units: str | None) -> str:
    """Return the label of an axis.

    >>> with_units("amplitude", "mV"), with_units("amplitude", "angular velocity (deg/s)")
    ('amplitude (mV)', 'angular velocity (deg/s)')
    """
    if units is None:
        return name
    return units if "(" in units else f"{name} ({units})"


def add_legend(
    ax: Axes,
    headroom: float = 0.0,
    n_columns: int = 1,
    place: Place = "best",
    handles: Sequence[Any] | None = None,
) -> None:
    """Add a legend, on a light ground so that lines behind it do not disturb.

    With ``headroom``, it stands above the data in a room of at least this share of their
    height, and of more where it needs more; it then has fewer columns in a narrow panel.
    Without, ``place`` says where. ``handles`` are the things to name, by default all that have
    a label.
    """
    things = ax.get_legend_handles_labels()[0] if handles is None else list(handles)
    if not things:
        return
    if not headroom:
        _write_legend(ax, things, place, n_columns)
        return
    columns = min(n_columns, len(things))
    legend = _write_legend(ax, things, "upper center", columns)
    # Until the layout is settled, a panel among others is a fifth narrower than it will be.
    while columns > 1 and legend.get_window_extent().width > 1.2 * ax.bbox.width:
        columns -= 1
        legend = _write_legend(ax, things, "upper center", columns)
    _make_room(ax, legend, headroom)


def _write_legend(ax: Axes, things: Sequence[Any], place: Place, n_columns: int) -> Legend:
    legend = ax.legend(
        handles=things,
        loc=place,
        ncols=n_columns,
        fontsize="small",
        framealpha=0.85,
        edgecolor="none",
        handlelength=2.0,
        columnspacing=1.0,
    )
    for handle in legend.legend_handles:  # lines and points of a crowd would hardly be seen
        if isinstance(handle, (Line2D, LineCollection)):
            handle.set_linewidth(max(1.0, float(np.max(handle.get_linewidth()))))
        if isinstance(handle, Line2D):
            handle.set(markersize=max(5.0, handle.get_markersize()), alpha=1)
    return legend


def _make_room(ax: Axes, legend: Legend, least: float) -> None:
    """Raise the upper end of the axis until the data lie below the legend."""
    # Layout may still shrink the panel a little, and the frame keeps a distance: a fifth more.
    share = min(0.6, 1.2 * legend.get_window_extent().height / ax.bbox.height)
    room = max(least, share / (1 - share))
    data = ax.dataLim
    ax.update_datalim([(data.x0, data.y1 + room * data.height)])
    ax.autoscale_view()
