"""What a dictionary says of some subjects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from percdl.transforms import Transform, WarpTransform


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
    """

    params: np.ndarray
    events: pd.DataFrame
    n_activations: np.ndarray
    subjects: tuple[str, ...]
    transform: Transform
    dictionary: np.ndarray
    dtype: str

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
    import jax.numpy as jnp

    known = pad_people(np.nan_to_num(params).astype(dtype))
    with jax.enable_x64(dtype == "float64"):
        atoms = _compiled(transform)(jax.device_put(known), jnp.asarray(dictionary, dtype))
        stacked = np.array(atoms, float)[: len(params)]
    stacked[n_activations == 0] = np.nan
    return stacked


def warps_of(transform: Transform, dictionary: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Return psi at the sampling times, array (S, K, C, L), in samples; C = 0 without a warp."""
    import jax

    length, n_channels = dictionary.shape[1:]
    part = transform.warp_part(length, n_channels)
    if part is None:
        return np.zeros((*params.shape[:2], 0, length))
    warp, where = part
    with jax.enable_x64(True):
        own = jax.device_put(pad_people(np.asarray(params[..., where], float)))
        return np.array(_compiled_warp(warp)(own, length, n_channels))[: len(params)]


def pad_people(values: np.ndarray) -> np.ndarray:
    """Add zeros to values (S, ...), up to one of a few numbers of subjects.

    A program compiled for every number there is would be kept for ever: whoever personalizes
    people as they come would run out of memory.
    """
    from percdl.algorithm.chunks import bucket_length, round_rows

    rows = round_rows(bucket_length(len(values)))
    return np.pad(values, ((0, rows - len(values)), *((0, 0),) * (values.ndim - 1)))


@cache
def _compiled_warp(warp: WarpTransform) -> Callable[..., Any]:
    from percdl.steps.compilation import program

    return program(warp.warp, static_argnums=(1, 2))


@cache
def _compiled(transform: Transform) -> Callable[..., Any]:
    """Return ``f`` for all atoms together; step by step it would cost seconds."""
    import jax

    from percdl.steps.compilation import program

    return program(jax.vmap(transform.apply, (1, 0), 1))
