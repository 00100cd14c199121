"""The walks of the paper's gait study and the models fitted on them, once for all labels.

The folder of the recordings may hold more trials than the paper's 150: of each participant the
first trial counts, of each group the first participants, in the order of their codes. The
signal is the angular velocity of the right foot in the sagittal plane, z-scored per trial.

No fit knows the annotation, unless it is told to start from a healthy participant's cycle, as
the paper's do.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from percdl.datasets import load_gait
from percdl.datasets.gait import GROUPS
from percdl.estimators import IndCDL, PerCDL, PopCDL
from percdl.estimators.base import BaseCDL
from percdl.exceptions import DatasetError
from percdl.experiments.result import Study
from percdl.experiments.studies.as_printed import PLAIN
from percdl.signals import Cohort
from percdl.transforms import TimeWarp

LENGTH, PENALTY, SFREQ = 100, 0.01, 100
HEALTHY = GROUPS[0]
# 15 rounds for every model. The warps of walkers bend far: ten iterations a round instead of
# three bring them to rest.
ROUNDS = {"n_init": 5, "n_perso": 10}
MODELS: dict[str, tuple[type[BaseCDL], dict[str, Any]]] = {
    "IndCDL": (IndCDL, {}),
    "PopCDL": (PopCDL, {}),
    "PerCDL": (PerCDL, {"transform": TimeWarp(4, 15), "n_solver_steps": 10}),
}
FROM_DATA, FROM_CYCLE = "chosen from the data", "cycle of a healthy participant"
SETTINGS = (
    f"K = 1, L = {LENGTH}, D = 4, W = 15, lambda = {PENALTY}, z-scored, "
    f"rounds {ROUNDS['n_init']} + {ROUNDS['n_perso']}"
)
KEPT = f"{SETTINGS}; all from PopCDL's atom, windows kept"


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
    """Return how many participants of each group take part."""
    return study.pick(10, 50)


@cache
def load_walks(n_members: int) -> Walks:
    """Load one trial of each of the first participants of every group."""
    data = load_gait()
    people = data.metadata.drop_duplicates("Subject")
    chosen = people.groupby("PathologyGroup", sort=False).head(n_members)
    counts = Counter(chosen["PathologyGroup"])
    for group in GROUPS:
        if counts[group] < n_members:
            raise DatasetError(
                f"The gait recordings hold {counts[group]} participants of group {group}; "
                f"{n_members} are needed. Set PERCDL_DATA to the folder of the whole dataset."
            )
    codes = [str(code) for code in chosen.index]
    cohort = data.cohort.select(codes).zscore()
    return Walks(cohort, {code: data.swings[code]["right"] for code in codes})


@cache
def fit(name: str, n_members: int, start: str = FROM_DATA, plain: bool = False) -> BaseCDL:
    """Fit one of `MODELS` on all walks, from the same first dictionary as the others.

    ``plain`` takes the paper's algorithm without the additions.
    """
    changes = {k: v for k, v in PLAIN.items() if k == "realign" or name == "PerCDL"}
    init = first_dictionary(n_members, start)
    return build(name, init, **(changes if plain else {})).fit(load_walks(n_members).cohort)


@cache
def fit_in_place(name: str, n_members: int, group: str | None = None) -> BaseCDL:
    """Fit one of `MODELS` from PopCDL's atom, with windows that stay where it has them.

    For all that compares atoms of different people sample by sample: the search for onsets
    may start each person's window a little elsewhere, which says nothing about how they walk.
    ``group`` takes the walks of one group alone.
    """
    cohort, init = load_walks(n_members).cohort, fit("PopCDL", n_members).dictionary_
    chosen = cohort if group is None else cohort.select(group=group)
    return build(name, init, realign=False).fit(chosen)


def build(name: str, init: Any, **changes: Any) -> BaseCDL:
    """Return one of `MODELS`, to be fitted."""
    kind, options = MODELS[name]
    common = {"n_atoms": 1, "atom_length": LENGTH, "penalty": PENALTY, **ROUNDS}
    technical = {"init": init, "random_state": 0, "progress": False}
    return kind(**{**common, **technical, **options, **changes})


@cache
def first_dictionary(n_members: int, start: str) -> Float[np.ndarray, "1 L 1"]:
    """Return the dictionary (1, L, 1) that all models start from.

    Chosen from the data by the library's own search, or the cycle in the middle of the first
    healthy participant's walk, cut where the annotation says that it starts.
    """
    walks = load_walks(n_members)
    if start == FROM_DATA:
        return build("PopCDL", "auto", n_init=0, n_perso=0).fit(walks.cohort).dictionary_
    healthy = walks.cohort.select(group=HEALTHY)[0]
    onsets = walks.swings[str(healthy.subject)][:, 0]
    onset = onsets[len(onsets) // 2]
    return healthy.values[None, onset : onset + LENGTH]


def personal_atoms(model: BaseCDL) -> Float[np.ndarray, "S L"]:
    """Return everyone's atom at unit norm; NaN for a person without activations."""
    return unit(model.personal_dictionary_[:, 0, :, 0])


def unit(curves: Float[np.ndarray, "... L"]) -> Float[np.ndarray, "... L"]:
    """Return curves at unit norm; silence stays silent.

    >>> unit(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """
    norms = np.linalg.norm(curves, axis=-1, keepdims=True)
    return curves / np.where(norms > 0, norms, 1)
