"""Many subjects in one picture: the crowd in grey, a few of them in colour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from percdl.plotting import style

# Atoms take the first colours; where both are seen side by side, subjects should not repeat them.
FIRST_COLOR = 2


def draw_crowd(
    ax: Axes,
    time: Float[np.ndarray, " L"],
    curves: Float[np.ndarray, "S L"],
    highlight: Sequence[int],
    subjects: Sequence[str] | None,
) -> None:
    """Draw a curve per subject; those with NaN are left out, those to highlight are named."""
    known = ~np.isnan(curves).any(1)
    chosen = np.isin(np.arange(len(curves)), np.asarray(highlight, int))
    name = f"all {known.sum()} subjects"
    width = min(0.8, 6.4 / np.sqrt(len(curves)))  # thinner lines for a larger crowd
    for curve in curves[known & ~chosen]:
        ax.plot(time, curve, color=style.FAINT, linewidth=width, label=name)
        name = None  # one entry in the legend stands for all
    labels = style.names(subjects, len(curves), "subject")
    for index, s in enumerate(highlight):
        tint = style.color(FIRST_COLOR + index)
        ax.plot(time, curves[s], color=tint, linewidth=1.5, label=labels[s])
