"""Pictures behind a choice: periods of the subjects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from percdl.plotting import style

if TYPE_CHECKING:
    from percdl.analysis import AtomLength


def plot_atom_length(suggestion: AtomLength, ax: Axes | None = None) -> Axes:
    """Draw the periods of the subjects, and the atom length suggested from them.

    Parameters
    ----------
    suggestion : AtomLength
        Such as ``suggest_atom_length(cohort)``.
    ax : Axes, optional
        Where to draw; a new figure by default.
    """
    ax = style.make_axes(ax)
    periods = suggestion.periods[np.isfinite(suggestion.periods)] / suggestion.sfreq
    ax.hist(periods, bins="auto", color=style.FAINT, edgecolor="white", label="period")
    ax.axvline(
        suggestion.period / suggestion.sfreq,
        color=style.OBSERVED,
        linestyle="--",
        label=f"median period, {suggestion.period / suggestion.sfreq:.3g} s",
    )
    ax.axvline(
        suggestion.seconds,
        color=style.color(1),
        linewidth=2,
        label=f"atom length, {suggestion.seconds:.3g} s ({suggestion.length} samples)",
    )
    style.label(ax, "period (s)", "subjects")
    style.add_legend(ax)
    return ax
