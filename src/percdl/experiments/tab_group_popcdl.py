"""tab:app:group_popcdl: how far apart the atoms are that PopCDL finds in each group alone."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from percdl.datasets import atom_distance
from percdl.datasets.gait import GROUPS
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.gait_fits import KEPT, SFREQ, fit_in_place, n_per_group
from percdl.experiments.studies.gait_looks import GROUP_COLORS, VELOCITY
from percdl.plotting.style import add_legend, label, make_axes, time_axis

PAIRS = tuple(combinations(GROUPS, 2))
PAPER = dict(zip(PAIRS, (0.0531, 0.0542, 0.0367), strict=True))


def run(study: Study) -> Result:
    """Measure the three distances; draw the three atoms."""
    n_members = n_per_group(study)
    numbers = measure(study, n_members)
    settings = f"{n_members} walks a group, {KEPT}; unit-norm atoms, DTW without window"
    found = dict(zip(PAIRS, numbers["dtw"], strict=True))
    return Result(
        lines=[
            Line(f"{a} - {b}", f"{PAPER[a, b]}", f"{found[a, b]:.4f}", settings) for a, b in PAIRS
        ],
        tables={"tab_group_popcdl": numbers, "tab_group_popcdl_atoms": atoms(n_members)},
        figures={"tab_group_popcdl": draw(atoms(n_members))},
        reading=_read(numbers),
    )


def measure(study: Study, n_members: int) -> pd.DataFrame:
    """Return the distances between the groups' atoms, Euclidean and under time warping."""
    rows = [
        study.ledger.row(
            {"n_members": n_members, "a": a, "b": b}, lambda p=(a, b): _pair(n_members, *p)
        )
        for a, b in PAIRS
    ]
    return pd.DataFrame(rows).drop(columns="n_members")


def _pair(n_members: int, a: str, b: str) -> dict[str, float]:
    one, other = (fit_in_place("PopCDL", n_members, group).dictionary_ for group in (a, b))
    return {metric: atom_distance(one, other, metric) for metric in ("dtw", "euclidean")}


def atoms(n_members: int) -> pd.DataFrame:
    """Return the atoms, a column per group."""
    return pd.DataFrame(
        {g: fit_in_place("PopCDL", n_members, g).dictionary_[0, :, 0] for g in GROUPS}
    )


def _read(numbers: pd.DataFrame) -> str:
    names = [f"{a} - {b}" for a, b in PAIRS]
    ours = [names[i] for i in np.argsort(numbers["dtw"])]
    paper = [names[i] for i in np.argsort(list(PAPER.values()))]
    agreement = "the same order as" if ours == paper else "not the order of"
    scale = numbers["dtw"].sum() / sum(PAPER.values())
    return (
        f"From nearest to farthest: {', '.join(ours)}; {agreement} the paper "
        f"({', '.join(paper)}). Our distances are {scale:.1f} times the paper's, which does not "
        f"say how its atoms were scaled. They are {numbers['dtw'].min():.3f} to "
        f"{numbers['dtw'].max():.3f}; silence would be 1 away from each atom."
    )


def draw(curves: pd.DataFrame) -> Figure:
    """Draw the three atoms."""
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    ax = make_axes(figure.add_subplot())
    time, unit = time_axis(len(curves), SFREQ)
    for group in GROUPS:
        ax.plot(time, curves[group], color=GROUP_COLORS[group], lw=2, label=f"{group} alone")
    label(ax, f"time in the window of the atom ({unit})", VELOCITY)
    add_legend(ax)
    return figure
