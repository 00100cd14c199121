"""Personalizations: subjects expressed with a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from percdl.signals import AnyCohort
from percdl.signals.reconstruction import normalized_reconstruction_error, rebuild

if TYPE_CHECKING:
    from percdl.transforms import Transform

# Recordings and personal atoms that are in memory together.
REBUILT = 1024
# Number of subjects for which atoms or warps are computed together.
BATCH = 64


@dataclass(frozen=True)
class Personalization:
    """Subjects described with the dictionary of a model.

    Attributes
    ----------
    params, n_activations : array (S, K, M), array (S, K)
        Personalization parameters, NaN for subjects without the atom, and numbers of activations.
    events : DataFrame
        As ``events_`` of the models.
    subjects, suspects : tuple of str, DataFrame or None
        Subject ids, in order, and those with doubtful results, see ``suspects_`` of the models.
    transform, dictionary, dtype, n_terms
        The model; ``n_terms`` is the number of terms of the baseline of an activation.
    """

    params: np.ndarray
    events: pd.DataFrame
    n_activations: np.ndarray
    subjects: tuple[str, ...]
    transform: Transform
    dictionary: np.ndarray
    dtype: str
    n_terms: int = 0
    suspects: pd.DataFrame | None = None

    def __repr__(self) -> str:
        n_subjects, n_atoms, n_params = self.params.shape
        return (
            f"Personalization({n_subjects} subjects, {n_atoms} atoms, {n_params} parameters each, "
            f"{len(self.events)} events)"
        )

    @cached_property
    def positions(self) -> np.ndarray:
        """The position of each event's subject among the subjects."""
        return pd.Index(self.subjects).get_indexer(self.events["subject"].to_numpy(str))

    @cached_property
    def personal_dictionary(self) -> np.ndarray:
        """Personal atoms, array (S, K, L, P); NaN for subjects without the atom."""
        return self.atoms_of(slice(None))

    @cached_property
    def warps(self) -> np.ndarray:
        """The warps psi at the samples, array (S, K, C, L), in samples.

        NaN for subjects without the atom. C = 1 warp for all channels, one for each, or none
        where the transform warps no time.
        """
        import jax

        from percdl.algorithm.programs import evaluate_warps

        length, n_channels = self.dictionary.shape[1:]
        part = self.transform.warp_part(length, n_channels)
        if part is None:
            return np.zeros((*self.params.shape[:2], 0, length))
        warp, where = part
        with jax.enable_x64(True):
            own = np.asarray(self.params[..., where], float)
            return in_batches(lambda some: evaluate_warps(warp, some, length, n_channels), own)

    def atoms_of(self, subjects: slice | np.ndarray) -> np.ndarray:
        """Return ``f(dictionary, params)`` (Eq. 2) of some subjects."""
        import jax

        from percdl.algorithm.programs import apply_params

        known = np.nan_to_num(self.params[subjects]).astype(self.dtype)
        common = self.dictionary.astype(self.dtype)
        with jax.enable_x64(self.dtype == "float64"):
            atoms = in_batches(lambda some: apply_params(self.transform, some, common), known)
        atoms[self.n_activations[subjects] == 0] = np.nan
        return atoms


def in_batches(program: Callable[..., Any], *people: np.ndarray) -> np.ndarray:
    """Run a program on arrays (S, ...), some subjects at a time; return its results (S, ...).

    A batch is always of the same size, so the program is compiled once for any number of people.
    """
    results = []
    for start in range(0, max(1, len(people[0])), BATCH):
        some = [values[start : start + BATCH] for values in people]
        done = program(*(pad_rows(values, BATCH) for values in some))
        results.append(np.asarray(done, float)[: len(some[0])])
    return np.concatenate(results)


def pad_rows(x: np.ndarray, size: int) -> Any:
    """Append rows of zeros, up to the size of a batch."""
    return np.pad(x, ((0, size - len(x)), *((0, 0),) * (x.ndim - 1)))


def explained_share(cohort: AnyCohort, found: Personalization) -> float:
    """Return one minus the normalized reconstruction error (decision 12)."""
    return 1 - normalized_reconstruction_error(cohort, rebuild_one_by_one(cohort, found))


def rebuild_one_by_one(cohort: AnyCohort, found: Personalization) -> Iterator[np.ndarray]:
    """Yield the recordings of the cohort that was personalized as the model sees them."""
    records, first = iter(cohort), 0
    while batch := list(islice(records, REBUILT)):
        own = slice(first, first + len(batch))
        # Events are in the order of the subjects.
        rows = slice(*np.searchsorted(found.positions, (own.start, own.stop)))
        yield from rebuild(batch, found.events.iloc[rows], found.atoms_of(own), found.n_terms)
        first = own.stop
