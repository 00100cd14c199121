"""The style of all figures: colour-blind safe colours, axes, labels, legends; checks of data.

Figures are made without pyplot, so no window opens and no figure is kept alive.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from textwrap import dedent
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

from percdl.exceptions import InvalidParameterError
from percdl.signals.cohort import unknown_subject

# Okabe and Ito (2008), most distinct first; black for shared curves, grey for observed ones.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
SHARED, OBSERVED, FAINT = "#000000", "#8A8A8A", "#C8C8C8"
NAMED = "#E69F00"  # behind what a text names
LINE_STYLES: tuple[Any, ...] = ("-", "--", ":", "-.")
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
SIZE = (6.0, 3.5)
Place = Literal["best", "upper left", "upper center", "lower right"]
Plot = TypeVar("Plot", bound=Callable[..., Axes])
# Names of subjects, groups or channels.
Labels: TypeAlias = Sequence[Any] | np.ndarray | pd.Series | pd.Index
# Arguments that plots share; `plot` adds them to docstrings.
ARGUMENTS = {
    "highlight": "list of int or str, optional: Positions or names of the subjects to draw in "
    "colour, with their names.",
    "subjects": "list of str, optional: Names of all subjects.",
    "channel": "int: Which channel to draw.",
    "channels": "list of str, optional: Names of the channels.",
    "name": "str: Label of the vertical axis.",
    "units": 'str, optional: Unit of the amplitude, "mV", or the whole label, '
    '"angular velocity (deg/s)".',
    "sfreq": "float, optional: Sampling rate in Hz; without it the time axis is in samples.",
    "ax": "Axes, optional: Where to draw; a new figure by default.",
}


def plot(function: Plot) -> Plot:
    """Add the arguments that plots share, and what they return, to the docstring of a plot."""
    text, examples = dedent(f"    {function.__doc__}").split("\n\nExamples\n")
    for name in inspect.signature(function).parameters:
        if name in ARGUMENTS:
            kind, meaning = ARGUMENTS[name].split(": ", 1)
            text += f"\n{name} : {kind}\n    {meaning}"
    function.__doc__ = f"{text}\n\nReturns\n-------\nAxes\n\nExamples\n{examples}"
    return function


def color(index: int) -> str:
    """Return the colour of the atom, channel or subject with this index."""
    return COLORS[index % len(COLORS)]


def look(index: int) -> tuple[str, Any, str]:
    """Return colour, line style and marker of a group or atom; colour is never the only cue."""
    line = LINE_STYLES[index % len(LINE_STYLES)]
    return color(index), line, MARKERS[index % len(MARKERS)]


def make_axes(ax: Axes | None, size: tuple[float, float] = SIZE) -> Axes:
    """Return the axes given, or those of a new figure (width and height in inches)."""
    if ax is None:
        ax = Figure(figsize=size, layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def time_axes(
    ax: Axes | None, n_times: int, sfreq: float | None, size: tuple[float, float] = SIZE
) -> tuple[Axes, Float[np.ndarray, " n"], str]:
    """Return axes, the times of samples 0, 1, ..., and their label, in seconds if possible."""
    samples = np.arange(n_times, dtype=float)
    time, name = (samples, "time (samples)") if sfreq is None else (samples / sfreq, "time (s)")
    return make_axes(ax, size), time, name


def label(ax: Axes, x: str, y: str) -> None:
    """Set the labels of both axes, units included."""
    ax.set(xlabel=x, ylabel=y)


def finish(
    ax: Axes, x: str, y: str, n_columns: int | None = None, units: str | None = None
) -> Axes:
    """Label both axes and add the legend: above the data if it has a number of columns."""
    label(ax, x, with_units(y, units))
    add_legend(ax, headroom=0.1 if n_columns else 0.0, n_columns=n_columns or 1)
    return ax


def fill_band(ax: Axes, x: np.ndarray, low: Any, high: Any, color: str, **options: Any) -> None:
    """Fill between two curves, lightly and without edges."""
    ax.fill_between(x, low, high, color=color, linewidth=0, **{"alpha": 0.2, **options})


def shade_usual(ax: Axes, low: float, high: float, label: str) -> None:
    """Shade the heights that are usual, across the whole panel."""
    ax.axhspan(low, high, color=FAINT, alpha=0.5, lw=0, zorder=0, label=label)


def draw_limits(ax: Axes, limit: float, label: str | None = None) -> None:
    """Draw a dashed line at a limit above zero and one as far below."""
    for height, name in ((limit, label), (-limit, None)):
        ax.axhline(height, color=SHARED, linestyle="--", linewidth=1, label=name)


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
    """Add a legend on a light background.

    With ``headroom`` it stands above the data, in at least this share of their height, with fewer
    columns in a narrow panel; without, at ``place``. ``handles`` are the entries, by default all
    artists with a label.
    """
    entries = ax.get_legend_handles_labels()[0] if handles is None else list(handles)
    if not entries:
        return
    columns = min(n_columns, len(entries))
    legend = _write_legend(ax, entries, "upper center" if headroom else place, columns)
    if not headroom:
        return
    # Before the layout is final, a panel among others is up to a fifth narrower.
    while columns > 1 and legend.get_window_extent().width > 1.2 * ax.bbox.width:
        columns -= 1
        legend = _write_legend(ax, entries, "upper center", columns)
    # Raise the upper end of the axis until the data lie below the legend: a fifth more, because
    # the layout may still shrink the panel and the frame has a margin.
    share = min(0.6, 1.2 * legend.get_window_extent().height / ax.bbox.height)
    room = max(headroom, share / (1 - share))
    ax.update_datalim([(ax.dataLim.x0, ax.dataLim.y1 + room * ax.dataLim.height)])
    ax.autoscale_view()


def _write_legend(ax: Axes, entries: Sequence[Any], place: Place, n_columns: int) -> Legend:
    looks: Any = {"fontsize": "small", "framealpha": 0.85, "edgecolor": "none"}
    room = {"handlelength": 2.0, "columnspacing": 1.0}
    legend = ax.legend(handles=entries, loc=place, ncols=n_columns, **looks, **room)
    for handle in legend.legend_handles:  # thin lines and faint points would be invisible
        if isinstance(handle, (Line2D, LineCollection)):
            handle.set_linewidth(max(1.0, float(np.max(handle.get_linewidth()))))
        if isinstance(handle, Line2D):
            handle.set(markersize=max(5.0, handle.get_markersize()), alpha=1)
    return legend


def as_shape(values: Any, name: str, *shapes: str, such_as: str = "") -> np.ndarray:
    """Return an array of numbers; raise unless it has one of the shapes, such as ``"S, L"``."""
    array = np.asarray(values, float)
    if array.ndim in [len(shape.split(",")) for shape in shapes] and array.size:
        return array
    example = f", such as `{such_as}`" if such_as else ""
    raise InvalidParameterError(
        f"`{name}` has shape {array.shape}. Pass an array ({') or ('.join(shapes)}){example}."
    )


def same_shape(values: Any, other: np.ndarray, name: str, other_name: str) -> np.ndarray:
    """Return an array; raise unless it has the shape of another."""
    array = np.asarray(values, float)
    if array.shape != other.shape:
        raise InvalidParameterError(
            f"`{name}` has shape {array.shape}, `{other_name}` has {other.shape}. Pass the same."
        )
    return array


def check_position(position: int, count: int, what: str) -> None:
    """Raise if an atom, channel or subject does not exist."""
    if not -count <= position < count:
        raise InvalidParameterError(
            f"`{what}={position}` is out of range: there are {count}, numbered from 0."
        )


def names_of(given: Labels | None, count: int, what: str) -> list[str]:
    """Return the names given, or ``"atom 0"``, ``"atom 1"``, ... ."""
    names = [f"{what} {i}" for i in range(count)] if given is None else list(map(str, given))
    if len(names) != count:
        raise InvalidParameterError(
            f"`{what}s` has {len(names)} name(s) for {count} {what}(s). Pass one for each."
        )
    return names


def find_subject(wanted: int | str, subjects: Labels | None, count: int) -> int:
    """Return the position of a subject given by position or name."""
    if not isinstance(wanted, str):
        check_position(int(wanted), count, "subject")
        return int(wanted) % count
    names = names_of(subjects, count, "subject")
    if wanted not in names:
        raise InvalidParameterError(f"{unknown_subject(wanted, names)} Pass `subjects`.")
    return names.index(wanted)


def groups_of(groups: Labels | None, count: int) -> np.ndarray:
    """Return the group of each subject as text; None for None or NaN."""
    of = ["all"] * count if groups is None else [None if pd.isna(g) else str(g) for g in groups]
    if len(of) != count:
        raise InvalidParameterError(
            f"`groups` has {len(of)} item(s) for {count} subject(s). Pass the group of each."
        )
    return np.array(of, dtype=object)


def check_events(events: pd.DataFrame) -> None:
    """Raise if a table of events has several subjects."""
    n_subjects = len(set(events["subject"])) if "subject" in events else 1
    if n_subjects > 1:
        raise InvalidParameterError(
            f"`events` holds {n_subjects} subjects, the recording is of one. "
            'Pass `events[events["subject"] == subject]`.'
        )
