"""The walks of the paper's gait study and the models fitted on them.

gait:errors, tab:app:personalization and fig:app:gait_personalization.

The recordings may hold more trials than the paper's 150: the study takes the first trial of each
participant, and the first participants of each group in the order of their codes. The signal is
the angular velocity of the right foot in the sagittal plane, z-scored per trial. No fit uses the
annotation, except those that start from a healthy participant's cycle, as the paper's do.

An atom's window starts some samples before the annotated interval. The offset differs between
walkers and cycles, so atoms are compared with cycles where they fit best (`HOW`).
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from percdl.algorithm.settings import Algorithm
from percdl.datasets import load_gait
from percdl.datasets.gait import GROUPS
from percdl.estimators import IndCDL, PerCDL, PopCDL
from percdl.estimators.base import BaseCDL
from percdl.exceptions import DatasetError
from percdl.experiments.fits import errors_of_fits, panels, unit
from percdl.experiments.study import Line, Result, Study, as_printed, find, lines
from percdl.plotting.style import COLORS, FAINT, SHARED, add_legend, label
from percdl.signals import Cohort
from percdl.transforms import TimeWarp

LENGTH, PENALTY, SFREQ = 100, 0.01, 100
HEALTHY = GROUPS[0]
# 15 rounds for every model. The warps of walkers bend far: they converge with ten iterations a
# round instead of three.
ALGORITHM = Algorithm(population_rounds=5, personal_rounds=10)
MODELS: dict[str, tuple[type[BaseCDL], dict[str, Any]]] = {
    "IndCDL": (IndCDL, {}),
    "PopCDL": (PopCDL, {}),
    "PerCDL": (PerCDL, {"transformation": TimeWarp(4, 15), "algorithm__solver_steps": 10}),
}
SETTINGS = (
    f"K = 1, L = {LENGTH}, D = 4, W = 15, lambda = {PENALTY}, z-scored, "
    f"rounds {ALGORITHM.population_rounds} + {ALGORITHM.personal_rounds}"
)
IN_PLACE = f"{SETTINGS}; all from PopCDL's atom, windows kept"
# Looks that the pictures of walkers share.
GROUP_COLORS: dict[str, str] = dict(zip(GROUPS, (COLORS[0], COLORS[4], COLORS[2]), strict=True))
VELOCITY = "angular velocity (unit norm)"
WINDOW = "time in the window of the atom (s)"
TIME = np.arange(LENGTH) / SFREQ
# First dictionaries and algorithms of gait:errors.
FROM_DATA, FROM_CYCLE = "chosen from the data", "cycle of a healthy participant"
FROM_POPULATION = "PopCDL's atom"
DEFAULT, PRINTED, KEPT = "default", "as printed", "windows kept"
CASES = [
    *((start, kind) for start in (FROM_DATA, FROM_CYCLE) for kind in (DEFAULT, PRINTED)),
    (FROM_POPULATION, KEPT),
]
BEST = "best free atoms"
PAPER_ERRORS = find("gait:errors").paper
# Kinds of atoms that are compared with cycles, and the paper's distances by group.
PERSONAL, COHORT, COMMON, POPULATION = (
    "personalized atom", "cohort personalization mean", "common atom (PerCDL)",
    "common atom (PopCDL)",
)  # fmt: skip
PAPER_DISTANCES = find("tab:app:personalization").paper
# Tried numbers of samples between the start of an atom's window and the annotated start.
OFFSETS = range(-10, 51)
HOW = (
    "mean over cycles, then over participants; cycles and atoms at unit norm; each atom put where "
    f"it fits a cycle best, {OFFSETS[0]} to {OFFSETS[-1]} samples before the annotated start (or "
    "with one offset for all cycles of a participant)"
)


@dataclass(frozen=True, eq=False)
class Walks:
    """Z-scored walks, and the annotated swings (first and last sample) of the right foot."""

    cohort: Cohort
    swings: dict[str, Int[np.ndarray, "n 2"]]

    @property
    def groups(self) -> np.ndarray:
        """Group of each walk."""
        return np.array(self.cohort.groups)


def n_per_group(study: Study) -> int:
    """Return the number of participants of each group."""
    return study.pick(10, 50)


@cache
def load_walks(n_members: int) -> Walks:
    """Load one trial of each of the first participants of every group."""
    data = load_gait()
    people = data.metadata.drop_duplicates("Subject").groupby("PathologyGroup", sort=False)
    chosen = people.head(n_members)
    counts = chosen["PathologyGroup"].value_counts().reindex(list(GROUPS), fill_value=0)
    if counts.min() < n_members:
        raise DatasetError(
            f"The gait recordings hold {counts.min()} participants of group {counts.idxmin()}; "
            f"{n_members} are needed. Set PERCDL_DATA to the folder of the whole dataset."
        )
    codes = [str(code) for code in chosen.index]
    cohort = data.cohort.select(codes).zscore()
    return Walks(cohort, {code: data.swings[code]["right"] for code in codes})


@cache
def fit(name: str, n_members: int, start: str = FROM_DATA, plain: bool = False) -> BaseCDL:
    """Fit one of `MODELS` on all walks; ``plain`` is the paper's algorithm as printed."""
    init, printed = first_dictionary(n_members, start), as_printed() if plain else {}
    if MODELS[name][0] is not PerCDL:  # without warps there is no prior
        printed.pop("transformation__prior", None)
    return build(name, init, **printed).fit(load_walks(n_members).cohort)


