"""Gain that changes along the pattern: ``f(phi, a)_p(t) = g_p(t) phi_p(t)``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from percdl.transforms.base import (
    Atom,
    Atoms,
    ClosedFormTransform,
    LinearTransform,
    OneOrMany,
    Params,
    check_count,
    divide,
)

# Ridge towards the subject's mean gain, as a share of the mean stiffness of all gains: where the
# common atom is zero, the data do not determine a gain.
HOLD = 1e-3


@final
@dataclass(frozen=True)
class Modulation(LinearTransform, ClosedFormTransform):
    """Scale every channel by a gain of either sign that changes along the pattern.

    ``g_p(t)`` is piecewise linear with values at ``knots`` evenly spaced times, so each wave of a
    pattern can be stronger, weaker or inverted. ``params`` hold the values, channel by channel.
    Their root mean square is one, because the amplitude of the activations covers the common
    factor. IPU has a closed form, and PerCDU is one division per sample and channel. Cost
    O(L P J) per subject to apply, O(P J^2 (L + J)) to solve.

    Parameters
    ----------
    knots : int
        J, the number of values per channel (M = P J); 1 is a constant gain of either sign.

    Examples
    --------
    >>> Modulation(2).apply(jnp.array([1.0, -1.0]), jnp.ones((5, 1)))[:, 0]
    Array([ 1. ,  0.5,  0. , -0.5, -1. ], dtype=float32)
    """

    knots: int = 5

    def validate(self) -> None:
        """Raise if a hyper-parameter is out of range."""
        check_count("Modulation", "knots", self.knots)

    @property
    def in_words(self) -> str:
        """How a person's version of an atom differs from the common one."""
        return f"scaled along the cycle ({self.knots} gains per channel)"

    def param_names(self, atom_length: int, channels: Sequence[str]) -> list[str]:
        """Return the channel and the time of each gain."""
        at = [f"{100 * x:.3g}%" for x in np.linspace(0, 1, self.knots)]
        return [f"gain_{name}_at_{time}" for name in channels for time in at]

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return M = P J."""
        return n_channels * self.knots

    def neutral(self, atom: Atom) -> Float[Array, " M"]:
        """Return ones."""
        return jnp.ones(self.n_params(*atom.shape), atom.dtype)

    def project(self, params: Params) -> Params:
        """Return the values scaled to a root mean square of one."""
        size = jnp.sqrt(jnp.mean(params**2, axis=-1, keepdims=True))
        return divide(params, size)

    def gains(self, params: Params, atom_length: int) -> Float[Array, "*batch L P"]:
        """Return g at the sampling times."""
        values = params.reshape(*params.shape[:-1], -1, self.knots)
        return jnp.einsum("lj,...pj->...lp", self._hats(atom_length, params.dtype), values)

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return the modulated atoms, array (..., L, P)."""
        return atom * self.gains(params, atom.shape[0])

    def operator(self, params: Params, atom_length: int, n_channels: int):
        """Return T(a), array (..., P, L, L)."""
        gains = jnp.swapaxes(self.gains(params, atom_length), -1, -2)
        return gains[..., None] * jnp.eye(atom_length, dtype=params.dtype)

    def normal_equations(self, params, atom: Atom, moment, weight):
        """Return the sums of PerCDU: diagonal matrices, G = P."""
        gains = self.gains(params, atom.shape[0])
        strength = jnp.sum(weight * gains**2, axis=0)
        gram = strength.T[..., None] * jnp.eye(atom.shape[0], dtype=moment.dtype)
        return gram, jnp.sum(moment * gains, axis=0)

    def solve(self, atom: OneOrMany, moment, weight) -> Params:
        """Return the regression of each channel on the atom cut into overlapping pieces."""
        hats = self._hats(moment.shape[-2], moment.dtype)
        stiffness = jnp.einsum("lj,...lp,lk->...pjk", hats, weight * atom**2, hats)
        pull = jnp.einsum("lj,...lp->...pj", hats, moment * atom)
        rows = jnp.sum(stiffness, axis=-1)
        total = jnp.sum(rows, axis=(-2, -1))
        # The best common gain, the target of the ridge.
        shared = divide(jnp.sum(pull, axis=(-2, -1)), total)
        trace = jnp.trace(stiffness, axis1=-2, axis2=-1).mean(-1) / self.knots
        hold = jnp.where(total > 0, HOLD * trace, 1)[..., None, None]
        system = stiffness + hold[..., None] * jnp.eye(self.knots, dtype=moment.dtype)
        right = pull + hold * shared[..., None, None]
        found = jnp.squeeze(jnp.linalg.solve(system, right[..., None]), -1)
        values = found.reshape(*found.shape[:-2], -1)
        seen = (jnp.abs(values).max(-1) > 0)[..., None]
        return jnp.where(seen, self.project(values), 1)

    def _hats(self, atom_length: int, dtype) -> Float[Array, "L J"]:
        """Return the weight of each knot at each sample; weights add up to one."""
        position = np.linspace(0, self.knots - 1, atom_length)[:, None]
        return jnp.asarray(np.maximum(0, 1 - np.abs(position - np.arange(self.knots))), dtype)
