"""Gain of each channel: ``f(phi, a)_p = exp(a_p) phi_p``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from percdl.transforms.base import Atom, Atoms, ChannelTransform, OneOrMany, Params, divide

# Smallest gain relative to the subject's largest; gains are positive.
WEAKEST = 1e-3


@final
@dataclass(frozen=True)
class Gain(ChannelTransform):
    """Scale every channel of the common atom by its own positive factor.

    ``params`` hold the logarithms of the P factors. Their mean is zero, because the amplitude
    of the activations covers the common factor. IPU has a closed form. Cost O(L P) per subject to
    apply and to solve; O(S P L^3) for the sums of PerCDU.

    Examples
    --------
    >>> atom = jnp.ones((5, 2))
    >>> Gain().apply(jnp.log(jnp.array([2.0, 0.5])), atom)[0]
    Array([2. , 0.5], dtype=float32)
    """

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return M = P."""
        return n_channels

    @property
    def in_words(self) -> str:
        """How a person's version of an atom differs from the common one."""
        return "scaled channel by channel"

    def param_names(self, atom_length: int, channels: Sequence[str]) -> list[str]:
        """Return the channel of each logarithm."""
        return [f"log_gain_{name}" for name in channels]

    def describe(
        self,
        params: Float[np.ndarray, "*batch M"],
        atom_length: int,
        channels: Sequence[str],
        sfreq: float,
    ) -> dict[str, np.ndarray]:
        """Return the factors."""
        gains = np.moveaxis(np.exp(np.asarray(params, float)), -1, 0)
        return {f"gain_{name}": own for name, own in zip(channels, gains, strict=True)}

    def neutral(self, atom: Atom) -> Float[Array, " M"]:
        """Return zeros: factors of one."""
        return jnp.zeros(atom.shape[1], atom.dtype)

    def mixing(self, params: Params, n_channels: int) -> Float[Array, "*batch P P"]:
        """Return the factors on a diagonal."""
        return jnp.exp(params)[..., None] * jnp.eye(n_channels, dtype=params.dtype)

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return the scaled atoms, array (..., L, P)."""
        return atom * jnp.exp(params)[..., None, :]

    def project(self, params: Params) -> Params:
        """Return the logarithms minus their mean."""
        return params - params.mean(-1, keepdims=True)

    def unmix(self, params: Params, moment):
        """Divide the moments by the factors."""
        return moment * jnp.exp(-params)[..., None, :]

    def relative(self, params: Params, gauge: Float[Array, " M"]) -> Params:
        """Return the logarithms of the ratios."""
        return params - gauge

    def operator(self, params: Params, atom_length: int, n_channels: int):
        """Return T(a), array (..., P, L, L)."""
        return jnp.exp(params)[..., None, None] * jnp.eye(atom_length, dtype=params.dtype)

    def solve(self, atom: OneOrMany, moment, weight) -> Params:
        """Return the regression of each channel on the atom; missing channels get the mean."""
        match = jnp.sum(moment * atom, axis=-2)
        power = jnp.sum(weight * atom**2, axis=-2)
        factor = divide(jnp.maximum(match, 0), power)
        least = WEAKEST * factor.max(-1, keepdims=True)
        seen = (power > 0) & (least > 0)
        logs = jnp.log(jnp.where(seen, jnp.maximum(factor, least), 1))
        mean = logs.sum(-1, keepdims=True) / jnp.maximum(seen.sum(-1, keepdims=True), 1)
        return jnp.where(seen, logs - mean, 0)
