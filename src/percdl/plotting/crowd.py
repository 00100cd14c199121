"""Many subjects in one picture: the crowd in grey, a few of them in colour."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from percdl.plotting import style
from percdl.plotting.checks import Labels, find_subjects, names_of

# Atoms take the first colours; where both are seen side by side, subjects should not repeat them.
FIRST_COLOR = 2


def draw_crowd(
    ax: Axes,
    time: Float[np.ndarray, " L"],
    curves: Float[np.ndarray, "S L"],
    highlight: Labels,
    subjects: Labels | None,
) -> None:
    """Draw a curve per subject; those with NaN are left out, those to highlight are named."""
    chosen = find_subjects(highlight, subjects, len(curves))
    labels = names_of(subjects, len(curves), "subject")
    known = np.asarray(~np.isnan(curves).any(1))
    crowd = curves[known & ~np.isin(np.arange(len(curves)), chosen)]
    if len(crowd):
        width = np.clip(6.4 / np.sqrt(len(curves)), 0.2, 0.8)  # thinner for a larger crowd
        lines = np.stack([np.broadcast_to(time, crowd.shape), crowd], axis=-1)
        name = f"all {known.sum()} subjects"
        looks = {"colors": style.FAINT, "linewidths": width, "zorder": 1}
        ax.add_collection(LineCollection(list(lines), label=name, **looks))
    for index, s in enumerate(chosen):
        if known[s]:
            tint, line = style.color(FIRST_COLOR + index), style.look(index).line
            ax.plot(time, curves[s], line, color=tint, linewidth=1.8, label=labels[s])
    ax.autoscale_view()
