"""No personalization: ``f(phi, a) = phi``, which makes PerCDL the population model PopCDL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from percdl.transforms.base import Atom, Atoms, ClosedFormTransform, LinearTransform, Params


@final
@dataclass(frozen=True)
class Identity(LinearTransform, ClosedFormTransform):
    """Give every subject the common atom itself (M = 0 parameters).

    Cost: none, because nothing is fitted.

    Examples
    --------
    >>> atom = jnp.asarray(np.hanning(5)[:, None])
    >>> bool((Identity().apply(jnp.zeros((3, 0)), atom)[2] == atom).all())
    True
    """

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return 0."""
        return 0

    def neutral(self, atom: Atom) -> Float[Array, " M"]:
        """Return no parameters."""
        return jnp.zeros(0, atom.dtype)

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return the atom, repeated for each set of (no) parameters."""
        return jnp.broadcast_to(atom, (*params.shape[:-1], *atom.shape))

    def project(self, params: Params) -> Params:
        """Return the parameters unchanged."""
        return params

    def operator(self, params: Params, atom_length: int, n_channels: int):
        """Return identity matrices, array (..., 1, L, L)."""
        eye = jnp.eye(atom_length, dtype=params.dtype)
        return jnp.broadcast_to(eye, (*params.shape[:-1], 1, atom_length, atom_length))

    def solve(self, atom: Atom, moment, weight) -> Params:
        """Return no parameters."""
        return jnp.zeros((*np.shape(moment)[:-2], 0), moment.dtype)
