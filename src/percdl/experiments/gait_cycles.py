"""True gait cycles and atoms: tab:app:personalization and fig:app:gait_personalization.

An annotated interval starts when the heel rises; an atom's window starts some samples before.
The offset differs between walkers and, since annotators are human, between cycles. Each atom is
therefore placed where it fits best: on every cycle separately or, more strictly, on all cycles
of a walker with the same offset. The model's own onsets are not used.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from percdl.datasets.gait import GROUPS
from percdl.experiments import gait_fits
from percdl.experiments.fits import panels, unit
from percdl.experiments.gait_fits import IN_PLACE, TIME, load_walks, n_per_group
from percdl.experiments.study import Result, Study, lines
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


class Placed(NamedTuple):
    """An atom placed on a walker's cycles.

    ``distance`` is the mean Euclidean distance of atom and cycles at unit norm, ``offsets`` are
    the samples from the start of the atom to each annotated start.
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
    groups, model = load_walks(n_members).groups, gait_fits.fit_in_place("PerCDL", n_members)
    personal, population = gait_fits.personal_atoms(model), gait_fits.fit("PopCDL", n_members)
    means = {g: np.nanmean(personal[groups == g], axis=0) for g in GROUPS}
    return {
        PERSONAL: personal,
        COHORT: np.stack([means[group] for group in groups]),
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
    people, strict = (measure_distances(study, n_members, one) for one in (False, True))
    table, stricter = summarize(people), summarize(strict)
    found = [
        (
            f"{group}: {kind}",
            f"{value:.3f}",
            f"{table.loc[kind, group]:.3f} (one offset: {stricter.loc[kind, group]:.3f})",
        )
        for kind, values in PAPER.items()
        for group, value in zip(GROUPS, values, strict=True)
    ]
    nearest = ", ".join(f"{share:.0%} ({g})" for g, share in share_nearest(people).items())
    found.append(("participants whose own atom is the nearest", "-", nearest))
    return Result(
        lines(f"{3 * n_members} walks, {IN_PLACE}; {HOW}", found),
        {
            "tab_personalization": table.reset_index(),
            "tab_personalization_one_offset": stricter.reset_index(),
            "tab_personalization_participants": people,
        },
        {"tab_personalization": _draw_distances(people)},
        "Each atom is placed where it fits best; how the paper cut and scaled its cycles is not "
        "known. Participants without an atom or a whole cycle are excluded.",
    )


def measure_distances(study: Study, n_members: int, one_offset: bool = False) -> pd.DataFrame:
    """Return the mean distance of cycles to each kind of atom, for participants that have all."""
    rows = study.sweep(_distances, n_members=[n_members], one_offset=[one_offset], kind=[*PAPER])
    walks = load_walks(n_members)
    people = {"subject": walks.cohort.subjects, "group": walks.groups}
    return pd.DataFrame(people | dict(zip(rows["kind"], rows["distances"], strict=True))).dropna()


def _distances(n_members: int, one_offset: bool, kind: str) -> dict[str, list[float]]:
    return {"distances": [placed.distance for placed in place_all(n_members, kind, one_offset)]}


def summarize(people: pd.DataFrame) -> pd.DataFrame:
    """Return the mean distance of each kind of atom (rows) in each group (columns)."""
    means: Any = people.groupby("group")[list(PAPER)].mean()
    return means.T[list(GROUPS)].rename_axis(index="atom", columns=None)


def share_nearest(people: pd.DataFrame) -> dict[str, float]:
    """Return, by group, the share of participants whose own atom is the nearest."""
    nearest: Any = people[list(PAPER)].idxmin(axis=1) == PERSONAL
    return nearest.groupby(people["group"]).mean()[list(GROUPS)].to_dict()


def _draw_distances(people: pd.DataFrame) -> Figure:
    """Draw each participant's distances, their means, and the paper's values."""
    figure, axes = panels((9, 4), 1, len(GROUPS), sharey=True)
    rng = np.random.default_rng(0)  # scatters points sideways
    names = [kind.replace(" (", "\n(").replace("personalization", "\nperson.") for kind in PAPER]
    diamond: dict[str, Any] = {"color": SHARED, "ms": 5, "fillstyle": "none"}
    for index, (ax, group) in enumerate(zip(axes[0], GROUPS, strict=True)):
        part = people[people["group"] == group]
        for place, kind in enumerate(PAPER):
            x = place + rng.uniform(-0.15, 0.15, len(part))
            ax.plot(x, part[kind], ".", color=COLORS[place], ms=4, alpha=0.5)
            ax.hlines(part[kind].mean(), place - 0.3, place + 0.3, color=COLORS[place], lw=2.5)
            ax.plot(place, PAPER[kind][index], "D", **diamond)
        ax.set_title(group, fontsize="medium")
        ax.set_xticks(range(len(PAPER)), names, rotation=40, ha="right", fontsize="small")
    first = axes[0, 0]
    first.plot([], [], color="0.4", lw=2.5, label="mean of participants")
    first.plot([], [], ".", color="0.4", label="participant")
    first.plot([], [], "D", label="paper", **diamond)
    first.set_ylabel("distance to true cycles\n(all at unit norm)")
    first.set_ylim(bottom=0)
    figure.legend(loc="outside upper center", ncols=3, fontsize="small", frameon=False)
    return figure


def fig_gait_personalization(study: Study) -> Result:
    """fig:app:gait_personalization: one participant a group, their atom and all their cycles."""
    n_members = n_per_group(study)
    walks, atoms = load_walks(n_members), atoms_of(n_members)
    placed, shared = (place_all(n_members, kind) for kind in (PERSONAL, COHORT))
    figure, axes = panels((12, 3.8), 1, len(GROUPS), sharex=True, sharey=True)
    found, columns = [], {"time_s": TIME}
    for ax, group in zip(axes[0], GROUPS, strict=True):
        members = np.flatnonzero(walks.groups == group)
        order = np.argsort([placed[s].distance for s in members])
        s = int(members[order[len(order) // 2]])
        name, cycles = f"{group}, participant {walks.cohort.subjects[s]}", placed[s].cycles
        own, mean = unit(atoms[PERSONAL][s]), unit(atoms[COHORT][s])
        columns |= {f"{group}_atom": own, f"{group}_group_mean": mean}
        columns |= {f"{group}_cycle{i}": cycle for i, cycle in enumerate(cycles)}
        quantity = f"{name}: {len(cycles)} cycles to own atom, to group mean"
        distances = f"{placed[s].distance:.3f}, {shared[s].distance:.3f}"
        found.append((quantity, "own atom nearer (picture)", distances))
        ax.plot(TIME, cycles.T, color=FAINT, lw=0.6, zorder=0)[0].set_label("raw cycles")
        ax.plot(TIME, mean, color=SHARED, lw=2.2, label=f"mean of {group}")
        tint = gait_fits.GROUP_COLORS[group]
        ax.plot(TIME, own, color=tint, lw=2, label="personalized atom")
        ax.set_title(name, fontsize="medium")
        label(ax, gait_fits.WINDOW, gait_fits.VELOCITY)
        ax.label_outer()
        add_legend(ax)
    settings = f"{3 * n_members} walks, {IN_PLACE}; unit norms, each atom where it fits best"
    return Result(
        lines(settings, found),
        {"fig_gait_personalization": pd.DataFrame(columns)},
        {"fig_gait_personalization": figure},
        "In each group the participant whose cycles are at median distance from their own atom.",
    )
