"""True gait cycles and atoms: tab:app:personalization and fig:app:gait_personalization.

An annotated interval starts when the heel rises; an atom's window starts some samples before.
The offset differs between walkers and, since annotators are human, between cycles. Each atom is
therefore placed where it fits best: on every cycle separately or, more strictly, on all cycles
of a walker with the same offset. The model's own onsets are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from percdl.datasets.gait import GROUPS
from percdl.experiments.fits import panels, unit
from percdl.experiments.gait_fits import (
    GROUP_COLORS,
    IN_PLACE,
    TIME,
    VELOCITY,
    WINDOW,
    fit,
    fit_in_place,
    load_walks,
    n_per_group,
    personal_atoms,
)
from percdl.experiments.study import Line, Result, Study
from percdl.plotting.style import COLORS, FAINT, SHARED, add_legend, label

# Tried numbers of samples between the start of an atom's window and the annotated start.
OFFSETS = range(-10, 51)
PERSONAL, COHORT, COMMON, POPULATION = (
    "personalized atom", "cohort personalization mean", "common atom (PerCDL)",
    "common atom (PopCDL)",
)  # fmt: skip
PAPER = {
    PERSONAL: (0.160, 0.143, 0.184),
    COHORT: (0.305, 0.274, 0.302),
    COMMON: (0.299, 0.350, 0.330),
    POPULATION: (0.192, 0.481, 0.554),
}
HOW = (
    "mean over cycles, then over participants; cycles and atoms at unit norm; each atom put where "
    f"it fits a cycle best, {OFFSETS[0]} to {OFFSETS[-1]} samples before the annotated start (or "
    "with one offset for all cycles of a participant)"
)
BY_CYCLE, BY_PERSON = "cycle", "participant"


@dataclass(frozen=True, eq=False)
class Placed:
    """An atom placed on a walker's cycles.

    ``distance`` is the mean Euclidean distance of atom and cycles at unit norm, ``offsets`` (n,)
    the samples from the start of the atom to each annotated start, ``cycles`` (n, L).
    """

    distance: float
    offsets: Int[np.ndarray, " n"]
    cycles: Float[np.ndarray, "n L"]


def place_atom(
    atom: Float[np.ndarray, " L"],
    walk: Float[np.ndarray, " N"],
    starts: Int[np.ndarray, " n"],
    one_offset: bool = False,
) -> Placed:
    """Place an atom where it is nearest to a walker's cycles.

    ``one_offset`` takes the same offset for all cycles, the one of least mean distance. A cycle
    whose window leaves the recording at some offset is not used.
    """
    tried = np.array(OFFSETS)
    inside = (starts >= tried[-1]) & (starts - tried[0] + len(atom) <= len(walk))
    onsets = starts[inside] - tried[:, None]
    cycles = unit(walk[np.add.outer(onsets, np.arange(len(atom)))])  # (T, n, L)
    distances = np.linalg.norm(cycles - unit(atom), axis=2)
    best = distances.argmin(axis=0)
    if one_offset:
        best = np.full_like(best, distances.mean(axis=1).argmin())
    each = np.arange(inside.sum())
    return Placed(float(distances[best, each].mean()), tried[best], cycles[best, each])


def atoms_of(n_members: int) -> dict[str, Float[np.ndarray, "S L"]]:
    """Return the four kinds of atoms that are compared, one row per walker."""
    walks, model = load_walks(n_members), fit_in_place("PerCDL", n_members)
    personal, population = personal_atoms(model), fit("PopCDL", n_members)
    means = {g: np.nanmean(personal[walks.groups == g], axis=0) for g in set(walks.groups)}
    return {
        PERSONAL: personal,
        COHORT: np.stack([means[group] for group in walks.groups]),
        COMMON: np.broadcast_to(model.dictionary_[0, :, 0], personal.shape),
        POPULATION: np.broadcast_to(population.dictionary_[0, :, 0], personal.shape),
    }


def place_all(n_members: int, kind: str, one_offset: bool = False) -> list[Placed]:
    """Place an atom of this kind on the cycles of every walker, in the order of the cohort."""
    walks = load_walks(n_members)
    return [
        place_atom(atom, record.values[:, 0], walks.swings[str(record.subject)][:, 0], one_offset)
        for atom, record in zip(atoms_of(n_members)[kind], walks.cohort, strict=True)
    ]


def tab_personalization(study: Study) -> Result:
    """tab:app:personalization: distance of true gait cycles to personal and common atoms."""
    n_members = n_per_group(study)
    people, strict = (
        measure_distances(study, n_members, offset) for offset in (BY_CYCLE, BY_PERSON)
    )
    table, stricter = summarize(people), summarize(strict)
    settings = f"{3 * n_members} walks, {IN_PLACE}; {HOW}"
    nearest = ", ".join(f"{share:.0%} ({g})" for g, share in share_nearest(people).items())
    return Result(
        lines=[
            *(
                Line(
                    f"{group}: {kind}",
                    f"{value:.3f}",
                    f"{table.loc[kind, group]:.3f} (one offset: {stricter.loc[kind, group]:.3f})",
                    settings,
                )
                for kind, values in PAPER.items()
                for group, value in zip(GROUPS, values, strict=True)
            ),
            Line("participants whose own atom is the nearest", "-", nearest, settings),
        ],
        tables={
            "tab_personalization": table.reset_index(),
            "tab_personalization_one_offset": stricter.reset_index(),
            "tab_personalization_participants": people,
        },
        figures={"tab_personalization": _draw_distances(keep_complete(people))},
        reading="Each atom is placed where it fits best; how the paper cut and scaled its cycles "
        "is not known. Participants without an atom or a whole cycle are excluded from all means.",
    )


def measure_distances(study: Study, n_members: int, offset: str = BY_CYCLE) -> pd.DataFrame:
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
    """Return the participants with all distances, so that all means cover the same people."""
    return people.dropna(subset=list(PAPER))


def summarize(people: pd.DataFrame) -> pd.DataFrame:
    """Return the mean distance of each kind of atom (rows) in each group (columns)."""
    complete = keep_complete(people)
    means = {g: complete.loc[complete["group"] == g, list(PAPER)].mean() for g in GROUPS}
    return pd.DataFrame(means).rename_axis("atom")


def share_nearest(people: pd.DataFrame) -> dict[str, float]:
    """Return, by group, the share of participants whose own atom is the nearest."""
    complete = keep_complete(people)
    nearest = complete[list(PAPER)].to_numpy().argmin(axis=1) == list(PAPER).index(PERSONAL)
    return {g: float(nearest[complete["group"] == g].mean()) for g in GROUPS}


def _draw_distances(people: pd.DataFrame) -> Figure:
    """Draw each participant's distances, their means, and the paper's values."""
    figure, axes = panels((9, 4), 1, len(GROUPS), sharey=True)
    rng = np.random.default_rng(0)  # scatters points sideways
    names = [kind.replace(" (", "\n(").replace("personalization", "\nperson.") for kind in PAPER]
    for index, (ax, group) in enumerate(zip(axes[0], GROUPS, strict=True)):
        part = people[people["group"] == group]
        for place, kind in enumerate(PAPER):
            x = place + rng.uniform(-0.15, 0.15, len(part))
            ax.plot(x, part[kind], ".", color=COLORS[place], ms=4, alpha=0.5)
            mean = part[kind].mean()
            ax.plot([place - 0.3, place + 0.3], [mean] * 2, color=COLORS[place], lw=2.5)
            ax.plot(place, PAPER[kind][index], "D", color=SHARED, ms=5, fillstyle="none")
        ax.set_title(group, fontsize="medium")
        ax.set_xticks(range(len(PAPER)), names, rotation=40, ha="right", fontsize="small")
    first = axes[0, 0]
    first.plot([], [], color="0.4", lw=2.5, label="mean of participants")
    first.plot([], [], ".", color="0.4", label="participant")
    first.plot([], [], "D", color=SHARED, ms=5, fillstyle="none", label="paper")
    first.set_ylabel("distance to true cycles\n(all at unit norm)")
    first.set_ylim(bottom=0)
    figure.legend(loc="outside upper center", ncols=3, fontsize="small", frameon=False)
    return figure


@dataclass(frozen=True, eq=False)
class Example:
    """A participant: cycles where their own atom fits them, their atom, their group's mean.

    ``distance_to_group`` is that of the cycles to the group's mean, placed where it fits best.
    """

    subject: str
    group: str
    own: Placed
    atom: np.ndarray
    group_mean: np.ndarray
    distance_to_group: float


def fig_gait_personalization(study: Study) -> Result:
    """fig:app:gait_personalization: one participant a group, their atom and all their cycles."""
    n_members = n_per_group(study)
    examples = choose_examples(n_members)
    columns: dict[str, np.ndarray] = {"time_s": TIME}
    for e in examples:
        columns |= {f"{e.group}_atom": e.atom, f"{e.group}_group_mean": e.group_mean}
        columns |= {f"{e.group}_cycle{i}": cycle for i, cycle in enumerate(e.own.cycles)}
    return Result(
        lines=[
            Line(
                f"{e.group}, participant {e.subject}: cycles to own atom, to group mean",
                "own atom nearer (picture)",
                f"{e.own.distance:.3f}, {e.distance_to_group:.3f}",
                f"{len(e.own.cycles)} cycles; {3 * n_members} walks, {IN_PLACE}; unit norms, each "
                "atom where it fits best",
            )
            for e in examples
        ],
        tables={"fig_gait_personalization": pd.DataFrame(columns)},
        figures={"fig_gait_personalization": _draw_examples(examples)},
        reading="In each group the participant whose cycles are at median distance from their own "
        "atom.",
    )


def choose_examples(n_members: int) -> list[Example]:
    """Return the participant of each group whose own atom is at median distance."""
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


def _draw_examples(examples: list[Example]) -> Figure:
    figure, axes = panels((12, 3.8), 1, len(examples), sharex=True, sharey=True)
    for ax, e in zip(axes[0], examples, strict=True):
        lines = ax.plot(TIME, e.own.cycles.T, color=FAINT, lw=0.6, zorder=0)
        lines[0].set_label(f"{len(e.own.cycles)} raw cycles")
        ax.plot(TIME, e.group_mean, color=SHARED, lw=2.2, label=f"mean of {e.group}")
        ax.plot(TIME, e.atom, color=GROUP_COLORS[e.group], lw=2, label="personalized atom")
        ax.set_title(f"{e.group}, participant {e.subject}", fontsize="medium")
        label(ax, WINDOW, "")
        add_legend(ax)
    axes[0, 0].set_ylabel(VELOCITY)
    return figure
