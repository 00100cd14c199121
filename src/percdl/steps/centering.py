"""Centering: fixing the gauge, so that the mean warp of the population is the identity.

``phi o h`` with warps ``h^-1 o psi_s`` fits as well as ``phi`` with ``psi_s``, for every
increasing h. Decision 6: h is chosen so that the mean of the warps is the identity.

Repeating "compose with the mean warp" does not converge to a good gauge. With warps of
spread sigma, a gauge error of frequency w is seen in the mean warp only through a factor of
about ``exp(-(pi w sigma)^2 / 2)``: high frequencies are invisible, yet each repetition adds
the sampling noise of the mean warp once more. So during the rounds only the first
``SMOOTH_WIDTH`` sines of the mean warp are removed, which is stable, and the whole mean warp
at the end.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from percdl.transforms.base import WarpTransform

SMOOTH_WIDTH = 4


def smooth_warp(warp: np.ndarray, width: int = SMOOTH_WIDTH) -> np.ndarray:
    """Return the part of a warp (..., L), in samples, that ``width`` sines can express."""
    length = warp.shape[-1]
    samples = np.arange(length)
    sines = np.sin(np.pi * np.arange(1, width + 1) * samples[:, None] / (length - 1))
    return samples + (warp - samples) @ sines @ sines.T * (2 / (length - 1))


def recenter_params(
    transform: WarpTransform,
    params: Float[Array, "B M"],
    mean_warp: Float[Array, "C L"],
    n_channels: int,
) -> Float[Array, "B M"]:
    """Return the parameters of ``mean_warp^-1 o psi_s``, the warps seen from the centred atom."""
    samples = jnp.arange(mean_warp.shape[-1], dtype=params.dtype)
    inverse = jax.vmap(lambda mean: jnp.interp(samples, mean, samples))(mean_warp)
    return transform.follow(params, inverse, n_channels)
