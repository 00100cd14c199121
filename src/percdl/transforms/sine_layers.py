"""Layers of sines, the building blocks of a warp (Eqs. 4-5), and their derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from percdl.transforms.trigonometry import sincospi


def pass_through(layers: Float[Array, "D *batch W"], atom_length: int):
    """Return the displacement (..., L) of all layers, the times at each layer, and its slope.

    It is a scan, because XLA would inline a loop and evaluate the layers once per use.
    """
    time = grid(atom_length, layers.dtype)

    def advance(displacement, layer):
        moved, slope = displace(time + displacement, layer)
        return displacement + moved, (time + displacement, slope)

    start = jnp.zeros((*layers.shape[1:-1], atom_length), layers.dtype)
    return jax.lax.scan(advance, start, layers)


def stretch_by_later(slopes: Float[Array, "D *batch L"]) -> Float[Array, "D *batch L"]:
    """Return, per layer, the product of the slopes of the later layers (chain rule)."""
    depth = len(slopes)
    # With few layers, comparing all pairs compiles and runs faster than a scan.
    is_later = np.arange(depth) > np.arange(depth)[:, None]
    is_later = is_later.reshape(depth, depth, *[1] * (slopes.ndim - 1))
    return jnp.where(is_later, slopes, 1).prod(1)


def grid(atom_length: int, dtype) -> Float[Array, " L"]:
    """Return the sampling times t_i = i / (L - 1) (decision 3)."""
    return jnp.arange(atom_length, dtype=dtype) / (atom_length - 1)


def in_samples(displacement: Float[Array, "*batch L"], atom_length: int):
    """Return ``t + displacement`` in samples; no displacement returns exactly 0..L-1."""
    last = atom_length - 1
    return jnp.clip(jnp.arange(atom_length) + last * displacement, 0, last)


def displace(time: Float[Array, "*#batch L"], row: Float[Array, "*#batch W"]):
    """Return the displacement of the given times by one layer, and its derivative psi_d'.

    Clenshaw's recurrence sums both series with one sine and one cosine, in one loop over the
    samples.
    """
    sine, cosine = sincospi(time)
    order = np.pi * np.arange(1, row.shape[-1] + 1)
    height, _ = _clenshaw(row / jnp.asarray(order, row.dtype), cosine)
    steepness, rest = _clenshaw(row, cosine)
    return height * sine, 1 + steepness * cosine - rest


def _clenshaw(row: Float[Array, "*#batch W"], cosine: Float[Array, "*#batch L"]):
    """Return b and c: ``sum a_w sin(w x) = b sin x``, ``sum a_w cos(w x) = b cos x - c``."""
    first, second = row[..., -1:], jnp.zeros_like(row[..., -1:])
    for order in range(row.shape[-1] - 2, -1, -1):
        first, second = row[..., order : order + 1] + 2 * cosine * first - second, first
    return first, second


def sines(time: Float[Array, "*batch L"], width: int) -> Float[Array, "*batch W L"]:
    """Return sin(w pi t) / (w pi) for w = 1..W."""
    order = jnp.arange(1, width + 1, dtype=time.dtype)[:, None]
    return sincospi(time[..., None, :] * order)[0] / (jnp.pi * order)


def sine_coefficients(curve: Float[Array, "*batch L"], width: int) -> Float[Array, "*batch W"]:
    """Return the coefficients of sin(w pi t) / (w pi) in a curve that vanishes at both ends."""
    length = curve.shape[-1]
    order = np.arange(1, width + 1)
    table = np.sin(np.pi * order * np.arange(length)[:, None] / (length - 1))
    return curve @ jnp.asarray(table * order * (2 * np.pi / (length - 1)), curve.dtype)
