"""Centering: fix the gauge, so that the mean warp of the population is the identity.

``phi o h`` with warps ``h^-1 o psi_s`` fits as well as ``phi`` with ``psi_s``, for every
increasing h. Decision 6: h is chosen so that the mean of the warps is the identity.

Composing with the mean warp in every round does not converge to a good gauge. With warps of
spread sigma, a gauge error of frequency w appears in the mean warp only with a factor of about
``exp(-(pi w sigma)^2 / 2)``: the mean blurs it, yet each repetition adds the sampling noise of
the mean warp again. So during the rounds only the first ``SMOOTH_WIDTH`` sines of the mean warp
are removed, which is stable, and the whole mean warp at the end.

The mean *inverse* warp does not blur: a gauge error h turns it from m into ``m o h``. The mean
and spread of the warps determine m (`expected_inverse`), so any difference from it is gauge error
that the mean warp does not show. It is removed together with the mean.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtr

from percdl.transforms.base import WarpTransform

# Chosen on the paper's synthetic cohorts (docs/paper_notes.md, "The gauge").
SMOOTH_WIDTH = 4
# Smallest slope of a gauge after the correction by the inverses; it must stay invertible.
MIN_SPEED = 0.2
# Points per sample of the integral in `expected_inverse`.
FINENESS = 10


def find_gauge(
    mean: Float[np.ndarray, "*batch L"],
    spread: Float[np.ndarray, "*batch L"],
    mean_inverse: Float[np.ndarray, "*batch L"],
) -> Float[np.ndarray, "*batch L"]:
    """Return the warp that centres the common atom.

    Takes the mean and the standard deviation of the warps and the mean of their inverses, all
    in samples. Returns the mean warp plus the part that only the inverses show.
    """
    hidden = expected_inverse(mean, spread) - mean_inverse
    return mean + _slow_enough(mean, hidden) * hidden


def smooth_warp(warp: np.ndarray, width: int = SMOOTH_WIDTH) -> np.ndarray:
    """Return the part of a warp (..., L), in samples, that ``width`` sines can express."""
    length = warp.shape[-1]
    samples = np.arange(length)
    sines = np.sin(np.pi * np.arange(1, width + 1) * samples[:, None] / (length - 1))
    return samples + (warp - samples) @ sines @ sines.T * (2 / (length - 1))


def expected_inverse(
    mean: Float[np.ndarray, "*batch L"], spread: Float[np.ndarray, "*batch L"]
) -> Float[np.ndarray, "*batch L"]:
    """Return the mean inverse of warps with this mean and standard deviation, in samples.

    The inverse of a warp at u is the time that the warp spends below u. So the mean inverse is
    the integral over t of the probability that psi(t) < u. psi(t) is assumed normal, except at
    the ends, which are fixed.
    """
    length = mean.shape[-1]
    times = (np.arange((length - 1) * FINENESS) + 0.5) / FINENESS
    before = times.astype(int)
    fraction = times - before
    center, width = (
        x[..., None, before] * (1 - fraction) + x[..., None, before + 1] * fraction
        for x in (mean, spread)
    )
    u = np.arange(length)[:, None]
    inverse = ndtr((u - center) / np.maximum(width, 1 / FINENESS)).sum(-1) / FINENESS
    inverse[..., [0, -1]] = 0, length - 1
    return inverse


def invert_warps(warps: Float[Array, "*batch L"]) -> Float[Array, "*batch L"]:
    """Return the inverses of warps, in samples: the time each spends below every sample."""
    length = warps.shape[-1]
    samples = jnp.arange(length, dtype=warps.dtype)
    low, high = warps[..., :-1, None], warps[..., 1:, None]
    # Rounding can make a warp constant between two samples.
    rise = jnp.maximum(high - low, jnp.finfo(warps.dtype).eps)
    return jnp.clip((samples - low) / rise, 0, 1).sum(-2)


def recenter_params(
    transform: WarpTransform,
    params: Float[Array, "B M"],
    gauge: Float[Array, "C L"],
    n_channels: int,
) -> Float[Array, "B M"]:
    """Return the parameters of ``gauge^-1 o psi_s``, the warps of the centred atom."""
    samples = jnp.arange(gauge.shape[-1], dtype=params.dtype)
    inverse = jax.vmap(lambda h: jnp.interp(samples, h, samples))(gauge)
    return transform.follow(params, inverse, n_channels)


def _slow_enough(warp: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return the largest share of a change that keeps a warp faster than ``MIN_SPEED``."""
    room = np.maximum(np.diff(warp) - MIN_SPEED, 0)
    slowing = -np.diff(change)
    share = np.divide(room, slowing, out=np.ones_like(room), where=slowing > room)
    return share.min(-1, keepdims=True)
