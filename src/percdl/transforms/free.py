"""No shared structure: ``f(phi, a) = a``, which makes PerCDL the individual model IndCDL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import jax.numpy as jnp
from jaxtyping import Array, Float

from percdl.transforms.base import Atom, Atoms, ClosedFormTransform, Params, divide


@final
@dataclass(frozen=True)
class Free(ClosedFormTransform):
    """Give every subject its own atoms, independent of the common atom (M = L P parameters).

    The parameters are the personal atom itself, of unit norm (the constraint of Eq. 1). Cost
    O(L P) per subject and atom.

    Examples
    --------
    >>> import numpy as np
    >>> atom = jnp.asarray(np.hanning(5)[:, None])
    >>> bool(jnp.allclose(Free().apply(Free().neutral(atom), atom), atom / jnp.linalg.norm(atom)))
    True
    """

    shares_structure: ClassVar[bool] = False

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return L P."""
        return atom_length * n_channels

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
