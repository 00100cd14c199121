"""True gait cycles, cut at the annotation, and how far atoms are from them.

An annotated interval starts when the heel rises; an atom's window starts some samples before.
How many differs between walkers, and, since annotators are human, between cycles. So each atom
is put where it fits best, all atoms alike: onto every cycle on its own, or, more strictly, onto
all cycles of a walker with the same offset. None of the model's own onsets is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from percdl.experiments.studies.gait_fits import (
    fit,
    fit_in_place,
    load_walks,
    personal_atoms,
    unit,
)

# Samples between the start of an atom's window and the annotated start that are tried.
OFFSETS = range(-10, 51)
PERSONAL, COHORT, COMMON, POPULATION = (
    "personalized atom", "cohort personalization mean", "common atom (PerCDL)",
    "common atom (PopCDL)",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Placed:
    """An atom put onto a walker's cycles.

    Attributes
    ----------
    distance : float
        Mean Euclidean distance between the atom and the cycles, all at unit norm.
    offsets : array (n,)
        Samples between the start of the atom and the annotated start of each cycle.
    cycles : array (n, L)
        The cycles, at unit norm.
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
    """Put an atom where it is nearest to a walker's cycles.

    ``one_offset`` takes the same offset for all cycles, the one of least mean distance. Cycles
    whose window would leave the recording at some offset count at no offset.
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
    """Put an atom of this kind onto the cycles of every walker, in the order of the cohort."""
    walks = load_walks(n_members)
    return [
        place_atom(atom, record.values[:, 0], walks.swings[str(record.subject)][:, 0], one_offset)
        for atom, record in zip(atoms_of(n_members)[kind], walks.cohort, strict=True)
    ]
