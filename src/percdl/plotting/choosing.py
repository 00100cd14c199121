"""Pictures behind a choice: periods of the subjects, held-out scores along a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from percdl.plotting import style

if TYPE_CHECKING:
    from percdl.analysis import AtomLength, Selection


def plot_atom_length(suggestion: AtomLength, ax: Axes | None = None) -> Axes:
    """Draw the periods of the subjects, and the atom length suggested from them.

    Parameters
    ----------
    suggestion : AtomLength
        Such as ``suggest_atom_length(cohort)``.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> from percdl.analysis import suggest_atom_length
    >>> beats = np.tile(np.hanning(40), (3, 20)) + 0.01 * np.random.default_rng(0).random((3, 800))
    >>> ax = plot_atom_length(suggest_atom_length(beats))
    >>> "period" in ax.get_xlabel()
    True
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


def plot_selection(selection: Selection, ax: Axes | None = None) -> Axes:
    """Draw held-out scores along the path of models, with the one that is chosen.

    The parameter with most values runs along the axis; combinations of the others are lines.
    Bars are standard errors; the dotted line lies one below the best score.

    Parameters
    ----------
    selection : Selection
        Such as ``select(cohort, {"n_atoms": [1, 2, 3]})``.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> import pandas as pd
    >>> from percdl import PerCDL
    >>> from percdl.analysis import Selection
    >>> table = pd.DataFrame({"n_atoms": [1, 2], "score": [0.7, 0.9]})
    >>> table = table.assign(error=0.02, chosen=[False, True])
    >>> plot_selection(Selection(table, {"n_atoms": 2}, PerCDL(2))).get_xlabel()
    'n_atoms'
    """
    ax = style.make_axes(ax)
    table = selection.table
    along = max(selection.names, key=lambda name: table[name].map(str).nunique())
    others = [name for name in selection.names if name != along]
    ticks = {value: None for value in table[along]}
    numeric = all(isinstance(v, (int, float)) for v in ticks)
    order = sorted(ticks) if numeric else list(ticks)
    labels = table[others].astype(str).agg(", ".join, axis=1) if others else None
    groups = [(None, table)] if labels is None else table.groupby(labels, sort=False)
    for index, (label, rows) in enumerate(groups):
        x = [order.index(value) for value in rows[along]]
        place = np.argsort(x)
        ax.errorbar(
            np.take(x, place),
            rows["score"].to_numpy()[place],
            rows["error"].to_numpy()[place],
            color=style.color(index),
            marker="o",
            markersize=4,
            capsize=3,
            label=None if label is None else f"{', '.join(others)}: {label}",
        )
    best = table.loc[table["score"].idxmax()]
    ax.axhline(
        best["score"] - best["error"], color=style.OBSERVED, linestyle=":", label="best - 1 s.e."
    )
    chosen = table[table["chosen"]].iloc[0]
    ax.plot(
        order.index(chosen[along]),
        chosen["score"],
        "o",
        markersize=12,
        fillstyle="none",
        color=style.SHARED,
        label="chosen",
    )
    ax.set_xticks(range(len(order)), [f"{v:g}" if numeric else str(v) for v in order])
    style.label(ax, along, "held-out score (share explained)")
    style.add_legend(ax)
    return ax
