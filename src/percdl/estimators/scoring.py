"""How much of the recordings a model explains, some recordings at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from percdl.estimators.personalization import Personalization, personal_atoms
from percdl.signals import AnyCohort
from percdl.signals.reconstruction import normalized_reconstruction_error, rebuild

# Recordings and personal atoms that are in memory together.
BATCH = 1024


def explained_share(cohort: AnyCohort, found: Personalization) -> float:
    """Return one minus the normalized reconstruction error (decision 12)."""
    return 1 - normalized_reconstruction_error(cohort, rebuild_one_by_one(cohort, found))


def rebuild_one_by_one(cohort: AnyCohort, found: Personalization) -> Iterator[np.ndarray]:
    """Yield the recordings of the cohort that was personalized as the model sees them."""
    position_of = {subject: s for s, subject in enumerate(found.subjects)}
    # Events are in the order of the subjects.
    positions = np.array([position_of[subject] for subject in found.events["subject"]], int)
    records, first = iter(cohort), 0
    while batch := list(islice(records, BATCH)):
        own = slice(first, first + len(batch))
        events = found.events.iloc[slice(*np.searchsorted(positions, (own.start, own.stop)))]
        atoms = personal_atoms(
            found.transform,
            found.dictionary,
            found.params[own],
            found.n_activations[own],
            found.dtype,
        )
        yield from rebuild(batch, events, atoms)
        first = own.stop
