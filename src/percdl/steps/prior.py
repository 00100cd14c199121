"""The population of warps: a Gaussian prior on the warps of a subject, estimated by EM.

A warp is described by the first sine coefficients c of its displacement, in samples
(`coordinates`): c = 0 is the identity, and centering makes the mean zero. The population is
``c_s ~ N(0, Sigma)``. The fit of a subject then minimizes

``|x - sum z * f(phi, a)|^2 + noise c(a)^T Sigma^-1 c(a)``,

with ``noise`` the variance of the subject's mean segments around its personal atom. The prior
matters where a recording contains little information about a warp (few cycles, flat parts of the
atom).

E-step: Gauss-Newton and the curvature at its end (Laplace). M-step: sums over subjects of
``c c^T + V``, V the posterior covariance. The dictionary update averages over the posterior as
well: the weights of PerCDU are diagonal in time, so it only needs the posterior variance of the
warp at each sample (`TimeWarp.normal_equations`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

Values = Array | np.ndarray

# Coordinates of a warp.
MOST_COORDINATES = 16
# Weight of the first guess of the covariance, in subjects.
GUESS_WEIGHT = 4.0
# Smallest standard deviation of a coordinate, in durations of an atom.
LEAST_SPREAD = 1e-4


class Prior(NamedTuple):
    """The population of warps of one atom, and the noise of B subjects."""

    precision: Float[Array, "C m m"]
    noise: Float[Array, " B"]


class Posterior(NamedTuple):
    """Posterior of the warps of B subjects: coordinates, covariance, variance in time."""

    mean: Float[Array, "B C m"]
    covariance: Float[Array, "B C m m"]
    variance: Float[Array, "B C L"]


def n_coordinates(atom_length: int, n_params: int) -> int:
    """Return m, the number of coordinates of a warp with this many parameters."""
    return min(MOST_COORDINATES, atom_length - 2, n_params)


def sine_table(atom_length: int, m: int) -> Float[np.ndarray, "m L"]:
    """Return the displacements, in samples, of the m coordinates."""
    order = np.arange(1, m + 1)[:, None]
    return np.sin(np.pi * order * np.arange(atom_length) / (atom_length - 1))


def sine_projection(atom_length: int, m: int) -> Float[np.ndarray, "m L"]:
    """Return the matrix that takes displacements to their m coordinates."""
    return sine_table(atom_length, m) * (2 / (atom_length - 1))


def coordinates(warps: Float[Values, "*batch L"], m: int) -> Any:
    """Return the first m sine coefficients (..., m) of the displacements of warps, in samples."""
    length = warps.shape[-1]
    return (warps - np.arange(length)) @ sine_projection(length, m).T.astype(warps.dtype)


def prior_price(prior: Prior, c: Float[Array, "B C m"]) -> Float[Array, " B"]:
    """Return ``noise c^T precision c`` for the coordinates of each subject."""
    return prior.noise * jnp.einsum("bcm,cmn,bcn->b", c, prior.precision, c)


def estimate_noise(
    energy: Float[Array, " B"], explained: Float[Array, " B"], n_seen: Int[Array, " B"], m: int
) -> Float[Array, " B"]:
    """Return the variance of the mean segments around the personal atom.

    A warp of m coordinates and an amplitude were fitted; still, half of the samples count.
    """
    left = jnp.maximum(energy - explained, 0)
    noise = left / jnp.maximum(n_seen - m - 1, jnp.maximum(n_seen / 2, 1))
    return jnp.where(jnp.isfinite(noise), noise, 0)  # the energy overflows: no prior


def estimate_precision(
    moment: Float[np.ndarray, "*batch m m"],
    mean: Float[np.ndarray, "*batch m"],
    n_subjects: Float[np.ndarray, "*batch"],
    atom_length: int,
) -> Float[np.ndarray, "*batch m m"]:
    """M-step: the inverse covariance of the population, from means over subjects."""
    m = moment.shape[-1]
    covariance = moment - mean[..., :, None] * mean[..., None, :]
    # The first guess: independent coordinates that fall with the square of their order.
    fall = 1.0 / np.arange(1, m + 1) ** 4
    level = np.trace(covariance, axis1=-2, axis2=-1) / fall.sum()
    guess = np.maximum(level, 0)[..., None, None] * np.diag(fall)
    n = n_subjects[..., None, None]
    mixed = (n * covariance + GUESS_WEIGHT * guess) / (n + GUESS_WEIGHT)
    return np.linalg.inv(mixed + (LEAST_SPREAD * atom_length) ** 2 * np.eye(m))
