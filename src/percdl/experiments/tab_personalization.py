"""tab:app:personalization: distance of true gait cycles to personal and common atoms."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from percdl.datasets.gait import GROUPS
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.gait_cycles import (
    COHORT,
    COMMON,
    OFFSETS,
    PERSONAL,
    POPULATION,
    place_all,
)
from percdl.experiments.studies.gait_fits import KEPT, load_walks, n_per_group
from percdl.plotting.style import COLORS, SHARED, label, make_axes

PAPER = {
    PERSONAL: (0.160, 0.143, 0.184),
    COHORT: (0.305, 0.274, 0.302),
    COMMON: (0.299, 0.350, 0.330),
    POPULATION: (0.192, 0.481, 0.554),
}
HOW = (
    "mean over cycles, then over participants; cycles and atoms at unit norm; each atom put where "
    f"it fits a cycle best, {OFFSETS[0]} to {OFFSETS[-1]} samples before the annotated start"
)
# Onto every cycle on its own, or with one offset for all cycles of a participant.
BY_CYCLE, BY_PERSON = "cycle", "participant"


def run(study: Study) -> Result:
    """Measure the twelve distances and draw them beside the paper's."""
    n_members = n_per_group(study)
    people, strict = (measure(study, n_members, offset) for offset in (BY_CYCLE, BY_PERSON))
    table, stricter = summarize(people), summarize(strict)
    settings = f"{3 * n_members} walks, {KEPT}; {HOW}"
    return Result(
        lines=[
            Line(
                f"{group}: {kind}",
                f"{value:.3f}",
                f"{table.loc[kind, group]:.3f} (one offset: {stricter.loc[kind, group]:.3f})",
                f"{settings} (or with one offset for all cycles of a participant)",
            )
            for kind, values in PAPER.items()
            for group, value in zip(GROUPS, values, strict=True)
        ],
        tables={
            "tab_personalization": table.reset_index(),
            "tab_personalization_one_offset": stricter.reset_index(),
            "tab_personalization_participants": people,
        },
        figures={"tab_personalization": draw(keep_complete(people))},
        reading=_read(people, table, stricter),
    )


def measure(study: Study, n_members: int, offset: str = BY_CYCLE) -> pd.DataFrame:
    """Return the mean distance of each participant's cycles to each kind of atom."""
    walks = load_walks(n_members)
    key = {"n_members": n_members, "offset": offset}
    rows = study.ledger.row(key, lambda: _distances(n_members, offset == BY_PERSON))
    columns = {kind: rows[kind] for kind in PAPER}
    return pd.DataFrame({"subject": walks.cohort.subjects, "group": walks.groups, **columns})


def _distances(n_members: int, one_offset: bool) -> dict[str, list[float]]:
    return {
        kind: [placed.distance for placed in place_all(n_members, kind, one_offset)]
        for kind in PAPER
    }


def keep_complete(people: pd.DataFrame) -> pd.DataFrame:
    """Return the participants who have all distances: each mean then covers the same people."""
    return people.dropna(subset=list(PAPER))


def summarize(people: pd.DataFrame) -> pd.DataFrame:
    """Return the mean distance of each kind of atom (rows) in each group (columns)."""
    complete = keep_complete(people)
    means = {g: complete.loc[complete["group"] == g, list(PAPER)].mean() for g in GROUPS}
    return pd.DataFrame(means).rename_axis("atom")


def share_nearest(people: pd.DataFrame) -> dict[str, float]:
    """Return, by group, the share of participants to whom their own atom is the nearest."""
    complete = keep_complete(people)
    nearest = complete[list(PAPER)].to_numpy().argmin(axis=1) == list(PAPER).index(PERSONAL)
    return {g: float(nearest[complete["group"] == g].mean()) for g in GROUPS}


def _read(people: pd.DataFrame, table: pd.DataFrame, stricter: pd.DataFrame) -> str:
    won, too = (sum(t[group].idxmin() == PERSONAL for group in GROUPS) for t in (table, stricter))
    shares = share_nearest(people)
    second = {group: table[group].drop(PERSONAL).idxmin() for group in GROUPS}
    gains = [1 - table.loc[PERSONAL, g] / table.loc[second[g], g] for g in GROUPS]
    paper = pd.DataFrame(PAPER, index=list(GROUPS)).T
    own = ", ".join(f"{shares[g]:.0%} ({g})" for g in GROUPS)
    return (
        f"The personalized atom is the nearest on average in {won} of {len(GROUPS)} groups "
        f"(paper: 3 of 3; with one offset a participant: {too}), and for {own} of the "
        f"participants; it is {min(gains):.0%} to {max(gains):.0%} nearer than the next best. "
        f"The other atoms are {_others(table):.2f} times as far on average, in the paper "
        f"{_others(paper):.2f} times; here each of them too is put where it fits best, and how "
        f"the paper cut and scaled its cycles is not known.{_dropped(people)}"
    )


def _dropped(people: pd.DataFrame) -> str:
    """Say how many participants have no distances, where there are any."""
    n_dropped = len(people) - len(keep_complete(people))
    if not n_dropped:
        return ""
    return (
        f" {n_dropped} of {len(people)} participants, without an atom or a whole cycle, are left "
        "out of all means."
    )


def _others(table: pd.DataFrame) -> float:
    """Return how much farther the other atoms are than the personalized one, on average."""
    return float((table.drop(index=PERSONAL) / table.loc[PERSONAL]).to_numpy().mean())


def draw(people: pd.DataFrame) -> Figure:
    """Draw each participant's distances, their means, and the paper's values."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots(1, len(GROUPS), sharey=True)
    rng = np.random.default_rng(0)  # scatters points sideways
    for index, group in enumerate(GROUPS):
        ax, part = make_axes(axes[index]), people[people["group"] == group]
        for place, kind in enumerate(PAPER):
            x = place + rng.uniform(-0.15, 0.15, len(part))
            ax.plot(x, part[kind], ".", color=COLORS[place], ms=4, alpha=0.5)
            mean = part[kind].mean()
            ax.plot([place - 0.3, place + 0.3], [mean] * 2, color=COLORS[place], lw=2.5)
            ax.plot(place, PAPER[kind][index], "D", color=SHARED, ms=5, fillstyle="none")
        ax.set_title(group, fontsize="medium")
        names = [
            kind.replace(" (", "\n(").replace("personalization", "\nperson.") for kind in PAPER
        ]
        ax.set_xticks(range(len(PAPER)), names, rotation=40, ha="right", fontsize="small")
    label(axes[0], "", "distance to true cycles\n(all at unit norm)")
    axes[0].plot([], [], color="0.4", lw=2.5, label="mean of participants")
    axes[0].plot([], [], ".", color="0.4", label="participant")
    axes[0].plot([], [], "D", color=SHARED, ms=5, fillstyle="none", label="paper")
    axes[0].set_ylim(bottom=0)
    figure.legend(loc="outside upper center", ncols=3, fontsize="small", frameon=False)
    return figure
