"""Plots behind a choice: periods of the subjects, held-out scores of models."""

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

    Examples
    --------
    >>> from percdl.analysis import suggest_atom_length
    >>> beats = np.tile(np.hanning(40), (3, 20)) + 0.01 * np.random.default_rng(0).random((3, 800))
    >>> plot_atom_length(suggest_atom_length(beats)).get_xlabel()
    'period (s)'
    """
    ax = style.make_axes(ax)
    periods = suggestion.periods[np.isfinite(suggestion.periods)] / suggestion.sfreq
    median, length = suggestion.period / suggestion.sfreq, suggestion.seconds
    ax.hist(periods, bins="auto", color=style.FAINT, edgecolor="white", label="period")
    name = f"median period, {median:.3g} s"
    ax.axvline(median, color=style.OBSERVED, linestyle="--", label=name)
    name = f"atom length, {length:.3g} s ({suggestion.length} samples)"
    ax.axvline(length, color=style.color(1), linewidth=2, label=name)
    return style.finish(ax, "period (s)", "subjects")


def plot_selection(selection: Selection, ax: Axes | None = None) -> Axes:
    """Draw the held-out scores of models, and the chosen one.

    The parameter with most values runs along the axis; combinations of the others are lines.
    Bars are standard errors; the dotted line lies one standard error below the best score.

    Parameters
    ----------
    selection : Selection
        Such as ``select(cohort, {"n_atoms": [1, 2, 3]})``.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import pandas as pd
    >>> from percdl import PerCDL
    >>> from percdl.analysis import Selection
    >>> table = pd.DataFrame({"n_atoms": [1, 2], "score": [0.7, 0.9]})
    >>> table = table.assign(error=0.02, chosen=[False, True])
    >>> plot_selection(Selection(table, {"n_atoms": 2}, PerCDL())).get_xlabel()
    'n_atoms'
    """
    ax, table = style.make_axes(ax), selection.table
    along = max(selection.chosen, key=lambda name: table[name].map(str).nunique())
    others = [name for name in selection.chosen if name != along]
    values = list(dict.fromkeys(table[along]))
    numeric = all(isinstance(value, (int, float)) for value in values)
    order = sorted(values) if numeric else values
    labels = table[others].astype(str).agg(", ".join, axis=1) if others else [""] * len(table)
    for index, (label, rows) in enumerate(table.groupby(labels, sort=False)):
        x = np.array([order.index(value) for value in rows[along]])
        rows, x = rows.iloc[np.argsort(x)], np.sort(x)
        name = f"{', '.join(others)}: {label}" if others else None
        looks = {"color": style.color(index), "marker": "o", "markersize": 4, "capsize": 3}
        ax.errorbar(x, rows["score"], rows["error"], label=name, **looks)
    best, chosen = table.loc[table["score"].idxmax()], table[table["chosen"]].iloc[0]
    limit = best["score"] - best["error"]
    ax.axhline(limit, color=style.OBSERVED, linestyle=":", label="best - 1 s.e.")
    point, looks = order.index(chosen[along]), {"markersize": 12, "fillstyle": "none"}
    ax.plot(point, chosen["score"], "o", color=style.SHARED, label="chosen", **looks)
    ax.set_xticks(range(len(order)), [f"{v:g}" if numeric else str(v) for v in order])
    return style.finish(ax, along, "held-out score (share explained)")
