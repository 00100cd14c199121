"""Centering: fix the gauge, so that the mean warp of the population is the identity.

``phi o h`` with warps ``h^-1 o psi_s`` fits as well as ``phi`` with ``psi_s``, for every
increasing h. Decision 6: h is chosen so that the mean of the warps is the identity.

Composing with the mean warp in every round does not converge to a good gauge. With warps of
spread sigma, a gauge error of frequency w appears in the mean warp only with a factor of about
``exp(-(pi w sigma)^2 / 2)``: the mean blurs it, yet each repetition adds the sampling noise of
the mean warp again. So during the rounds only the first ``SMOOTH_WIDTH`` sines of the mean warp
are removed, which is stable. At the end `find_gauge` solves for the gauge.

The mean *inverse* warp does not blur: a gauge error h turns it from m into ``m o h``. In a normal
population the mean and spread of the warps determine m (`expected_inverse`), so any difference
from it is gauge error that the mean warp does not show. `find_gauge` starts from it, and then
uses the mean warp where it is more informative: its first sines become zero in any population.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtr

from percdl.steps.prior import Values, coordinates, sine_projection, sine_table
from percdl.transforms.base import WarpTransform
from percdl.transforms.sine_layers import sincospi

# Chosen on the paper's synthetic cohorts (docs/paper_notes.md, "The gauge").
SMOOTH_WIDTH = 4
# Smallest slope of a gauge after the correction by the inverses; it must stay invertible.
MIN_SPEED = 0.2
# Points per sample of the integral in `expected_inverse`.
FINENESS = 10
# Sines of the correction.
MOST_SINES = 20
# Sizes of the prior that are tried: the standard deviation of the first sine, in durations. It
# falls with the square of the order.
PRIOR_SIZES = np.append(0, np.geomspace(1e-3, 1, 13))
# Error of the mean warp that does not depend on the number of subjects, in durations.
LEAST_ERROR = 1e-4


class WarpMoments(NamedTuple):
    """Sums over subjects, or their means, that determine the gauge; warps in samples.

    The warps, their squared distances to the identity, their inverses, the sines of the warps and
    the squared sine coefficients of their displacements.
    """

    warp: Float[Values, "*batch L"]
    squared_displacement: Float[Values, "*batch L"]
    inverse_warp: Float[Values, "*batch L"]
    warp_sines: Float[Values, "*batch L n"]
    squared_sines: Float[Values, "*batch n"]


def sum_warps(warps: Float[Array, "S C L"], active: Float[Array, " S"]) -> WarpMoments:
    """Return the sums over active subjects that determine the gauge. Cost O(S L (L + n))."""
    length = warps.shape[-1]
    n_sines = min(MOST_SINES, length - 2)
    moved = warps - jnp.arange(length)

    def add(values):
        return jnp.einsum("s,s...->...", active, values)

    def add_sines(order):
        return add(sincospi(order / (length - 1) * warps)[0])

    sines = jax.lax.map(add_sines, jnp.arange(1, n_sines + 1))
    return WarpMoments(
        add(warps),
        add(moved**2),
        add(invert_warps(warps)),
        jnp.moveaxis(sines, 0, -1),
        add(coordinates(warps, n_sines) ** 2),
    )


def find_gauge(
    means: WarpMoments, n_subjects: Float[np.ndarray, "*batch"]
) -> Float[np.ndarray, "*batch L"]:
    """Return the warp h at which the centred atom reads the atom, in samples.

    Centred means that ``g o psi_s``, ``g = h^-1``, has the identity as its mean, which is linear
    in g: with ``g(u) = u + sum_w e_w sin(w pi u)`` it only takes the mean sines of the warps.
    Solving it exactly would amplify the sampling error of the mean, so e is a posterior mean. Its
    prior mean is the gauge of a normal population, and the size of the prior is
    estimated (`_correct`). The first ``SMOOTH_WIDTH`` sines of the mean become zero whatever
    their sampling error. Cost O(n^3) per warp.
    """
    mean, square, inverse, sines, squares = map(np.asarray, means)
    displacement = mean - np.arange(mean.shape[-1])
    spread = np.sqrt(np.maximum(square - displacement**2, 0))
    # The gauge of a normal population: the mean, plus what only the inverses show.
    hidden = expected_inverse(mean, spread) - inverse
    normal = mean + slow_enough(mean, hidden) * hidden
    gauge = np.empty(mean.shape)
    for at in np.ndindex(mean.shape[:-1]):
        gauge[at] = _correct(normal[at], mean[at], sines[at], squares[at], n_subjects[at])
    return gauge


def _correct(normal, mean, sines, squares, n_subjects) -> Float[np.ndarray, " L"]:
    """Return the gauge of one population of warps, given that of a normal population.

    Each sine of the mean warp has a sampling error of known variance. Larger ones are due to the
    gauge: the size of the prior is the one of largest marginal likelihood.
    """
    length, n_sines = sines.shape
    samples, order = np.arange(length), np.arange(1.0, n_sines + 1)
    project = sine_projection(length, n_sines)
    off = project @ (mean - samples)
    error = np.maximum(squares - off**2, 0) / max(n_subjects, 1)
    error[:SMOOTH_WIDTH] = 0  # zero by definition
    error += (LEAST_ERROR * length) ** 2
    system = project @ sines
    start = project @ (np.interp(samples, normal, samples) - samples)
    left = off + system @ start
    best, found = -np.inf, start
    for size in PRIOR_SIZES:
        prior = (length * size / order**2) ** 2
        covariance = system * prior @ system.T + np.diag(error)
        solved = np.linalg.solve(covariance, left)
        likelihood = -left @ solved - np.linalg.slogdet(covariance)[1]
        if likelihood > best:
            best, found = likelihood, start - prior * (system.T @ solved)
    times = np.linspace(0, length - 1, FINENESS * (length - 1) + 1)
    inverse = np.interp(times, normal, samples)
    change = times + np.sin(np.pi * times[:, None] * order / (length - 1)) @ found - inverse
    share = slow_enough(inverse, change, MIN_SPEED / FINENESS)
    return np.interp(samples, inverse + share * change, times)


def smooth_warp(warp: Float[Values, "*batch L"], width: int = SMOOTH_WIDTH) -> Any:
    """Return the part of a warp (..., L), in samples, that ``width`` sines can express."""
    length = warp.shape[-1]
    width = min(width, length - 2)
    return np.arange(length) + coordinates(warp, width) @ sine_table(length, width)


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


def slow_enough(warp: np.ndarray, change: np.ndarray, least: float = MIN_SPEED) -> np.ndarray:
    """Return the largest share of a change that keeps every step of a warp above the least."""
    room = np.maximum(np.diff(warp) - least, 0)
    slowing = -np.diff(change)
    share = np.divide(room, slowing, out=np.ones_like(slowing), where=slowing > room)
    return share.min(-1, keepdims=True)
