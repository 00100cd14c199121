"""The objective over the course of a fit."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from percdl.exceptions import InvalidParameterError
from percdl.plotting import style

NEEDED = ("phase", "step", "objective", "seconds")


def plot_history(
    history: pd.DataFrame,
    *,
    against: Literal["half-step", "seconds"] = "half-step",
    ax: Axes | None = None,
) -> Axes:
    """Draw the objective after each half-step, on a logarithmic scale.

    Parameters
    ----------
    history : DataFrame
        Such as ``model.history_``: columns phase, round, step, objective, seconds.
    against : {"half-step", "seconds"}
        The horizontal axis: number of the half-step, or time since the start.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> history = pd.DataFrame(
    ...     {"phase": "population", "round": 0, "step": ["CSC", "CDU"], "objective": [2.0, 1.0],
    ...      "seconds": [0.1, 0.2]}
    ... )
    >>> plot_history(history).get_ylabel()
    'objective'
    """
    missing = [column for column in NEEDED if column not in history.columns]
    if missing:
        raise InvalidParameterError(
            f"`history` has no column {', '.join(missing)}; it has "
            f"{', '.join(map(str, history.columns))}. Pass a frame such as `model.history_`."
        )
    ax = style.make_axes(ax)
    x = history["seconds"].to_numpy() if against == "seconds" else np.arange(len(history))
    objective = history["objective"].to_numpy()
    ax.plot(x, objective, color=style.FAINT, linewidth=1, zorder=1)
    for index, phase in enumerate(history["phase"].unique()):
        at = (history["phase"] == phase).to_numpy()
        tint, _, marker = style.look(index)
        ax.plot(x[at], objective[at], color=tint, marker=marker, markersize=4, label=phase)
    ax.set_yscale("log")
    style.label(ax, "time (s)" if against == "seconds" else "half-step", "objective")
    style.add_legend(ax)
    return ax
