"""Plots of people who were recorded several times."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from percdl.exceptions import InvalidParameterError
from percdl.plotting import style


def plot_changes(
    changes: pd.DataFrame,
    measure: str | None = None,
    *,
    units: str | None = None,
    n_named: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Draw the change of each person since the first visit, and the smallest detectable change.

    People who leave the band at some visit are drawn in colour and named.

    Parameters
    ----------
    changes : DataFrame
        Result of `percdl.analysis.measure_changes`.
    measure : str, optional
        The measurement to draw, if there are several.
    units : str, optional
        Unit of the measurement, or a whole label such as ``"change of the period (s)"``.
    n_named : int
        Largest number of people to name, the largest changes first.
    ax : Axes, optional
        See `plot_atoms`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from percdl.analysis import measure_changes
    >>> found = measure_changes([1, 1.1, 2, 2.1, 3, 2.8, 4, 5], list("aabbccdd"))
    >>> plot_changes(found, units="change of the period (s)").get_ylabel()
    'change of the period (s)'
    """
    known = list(dict.fromkeys(changes["measure"]))
    if measure is None and len(known) == 1:
        measure = known[0]
    own: Any = changes[changes["measure"] == measure]
    if own.empty:
        raise InvalidParameterError(
            f"`measure={measure!r}` has no changes. Pass one of: {', '.join(map(str, known))}."
        )
    visits = list(dict.fromkeys([*own["first_visit"], *own["visit"]]))
    ax = style.make_axes(ax, size=(6.0, 4.0))
    sdc = float(own["sdc"].iloc[0])
    ax.axhspan(-sdc, sdc, color=style.FAINT, alpha=0.5, lw=0, zorder=0)
    for end in (sdc, -sdc):
        label = f"± smallest detectable change ({sdc:.3g})" if end > 0 else None
        ax.axhline(end, color=style.SHARED, linestyle="--", linewidth=1, label=label)
    beyond = own.groupby("person", sort=False)["beyond"].any()
    counts = {True: int(beyond.sum()), False: int((~beyond).sum())}
    kinds = {False: (style.OBSERVED, "-", "o", "within"), True: (*style.look(1), "beyond it")}
    for person, rows in own.groupby("person", sort=False):
        changed = bool(beyond[person])
        tint, line, marker, name = kinds[changed]
        x = [visits.index(rows["first_visit"].iloc[0]), *map(visits.index, rows["visit"])]
        label = f"{name} (n = {counts[changed]})" if counts.get(changed) else None
        counts[changed] = 0
        look: Any = {"color": tint, "linestyle": line, "marker": marker, "markersize": 4}
        ax.plot(x, [0.0, *rows["change"]], linewidth=1, zorder=2 + changed, label=label, **look)
    largest = own[own["beyond"]]
    largest = (
        largest.assign(size=largest["change"].abs())
        .sort_values("size", ascending=False)
        .drop_duplicates("person")
    )
    looks: Any = {"textcoords": "offset points", "fontsize": "small", "va": "center"}
    for person, visit, change in largest[["person", "visit", "change"]].to_numpy()[:n_named]:
        ax.annotate(str(person), (visits.index(visit), change), (6, 0), **looks)
    ax.set_xticks(range(len(visits)), [str(visit) for visit in visits])
    ax.margins(x=0.1)
    label = style.with_units(f"change of {measure}", units)
    return style.finish(ax, "visit (changes since the first one)", label, 3)
