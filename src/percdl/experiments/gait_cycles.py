"""True gait cycles, cut at the annotation, and how far atoms are from them.

An annotated interval starts when the heel rises; an atom's window starts some samples before.
How many is not the same for all walkers, so each atom is put where it fits a walker's cycles
best: one offset per walker and atom, the same for all the walker's cycles. All atoms are treated
alike, and none of the model's own onsets is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from percdl.experiments.gait_fits import (

    fit,
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
    offset : int
        Samples between the start of the atom and the annotated start.
    cycles : array (n, L)
        The cycles, at unit norm.
    """

    distance: float
    offset: int
    cycles: Float[np.ndarray, "n L"]


def place_atom(
    atom: Float[np.ndarray, " L"], walk: Float[np.ndarray, " N"], starts: np.ndarray
) -> Placed:
    """Put an atom where it is nearest to a walker's cycles, on average.

    Cycles whose window would leave the recording at some offset count at no offset.
    """
    inside = (starts >= OFFSETS[-1]) & (starts - OFFSETS[0] + len(atom) <= len(walk))
    kept, shape = starts[inside], unit(atom)
    options = []
    for offset in OFFSETS:
        cycles = unit(walk[np.add.outer(kept - offset, np.arange(len(atom)))])
        distance = float(np.linalg.norm(cycles - shape, axis=1).mean())
        options.append(Placed(distance, offset, cycles))
    return min(options, key=lambda placed: placed.distance)


def atoms_of(n_members: int) -> dict[str, Float[np.ndarray, "S L"]]:
    """Return the four kinds of atoms that are compared, one row per walker."""
    walks, personal = load_walks(n_members), personal_atoms(fit("PerCDL", n_members))
    means = {g: np.nanmean(personal[walks.groups == g], axis=0) for g in set(walks.groups)}
    shared = {
        name: np.broadcast_to(fit(model, n_members).dictionary_[0, :, 0], personal.shape)
        for name, model in ((COMMON, "PerCDL"), (POPULATION, "PopCDL"))
    }
    return {PERSONAL: personal, COHORT: np.stack([means[g] for g in walks.groups]), **shared}


def place_all(n_members: int, kind: str) -> list[Placed]:
    """Put an atom of this kind onto the cycles of every walker, in the order of the cohort."""
    walks = load_walks(n_members)
    return [
        place_atom(atom, record.values[:, 0], walks.swings[str(record.subject)][:, 0])
        for atom, record in zip(atoms_of(n_members)[kind], walks.cohort, strict=True)
    ]


