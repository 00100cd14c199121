"""fig:app:gait_personalization: one participant a group, with their atom and all their cycles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from percdl.datasets.gait import GROUPS
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.gait_cycles import COHORT, PERSONAL, Placed, atoms_of, place_all
from percdl.experiments.studies.gait_fits import KEPT, LENGTH, SFREQ, load_walks, n_per_group, unit
from percdl.experiments.studies.gait_looks import GROUP_COLORS, VELOCITY, WINDOW
from percdl.plotting.style import FAINT, SHARED, add_legend, label, make_axes


@dataclass(frozen=True, eq=False)
class Example:
    """A participant: cycles where their own atom fits them, their atom, their group's mean.

    ``distance_to_group`` is that of the cycles to the group's mean, put where it fits best itself.
    """

    subject: str
    group: str
    own: Placed
    atom: np.ndarray
    group_mean: np.ndarray
    distance_to_group: float


def run(study: Study) -> Result:
    """Choose a participant of each group, and draw."""
    n_members = n_per_group(study)
    examples = measure(n_members)
    settings = f"{3 * n_members} walks, {KEPT}; unit norms, each atom where it fits best"
    return Result(
        lines=[
            Line(
                f"{e.group}, participant {e.subject}: cycles to own atom, to group mean",
                "own atom nearer (picture)",
                f"{e.own.distance:.3f}, {e.distance_to_group:.3f}",
                f"{len(e.own.cycles)} cycles; {settings}",
            )
            for e in examples
        ],
        tables={"fig_gait_personalization": tabulate(examples)},
        figures={"fig_gait_personalization": draw(examples)},
        reading=_read(examples),
    )


def measure(n_members: int) -> list[Example]:
    """Return the participant of each group whose own atom is at median distance, a usual one."""
    walks, atoms = load_walks(n_members), atoms_of(n_members)
    placed, shared = (place_all(n_members, kind) for kind in (PERSONAL, COHORT))
    examples = []
    for group in GROUPS:
        members = np.flatnonzero(walks.groups == group)
        order = np.argsort([placed[s].distance for s in members])
        s = int(members[order[len(order) // 2]])
        own, mean = unit(atoms[PERSONAL][s]), unit(atoms[COHORT][s])
        name, apart = walks.cohort.subjects[s], shared[s].distance
        examples.append(Example(name, group, placed[s], own, mean, apart))
    return examples


def tabulate(examples: list[Example]) -> pd.DataFrame:
    """Return the curves of the picture, one row per sample."""
    columns: dict[str, np.ndarray] = {"time_s": np.arange(LENGTH) / SFREQ}
    for e in examples:
        columns |= {f"{e.group}_atom": e.atom, f"{e.group}_group_mean": e.group_mean}
        columns |= {f"{e.group}_cycle{i}": cycle for i, cycle in enumerate(e.own.cycles)}
    return pd.DataFrame(columns)


def _read(examples: list[Example]) -> str:
    nearer = [e.group for e in examples if e.own.distance < e.distance_to_group]
    return (
        "In each group the participant whose cycles are at median distance from their own atom. "
        f"The own atom is nearer to the cycles than the mean of the group in {len(nearer)} of "
        f"{len(examples)} groups{': ' + ', '.join(nearer) if nearer else ''}."
    )


def draw(examples: list[Example]) -> Figure:
    """Draw one panel per participant."""
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    axes = figure.subplots(1, len(examples), sharex=True, sharey=True)
    for ax, example in zip(axes, examples, strict=True):
        _draw_one(make_axes(ax), example)
    label(axes[0], WINDOW, VELOCITY)
    return figure


def _draw_one(ax: Axes, example: Example) -> None:
    time = np.arange(LENGTH) / SFREQ
    lines = ax.plot(time, example.own.cycles.T, color=FAINT, lw=0.6, zorder=0)
    lines[0].set_label(f"{len(example.own.cycles)} raw cycles")
    ax.plot(time, example.group_mean, color=SHARED, lw=2.2, label=f"mean of {example.group}")
    tint = GROUP_COLORS[example.group]
    ax.plot(time, example.atom, color=tint, lw=2, label="personalized atom")
    ax.set_title(f"{example.group}, participant {example.subject}", fontsize="medium")
    label(ax, WINDOW, "")
    add_legend(ax)
