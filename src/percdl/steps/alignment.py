"""A second start for the warp fit: monotone alignment by dynamic programming.

Gauss-Newton from the identity ends in a local minimum for about one warp in ten. An exact
monotone alignment of the atom to the mean segment, on a half-sample grid, does not. The
parametric warp fitted to it is a start in the right basin.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from percdl.steps.compilation import is_on_cpu
from percdl.transforms.base import divide

# The alignment moves through the atom at 0 to 3 times the normal speed, in half samples; in whole
# samples for atoms longer than LONG, where a sixtieth of the duration is fine enough.
LONG = 60
MAX_SPEED = 3
# Cost of an unusual speed, relative to the energy of the segment: breaks ties on flat parts.
SPEED_COST = 1e-3


def align(
    atom: Float[Array, "L P"], moment: Float[Array, "B L P"], weight: Float[Array, "B L Q"]
) -> Float[Array, "B L"]:
    """Return, per subject, the increasing path through the atom closest to its mean segment.

    The path starts at sample 0, ends at sample L-1 and is given in samples. Cost O(B L^2).
    """
    length = atom.shape[0]
    refinement = 1 if length > LONG else 2
    fine = _refine(atom, refinement)
    segment, trust = _mean_segment(atom, moment, weight)
    n_steps = MAX_SPEED * refinement + 1
    energy = jnp.sum(segment**2, axis=(1, 2)) / length
    price = SPEED_COST * energy[:, None] * (jnp.arange(n_steps) / refinement - 1) ** 2
    n_knots = fine.shape[0]
    power = fine**2 if trust.shape[2] > 1 else jnp.sum(fine**2, axis=1, keepdims=True)
    # trust (segment - fine)^2 up to a constant, at all samples and knots, as a single product.
    of_segment = jnp.concatenate([trust, -2 * trust * segment], axis=2)
    cost = jnp.einsum("blp,kp->blk", of_segment, jnp.concatenate([power, fine], axis=1))

    def advance(before, sample):
        reach, speed = before + price[:, :1], jnp.zeros(before.shape, jnp.int8)
        for step in range(1, min(n_steps, n_knots)):
            slower = jnp.pad(before[:, :-step], ((0, 0), (step, 0)), constant_values=jnp.inf)
            faster = slower + price[:, step : step + 1]
            speed = jnp.where(faster < reach, jnp.int8(step), speed)
            reach = jnp.minimum(faster, reach)
        return reach + cost[:, sample], speed

    start = jnp.full((moment.shape[0], n_knots), jnp.inf, moment.dtype).at[:, 0].set(0)
    # In one turn of a loop an accelerator would write little, and wait between the turns.
    unroll = 1 if is_on_cpu() else 8
    _, speeds = jax.lax.scan(advance, start, jnp.arange(1, length), unroll=unroll)

    def retreat(knot, speed):
        before = knot - jnp.squeeze(jnp.take_along_axis(speed, knot[:, None], axis=1), 1)
        return before, before

    last = jnp.full(moment.shape[0], n_knots - 1, jnp.int32)
    _, path = jax.lax.scan(retreat, last, speeds, reverse=True, unroll=unroll)
    path = jnp.concatenate([path.T, last[:, None]], axis=1)
    return path.astype(moment.dtype) / refinement


def _refine(atom, refinement):
    """Insert linearly interpolated points between samples."""
    between = jnp.arange(refinement)[:, None] / refinement
    woven = atom[:-1, None] + between * (atom[1:] - atom[:-1])[:, None]
    return jnp.concatenate([woven.reshape(-1, atom.shape[1]), atom[-1:]])


def _mean_segment(atom, moment, weight):
    """Return the mean segment at the scale of the atom, and the weight of each sample.

    A warp keeps the extreme values of an atom, so the scale uses the largest magnitude.
    """
    observed = weight > 0
    mean = divide(moment, weight)
    peak = jnp.abs(mean).max((1, 2), keepdims=True)
    scale = divide(jnp.abs(atom).max(), peak)
    return mean * scale, observed.astype(moment.dtype)
