"""Plots behind a choice: periods of the subjects, held-out scores of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from percdl.plotting import style

if TYPE_CHECKING:
    from percdl.analysis import AtomLength, Selection
    from percdl.estimators.base import BaseCDL


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
        The axes drawn on.

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
        The axes drawn on.

    Examples
    --------
    >>> import pandas as pd
    >>> from percdl import PerCDL
    >>> from percdl.analysis import Selection
    >>> table = pd.DataFrame({"n_atoms": [1, 2], "score": [0.7, 0.9]})
    >>> table = table.assign(error=0.02, chosen=[False, True])
    >>> plot_selection(Selection(table, {"n_atoms": 2}, PerCDL(2, 50, penalty=0.01))).get_xlabel()
    'n_atoms'
    """
    ax = style.make_axes(ax)
    table = selection.table
    along = max(selection.chosen, key=lambda name: table[name].map(str).nunique())
    others = [name for name in selection.chosen if name != along]
    ticks = {value: None for value in table[along]}
    numeric = all(isinstance(v, (int, float)) for v in ticks)
    order = sorted(ticks) if numeric else list(ticks)
    labels = table[others].astype(str).agg(", ".join, axis=1) if others else None
    groups = [(None, table)] if labels is None else table.groupby(labels, sort=False)
    for index, (label, rows) in enumerate(groups):
        x = [order.index(value) for value in rows[along]]
        place = np.argsort(x)
        score, error = (rows[name].to_numpy()[place] for name in ("score", "error"))
        name = None if label is None else f"{', '.join(others)}: {label}"
        looks = {"color": style.color(index), "marker": "o", "markersize": 4, "capsize": 3}
        ax.errorbar(np.take(x, place), score, error, label=name, **looks)
    best = table.loc[table["score"].idxmax()]
    limit = best["score"] - best["error"]
    ax.axhline(limit, color=style.OBSERVED, linestyle=":", label="best - 1 s.e.")
    chosen = table[table["chosen"]].iloc[0]
    point, looks = order.index(chosen[along]), {"markersize": 12, "fillstyle": "none"}
    ax.plot(point, chosen["score"], "o", color=style.SHARED, label="chosen", **looks)
    ax.set_xticks(range(len(order)), [f"{v:g}" if numeric else str(v) for v in order])
    return style.finish(ax, along, "held-out score (share explained)")


def selection_path(
    cohort: Any,
    grid: Mapping[str, Sequence[Any]],
    model: BaseCDL | None = None,
    ax: Axes | None = None,
    **options: Any,
) -> tuple[pd.DataFrame, Axes]:
    """Return the held-out scores of a grid of models, as a table and as a plot.

    Cost: that of `percdl.select`, ``n_folds`` fits of each model.

    Parameters
    ----------
    cohort, grid, model, **options
        See `percdl.select`.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    table : DataFrame
        One row per model, see `percdl.analysis.Selection`.
    ax : Axes
        The axes drawn on.

    Examples
    --------
    >>> import numpy as np
    >>> from percdl import Algorithm, PopCDL
    >>> waves = np.sin(np.arange(400).reshape(4, 100) / 3)
    >>> quick = Algorithm(population_rounds=1, personal_rounds=0)
    >>> model = PopCDL(1, 19, init=waves[:1, :19, None], algorithm=quick)
    >>> table, ax = selection_path(waves, {"penalty": [0.1, 5.0]}, model, n_folds=2)
    >>> table["chosen"].tolist(), ax.get_xlabel()
    ([True, False], 'penalty')
    """
    from percdl.analysis import select  # here, because it loads JAX

    found = select(cohort, grid, model, **options)
    return found.table, plot_selection(found, ax)
