"""What a dictionary says of some subjects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from percdl.transforms import Transform

# Subjects whose atoms or warps are computed together.
BATCH = 64


@dataclass(frozen=True)
class Personalization:
    """What a frozen dictionary says of some subjects.

    Attributes
    ----------
    params : array (S, K, M)
        Personalization parameters; NaN for subjects without the atom.
    events : DataFrame
        Columns subject, atom, onset_sample, onset_seconds, amplitude.
    n_activations : array (S, K)
        Number of activations.
    subjects : tuple of str
        Who they are, in order.
    transform, dictionary, dtype
        The model they are seen through.
    suspects : DataFrame or None
        Whose results are doubtful and why, see ``suspects_`` of the models.
    """

    params: np.ndarray
    events: pd.DataFrame
    n_activations: np.ndarray
    subjects: tuple[str, ...]
    transform: Transform
    dictionary: np.ndarray
    dtype: str
    suspects: pd.DataFrame | None = None

    def __repr__(self) -> str:
        """Say how much was found, not what: the arrays are long."""
        n_subjects, n_atoms, n_params = self.params.shape
        return (
            f"Personalization({n_subjects} subjects, {n_atoms} atoms, {n_params} parameters each, "
            f"{len(self.events)} events)"
        )

    @cached_property
    def personal_dictionary(self) -> np.ndarray:
        """Personal atoms, array (S, K, L, P); NaN for subjects without the atom."""
        return personal_atoms(
            self.transform, self.dictionary, self.params, self.n_activations, self.dtype
        )

    @cached_property
    def warps(self) -> np.ndarray:
        """The warps psi, array (S, K, C, L), in samples; NaN for subjects without the atom.

        C = 1 warp for all channels, one for each, or none where the transform warps no time.
        """
        return warps_of(self.transform, self.dictionary, self.params)


def personal_atoms(
    transform: Transform,
    dictionary: np.ndarray,
    params: np.ndarray,
    n_activations: np.ndarray,
    dtype: str,
) -> np.ndarray:
    """Return ``f(dictionary, params)`` (Eq. 2), array (S, K, L, P); NaN where never activated."""
    import jax

    from percdl.algorithm.programs import apply_params

    known, atoms = np.nan_to_num(params).astype(dtype), dictionary.astype(dtype)
    with jax.enable_x64(dtype == "float64"):
        stacked = in_batches(lambda some: apply_params(transform, some, atoms), known)
    stacked[n_activations == 0] = np.nan
    return stacked


def warps_of(transform: Transform, dictionary: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Return psi at the sampling times, array (S, K, C, L), in samples; C = 0 without a warp."""
    import jax

    from percdl.algorithm.programs import evaluate_warps

    length, n_channels = dictionary.shape[1:]
    part = transform.warp_part(length, n_channels)
    if part is None:
        return np.zeros((*params.shape[:2], 0, length))
    warp, where = part
    with jax.enable_x64(True):
        own = np.asarray(params[..., where], float)
        return in_batches(lambda some: evaluate_warps(warp, some, length, n_channels), own)


def in_batches(program: Callable[..., Any], *people: np.ndarray) -> np.ndarray:
    """Run a program on arrays (S, ...), some subjects at a time; return its results (S, ...).

    A batch is always of the same size, so the program is compiled once for any number of people.
    """
    results = []
    for start in range(0, max(1, len(people[0])), BATCH):
        some = [values[start : start + BATCH] for values in people]
        n_missing = BATCH - len(some[0])
        padded = [np.pad(x, ((0, n_missing), *((0, 0),) * (x.ndim - 1))) for x in some]
        results.append(np.asarray(program(*padded), float)[: len(some[0])])
    return np.concatenate(results)
