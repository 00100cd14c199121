"""One look for all figures: colours that colour-blind readers can tell apart, quiet axes.

Figures are made without pyplot, so no window opens and no figure is kept alive behind the
caller's back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito (2008), most distinct first; black and grey stand for what is shared or observed.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
SHARED, OBSERVED, FAINT = "#000000", "#8A8A8A", "#C8C8C8"
LINE_STYLES: tuple[Any, ...] = ("-", "--", ":", "-.")


def color(index: int) -> str:
    """Return the colour of the atom, channel or subject with this index."""
    return COLORS[index % len(COLORS)]


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


def add_legend(ax: Axes, headroom: float = 0.0, n_columns: int = 1) -> None:
    """Add a legend, on a light ground so that lines behind it do not disturb.

    ``headroom`` is the room made for it above the data, as a share of their height.
    """
    if headroom:
        data = ax.dataLim
        ax.update_datalim([(data.x0, data.y1 + headroom * data.height)])
        ax.autoscale_view()
    place = "upper center" if headroom else "best"
    ax.legend(
        loc=place,
        ncols=n_columns,
        fontsize="small",
        framealpha=0.85,
        edgecolor="none",
        handlelength=1.5,
        columnspacing=1.2,
    )


def names(given: Sequence[str] | None, count: int, what: str) -> list[str]:
    """Return the names given, or ``"atom 0"``, ``"atom 1"``, ... ."""
    return [f"{what} {i}" for i in range(count)] if given is None else [str(n) for n in given]
