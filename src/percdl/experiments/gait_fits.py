"""The walks of the paper's gait study, the models fitted on them, and gait:errors.

The recordings may hold more trials than the paper's 150: the study takes the first trial of each
participant, and the first participants of each group in the order of their codes. The signal is
the angular velocity of the right foot in the sagittal plane, z-scored per trial.

No fit uses the annotation, except those that start from a healthy participant's cycle, as the
paper's do.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from percdl.algorithm.settings import Algorithm
from percdl.datasets import load_gait
from percdl.datasets.gait import GROUPS
from percdl.estimators import IndCDL, PerCDL, PopCDL
from percdl.estimators.base import BaseCDL
from percdl.exceptions import DatasetError
from percdl.experiments.fits import BARYCENTER, draw_errors, errors_of_fits, panels, unit
from percdl.experiments.study import Line, Result, Study, as_printed
from percdl.plotting.style import COLORS
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
PAPER = {"IndCDL": 0.055, "PopCDL": 0.109, "PerCDL": 0.063, BARYCENTER: 0.116}


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
    init = first_dictionary(n_members, start)
    return build(name, init, **(as_printed() if plain else {})).fit(load_walks(n_members).cohort)


@cache
def fit_in_place(name: str, n_members: int, group: str | None = None) -> BaseCDL:
    """Fit one of `MODELS` from PopCDL's atom, keeping its windows.

    Comparisons of atoms sample by sample need this: the search for onsets may move each person's
    window a little, which says nothing about how they walk. ``group`` selects one group.
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
    """Return the dictionary that all models start from.

    Either the one that the library chooses from the data, or the cycle in the middle of the first
    healthy participant's walk, cut at its annotated start.
    """
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
    figure, axes = panels((10, 3.8))
    looks = [
        {
            "marker": "os^"[index // 2],
            "fillstyle": "none" if kind == PRINTED else "full",
            "color": COLORS[index // 2],
            "ms": 6,
            "label": f"{kind},\n{start}",
        }
        for index, (start, kind) in enumerate(CASES)
    ]
    errors = numbers.to_dict("records")
    draw_errors(axes[0, 0], PAPER, zip(errors, looks, strict=True), 0.12)
    figure.legend(loc="outside right center", fontsize="small", frameon=False)
    return Result(
        _lines(numbers, f"{3 * n_members} walks, {SETTINGS}"),
        {"gait_errors": numbers.reset_index()},
        {"gait_errors": figure},
        "In the paper errors rise as IndCDL < PerCDL < PopCDL. How it scaled its signals and "
        "defined the error is not known, so compare ratios rather than errors.",
    )


def measure_errors(study: Study, n_members: int) -> pd.DataFrame:
    """Return the errors, one row per first dictionary and algorithm, one column per model.

    Beside the paper's four models: the best free atom of each person at PerCDL's own onsets.
    Beside the first dictionaries: all models from PopCDL's atom, with fixed windows.
    """
    rows = study.sweep(_errors, n_members=[n_members], case=CASES)
    return rows.drop(columns=["n_members", "case"]).set_index(["start", "algorithm"])


def _errors(n_members: int, case: tuple[str, str]) -> dict[str, Any]:
    start, kind = case
    cohort = load_walks(n_members).cohort
    models = {
        name: fit_in_place(name, n_members)
        if kind == KEPT
        else fit(name, n_members, start, kind == PRINTED)
        for name in MODELS
    }
    # The best atom of a person is the first right singular vector of the person's segments.
    explained = 0.0
    for subject, onsets in models["PerCDL"].events_.groupby("subject")["onset_sample"]:
        samples = np.add.outer(onsets.to_numpy(), np.arange(LENGTH))
        explained += np.linalg.norm(cohort[str(subject)].values[samples, 0], ord=2) ** 2
    best = 1 - explained / sum(np.sum(r.values**2) for r in cohort)
    return {"start": start, "algorithm": kind, **errors_of_fits(models, cohort), BEST: best}


def _lines(numbers: pd.DataFrame, settings: str) -> list[Line]:
    ratios = numbers["PerCDL"] / numbers["IndCDL"]

    def values(of: Any, digits: int) -> str:
        default, printed = (of[FROM_DATA, kind] for kind in (DEFAULT, PRINTED))
        kept = of[FROM_POPULATION, KEPT]
        return f"{default:.{digits}f} ({PRINTED} {printed:.{digits}f}, {KEPT} {kept:.{digits}f})"

    chosen = f"{settings}; first atom {FROM_DATA}, no annotation used"
    copied = f"{settings}; first atom the {FROM_CYCLE}, as the paper's"
    quantity, said = "PerCDL / IndCDL, same first atom", f"{PAPER['PerCDL'] / PAPER['IndCDL']:.3f}"
    default, printed = (ratios[FROM_CYCLE, kind] for kind in (DEFAULT, PRINTED))
    best = (numbers["PerCDL"] / numbers[BEST])[FROM_DATA, DEFAULT]
    return [
        *(Line(name, f"{p}", values(numbers[name], 4), chosen) for name, p in PAPER.items()),
        Line(quantity, said, values(ratios, 3), chosen),
        Line(quantity, said, f"{default:.3f} ({PRINTED} {printed:.3f})", copied),
        Line("PerCDL / best free atoms at its onsets", "-", f"{best:.3f}", chosen),
    ]
