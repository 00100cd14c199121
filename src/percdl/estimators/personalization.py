"""Personalizations: subjects expressed with a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from percdl.signals import AnyCohort
from percdl.signals.reconstruction import normalized_reconstruction_error, rebuild

if TYPE_CHECKING:
    from percdl.transforms import Transform

# Recordings and personal atoms that are in memory together.
REBUILT = 1024
# Number of subjects for which atoms or warps are computed together.
BATCH = 64
# Smallest local speed, for warps that stand still up to rounding.
SLOWEST = 1e-9


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
    atom_lengths : tuple of int
        Samples of each atom in the recordings; empty if all are as long as the dictionary.
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
    atom_lengths: tuple[int, ...] = ()

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

    def clocks(self, sfreq: float) -> np.ndarray:
        """Return the samples of the dictionary per second, for each atom.

        The dictionary holds shorter atoms at the samples of the longest.
        """
        n_atoms, length = self.dictionary.shape[:2]
        lasting = np.array(self.atom_lengths or (length,) * n_atoms)
        return sfreq * ((length - 1) / (lasting - 1))

    @cached_property
    def rows_of(self) -> list[np.ndarray]:
        """The rows of the events of each subject, in order."""
        order = np.argsort(self.positions, kind="stable")
        counts = np.bincount(self.positions, minlength=len(self.subjects))
        return np.split(order, np.cumsum(counts)[:-1])

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

    @cached_property
    def own_times(self) -> np.ndarray:
        """When each subject reaches each sample of the common atom: psi^-1, array (S, K, C, L).

        In samples since the onset, see `warps`.
        """
        return invert_warps(self.warps)

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


def invert_warps(warps: Float[np.ndarray, "*batch L"]) -> Float[np.ndarray, "*batch L"]:
    """Return ``psi^-1(u)`` in samples: exact at the samples of psi, monotone cubic between.

    The slopes between samples are those of Fritsch and Carlson, as in SciPy's
    ``PchipInterpolator``, which takes one warp per call: 0.7 s for 2,000. Cost O(L) for each warp.
    """
    known = np.isfinite(warps).all(-1)
    samples = np.arange(warps.shape[-1], dtype=float)
    # A warp may stand still up to rounding; the inverse must still be unique.
    moved = np.maximum.accumulate(warps[known], axis=-1)
    psi = (moved + SLOWEST * samples) / (1 + SLOWEST)
    inverse = np.full(warps.shape, np.nan)
    inverse[known] = _read_inverse(psi)
    return inverse


def _read_inverse(psi: Float[np.ndarray, "n L"]) -> Float[np.ndarray, "n L"]:
    """Return the cubic through the points ``(psi[l], l)``, read at 0, ..., L - 1."""
    n_warps, length = psi.shape
    steps = np.diff(psi)
    before, after = steps[:, :-1], steps[:, 1:]
    weighed = (2 * after + before) * before + (after + 2 * before) * after
    slopes = np.empty(psi.shape)
    slopes[:, 1:-1] = 3 * (before + after) / weighed
    # At the ends the slope of a parabola, unless it falls.
    outer, inner = steps[:, [0, -1]], steps[:, [1, -2]]
    slopes[:, [0, -1]] = np.maximum((2 + inner / outer - outer / inner) / (outer + inner), 0)
    # The interval of each sample is the number of points up to it, less one.
    passed = np.clip(np.ceil(psi), 0, length).astype(int)
    passed += (length + 1) * np.arange(n_warps)[:, None]
    counts = np.bincount(passed.ravel(), minlength=n_warps * (length + 1))
    passed = np.cumsum(counts.reshape(n_warps, length + 1)[:, :-1], axis=1)
    at = np.clip(passed - 1, 0, length - 2)
    start, width = np.take_along_axis(psi, at, 1), np.take_along_axis(steps, at, 1)
    first, last = (np.take_along_axis(slopes, at + i, 1) for i in (0, 1))
    t, bend = np.arange(length) - start, first + last - 2 / width
    return at + t * (first + t * (1 / width - first - bend + bend * t / width) / width)


def in_batches(program: Callable[..., Any], *people: np.ndarray) -> np.ndarray:
    """Run a program on people, some at a time; batches have one size, so it is compiled once."""
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


def errors_of(cohort: AnyCohort, found: Personalization) -> Float[np.ndarray, " S"]:
    """Return the normalized reconstruction error of each recording; NaN if it is all zero."""
    errors = []
    for record, rebuilt in zip(cohort, rebuild_one_by_one(cohort, found), strict=True):
        energy = np.nansum(np.square(record.values, dtype=float))
        errors.append(np.nansum((record.values - rebuilt) ** 2) / energy if energy else np.nan)
    return np.array(errors)


def rebuild_one_by_one(cohort: AnyCohort, found: Personalization) -> Iterator[np.ndarray]:
    """Yield the recordings of the cohort that was personalized as the model sees them."""
    records, first = iter(cohort), 0
    while batch := list(islice(records, REBUILT)):
        own = slice(first, first + len(batch))
        # Events are in the order of the subjects.
        rows = slice(*np.searchsorted(found.positions, (own.start, own.stop)))
        yield from rebuild(batch, found.events.iloc[rows], found.atoms_of(own), found.n_terms)
        first = own.stop
