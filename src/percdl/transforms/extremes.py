"""The two extremes of PerCDL: no personalization (PopCDL) and no shared structure (IndCDL)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from percdl.transforms.base import (
    Atom,
    Atoms,
    ClosedFormTransform,
    LinearTransform,
    Params,
    divide,
)


@final
@dataclass(frozen=True)
class Identity(LinearTransform, ClosedFormTransform):
    """Give every subject the common atom itself: ``f(phi, a) = phi`` (M = 0 parameters).

    Cost: none, because nothing is fitted.

    Examples
    --------
    >>> atom = jnp.asarray(np.hanning(5)[:, None])
    >>> bool((Identity().apply(jnp.zeros((3, 0)), atom)[2] == atom).all())
    True
    """

    in_words: ClassVar[str] = "the same"

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return 0."""
        return 0

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return the atom, repeated for each set of (no) parameters."""
        return jnp.broadcast_to(atom, (*params.shape[:-1], *atom.shape))

    def operator(self, params: Params, atom_length: int, n_channels: int):
        """Return identity matrices, array (..., 1, L, L)."""
        eye = jnp.eye(atom_length, dtype=params.dtype)
        return jnp.broadcast_to(eye, (*params.shape[:-1], 1, atom_length, atom_length))

    def solve(self, atom: Atom, moment, weight) -> Params:
        """Return no parameters."""
        return jnp.zeros((*np.shape(moment)[:-2], 0), moment.dtype)


@final
@dataclass(frozen=True)
class Free(ClosedFormTransform):
    """Give every subject its own atoms: ``f(phi, a) = a`` (M = L P parameters).

    The parameters are the personal atom itself, of unit norm (the constraint of Eq. 1). Cost
    O(L P) per subject and atom.

    Examples
    --------
    >>> atom = jnp.asarray(np.hanning(5)[:, None])
    >>> bool(jnp.allclose(Free().apply(Free().neutral(atom), atom), atom / jnp.linalg.norm(atom)))
    True
    """

    shares_structure = False
    in_words: ClassVar[str] = "learned from their recording alone"

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return L P."""
        return atom_length * n_channels

    def param_names(self, atom_length: int, channels: Sequence[str]) -> list[str]:
        """Return the sample and the channel of each parameter."""
        return [f"sample{i}_{name}" for i in range(atom_length) for name in channels]

    def neutral(self, atom: Atom) -> Float[Array, " M"]:
        """Return the common atom, at unit norm."""
        return self.project(atom.reshape(-1))

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return the parameters, shaped as an atom."""
        return params.reshape(*params.shape[:-1], *atom.shape)

    def project(self, params: Params) -> Params:
        """Return the parameters at unit norm."""
        norm = jnp.linalg.norm(params, axis=-1, keepdims=True)
        return divide(params, norm)

    def solve(self, atom: Atom, moment, weight) -> Params:
        """Return the weighted mean segments, at unit norm."""
        mean = divide(moment, weight)
        return self.project(mean.reshape(*mean.shape[:-2], -1))