@cache
def fit_in_place(name: str, n_members: int, group: str | None = None) -> BaseCDL:
    """Fit one of `MODELS` from PopCDL's atom, keeping its windows.

    Comparisons of atoms sample by sample need this: the search for onsets may move each person's
    window a little, for reasons unrelated to their walk. ``group`` selects one group.
    """
    cohort, init = load_walks(n_members).cohort, fit("PopCDL", n_members).dictionary_
    chosen = cohort if group is None else cohort.select(group=group)
    return build(name, init, algorithm__realign=False).fit(chosen)


def build(name: str, init: Any, **changes: Any) -> BaseCDL:
    """Return one of `MODELS`, not fitted."""
    kind, options = MODELS[name]
    common = {"penalty": PENALTY, "algorithm": ALGORITHM, "random_state": 0, "progress": False}
    return kind(1, LENGTH, init=init, **common).set_params(**options).set_params(**changes)


@cache
def first_dictionary(n_members: int, start: str) -> Float[np.ndarray, "1 L 1"]:
    """Return the dictionary chosen from the data, or a cycle of the first healthy walk."""
    walks = load_walks(n_members)
    if start == FROM_DATA:
        no_rounds = Algorithm(population_rounds=0, personal_rounds=0)
        return build("PopCDL", "auto", algorithm=no_rounds).fit(walks.cohort).dictionary_
    healthy = walks.cohort.select(group=HEALTHY)[0]
    onsets = walks.swings[str(healthy.subject)][:, 0]
    onset = onsets[len(onsets) // 2]
    return healthy.values[None, onset : onset + LENGTH]


def personal_atoms(model: BaseCDL) -> Float[np.ndarray, "S L"]:
    """Return the personal atoms at unit norm; NaN for a person without activations."""
    return unit(model.personal_dictionary_[:, 0, :, 0])


def gait_errors(study: Study) -> Result:
    """gait:errors: reconstruction errors of the three models and of IndCDL's barycenter."""
    n_members = n_per_group(study)
    numbers = measure_errors(study, n_members)
    settings = f"{3 * n_members} walks, {SETTINGS}"
    ratios = numbers["PerCDL"] / numbers["IndCDL"]

    def values(of: Any, digits: int) -> str:
        default, printed = (of[FROM_DATA, kind] for kind in (DEFAULT, PRINTED))
        kept = of[FROM_POPULATION, KEPT]
        return f"{default:.{digits}f} ({PRINTED} {printed:.{digits}f}, {KEPT} {kept:.{digits}f})"

    found = [(name, f"{paper}", values(numbers[name], 4)) for name, paper in PAPER_ERRORS.items()]
    quantity = "PerCDL / IndCDL, same first atom"
    said = f"{PAPER_ERRORS['PerCDL'] / PAPER_ERRORS['IndCDL']:.3f}"
    found.append((quantity, said, values(ratios, 3)))
    best = (numbers["PerCDL"] / numbers[BEST])[FROM_DATA, DEFAULT]
    found.append(("PerCDL / best free atoms at its onsets", "-", f"{best:.3f}"))
    default, printed = (ratios[FROM_CYCLE, kind] for kind in (DEFAULT, PRINTED))
    copied = f"{settings}; first atom the {FROM_CYCLE}, as the paper's"
    last = Line(quantity, said, f"{default:.3f} ({PRINTED} {printed:.3f})", copied)
    ours = lines(f"{settings}; first atom {FROM_DATA}, no annotation used", found)
    return Result([*ours, last], {"": numbers.reset_index()})


def measure_errors(study: Study, n_members: int) -> pd.DataFrame:
    """Return the errors, one row per first dictionary and algorithm, one column per model."""
    rows = study.sweep(_errors, n_members=[n_members], case=CASES)
    return rows.drop(columns=["n_members", "case"]).set_index(["start", "algorithm"])


def _errors(n_members: int, case: tuple[str, str]) -> dict[str, Any]:
    start, kind = case
    cohort, plain = load_walks(n_members).cohort, kind == PRINTED
    if kind == KEPT:
        models = {name: fit_in_place(name, n_members) for name in MODELS}
    else:
        models = {name: fit(name, n_members, start, plain) for name in MODELS}
    # The best atom of a person is the first right singular vector of the person's segments.
    explained = 0.0
    for subject, onsets in models["PerCDL"].events_.groupby("subject")["onset_sample"]:
        samples = np.add.outer(onsets.to_numpy(), np.arange(LENGTH))
        explained += np.linalg.norm(cohort[str(subject)].values[samples, 0], ord=2) ** 2
    best = 1 - explained / sum(np.sum(r.values**2) for r in cohort)
    return {"start": start, "algorithm": kind, **errors_of_fits(models, cohort), BEST: best}


class Placed(NamedTuple):
    """An atom on a walker's cycles: mean distance at unit norm, offsets in samples, cycles."""

    distance: float
    offsets: Int[np.ndarray, " n"]
    cycles: Float[np.ndarray, "n L"]


def place_atom(
    atom: np.ndarray, walk: np.ndarray, starts: np.ndarray, one_offset: bool = False
) -> Placed:
    """Place an atom where it is nearest to the cycles that stay inside at every offset."""
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


def _atoms_of(n_members: int) -> dict[str, Float[np.ndarray, "S L"]]:
    """Return the four kinds of atoms that are compared, one row per walker."""
    groups, model = load_walks(n_members).groups, fit_in_place("PerCDL", n_members)
    personal, population = personal_atoms(model), fit("PopCDL", n_members)
    means = {g: np.nanmean(personal[groups == g], axis=0) for g in GROUPS}
    return {
        PERSONAL: personal,
        COHORT: np.stack([means[group] for group in groups]),
        COMMON: np.broadcast_to(model.dictionary_[0, :, 0], personal.shape),
        POPULATION: np.broadcast_to(population.dictionary_[0, :, 0], personal.shape),
    }


def _place_all(n_members: int, kind: str, one_offset: bool = False) -> list[Placed]:
    """Place an atom of this kind on the cycles of every walker, in the order of the cohort."""
    walks = load_walks(n_members)
    return [
        place_atom(atom, record.values[:, 0], walks.swings[str(record.subject)][:, 0], one_offset)
        for atom, record in zip(_atoms_of(n_members)[kind], walks.cohort, strict=True)
    ]


def tab_personalization(study: Study) -> Result:
    """tab:app:personalization: distance of true gait cycles to personal and common atoms."""
    n_members = n_per_group(study)
    people, strict = (measure_distances(n_members, one) for one in (False, True))
    table, stricter = summarize(people), summarize(strict)
    found = []
    for kind, values in PAPER_DISTANCES.items():
        for group, value in zip(GROUPS, values, strict=True):
            ours = f"{table.loc[kind, group]:.3f} (one offset: {stricter.loc[kind, group]:.3f})"
            found.append((f"{group}: {kind}", f"{value:.3f}", ours))
    nearest = ", ".join(f"{share:.0%} ({g})" for g, share in share_nearest(people).items())
    found.append(("participants with their own atom nearest", "-", nearest))
    tables = {"": table.reset_index(), "_one_offset": stricter.reset_index()}
    tables["_participants"] = people
    return Result(lines(f"{3 * n_members} walks, {IN_PLACE}; {HOW}", found), tables)


def measure_distances(n_members: int, one_offset: bool = False) -> pd.DataFrame:
    """Return the mean distance of cycles to each kind of atom, for participants that have all."""
    walks = load_walks(n_members)
    people: dict[str, Any] = {"subject": walks.cohort.subjects, "group": walks.groups}
    for kind in PAPER_DISTANCES:
        people[kind] = [one.distance for one in _place_all(n_members, kind, one_offset)]
    return pd.DataFrame(people).dropna()


def summarize(people: pd.DataFrame) -> pd.DataFrame:
    """Return the mean distance of each kind of atom (rows) in each group (columns)."""
    means: Any = people.groupby("group")[list(PAPER_DISTANCES)].mean()
    return means.T[list(GROUPS)].rename_axis(index="atom", columns=None)


def share_nearest(people: pd.DataFrame) -> dict[str, float]:
    """Return, by group, the share of participants with their own atom nearest."""
    nearest: Any = people[list(PAPER_DISTANCES)].idxmin(axis=1) == PERSONAL
    return nearest.groupby(people["group"]).mean()[list(GROUPS)].to_dict()


def fig_gait_personalization(study: Study) -> Result:
    """fig:app:gait_personalization: one participant a group, their atom and all their cycles."""
    n_members = n_per_group(study)
    walks, atoms = load_walks(n_members), _atoms_of(n_members)
    placed, shared = (_place_all(n_members, kind) for kind in (PERSONAL, COHORT))
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
        ax.plot(TIME, own, color=GROUP_COLORS[group], lw=2, label="personalized atom")
        ax.set_title(name, fontsize="medium")
        label(ax, WINDOW, VELOCITY)
        ax.label_outer()
        add_legend(ax)
    settings = f"{3 * n_members} walks, {IN_PLACE}; unit norms, each atom where it fits best"
    return Result(lines(settings, found), {"": pd.DataFrame(columns)}, figure)
