"""Joint local descent on a subject's parameters and on a copy of its atom (Appendix B).

This is the robust variant of the dictionary update. PerCDU treats the parameters as exact. Here
every subject moves a copy of the common atom together with its parameters, towards its own
segments, and the copies are averaged. A subject minimizes its share of the objective with fixed
codes,

``<w, f(copy, a)^2> - 2 <m, f(copy, a)> = <w, (f(copy, a) - y)^2> - const``, ``y = m / w``,

plus the price of the parameters. The codes were found with ``f(atom, a)``, so amplitudes match
that atom. Copies start at its norm, so they have a common scale and can be averaged.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from percdl.steps.ipu import total_price
from percdl.transforms.base import Atom, Transform, divide

# Maximum step. The gradient can vanish while the misfit does not: samples that no copy reaches
# through the warp, a price, the boundary of Theta.
MAX_STEP = 1.0


def descend(
    transform: Transform,
    atom: Atom,
    moment: Float[Array, "B L P"],
    weight: Float[Array, "B L Q"],
    params: Float[Array, "B M"],
    n_steps: int | Int[Array, ""],
) -> tuple[Float[Array, "B M"], Float[Array, "B L P"]]:
    """Descend on parameters and copies of B subjects at once; return both.

    Each step is a gradient step in both, with the Polyak length ``misfit / |gradient|^2``. The
    infimum of the misfit is zero, because a free copy can explain any mean segment. For
    ``f(phi, a) = phi`` a step halves the distance between copy and mean segment, so a subject
    keeps about ``2^-n_steps`` of the common atom. A step that would not lower the misfit is
    halved instead, so the misfit never increases. Samples that a subject has not observed keep
    the common value. Cost O(L M) per step and subject.
    """

    def descend_one(moment, weight, params):
        seen = jnp.broadcast_to(weight, moment.shape)
        total = jnp.sum(seen)
        scale = divide(jnp.full_like(total, seen.size), total)

        def misfit(point):
            params, copy = point
            return scale * local_misfit(transform, params, copy, moment, weight)

        def advance(_, state):
            point, value, share = state
            slope = jax.grad(misfit)(point)
            square = sum(jnp.vdot(x, x) for x in slope)
            # With a zero gradient no length lowers the misfit, and the step is rejected.
            length = share * jnp.minimum(value / square, MAX_STEP)
            moved, copy = jax.tree.map(lambda x, d: x - length * d, point, slope)
            trial = transform.project(moved), copy
            reached = misfit(trial)
            better = reached < value
            point, value = jax.tree.map(
                lambda new, old: jnp.where(better, new, old), (trial, reached), (point, value)
            )
            return point, value, jnp.where(better, share, share / 2)

        start = params, atom
        state = start, misfit(start), jnp.ones((), moment.dtype)
        (params, copy), _, _ = jax.lax.fori_loop(0, n_steps, advance, state)
        return params, copy

    return jax.vmap(descend_one)(moment, weight, params)


def local_misfit(
    transform: Transform,
    params: Float[Array, " M"],
    copy: Atom,
    moment: Float[Array, "L P"],
    weight: Float[Array, "L Q"],
) -> Float[Array, ""]:
    """Return ``<w, (f(copy, a) - y)^2>`` and the price of the parameters, ``y = m / w``.

    This is the distance of the personal atom to the mean segment of one subject.
    """
    mean = divide(moment, weight)
    off = transform.apply(params, copy) - mean
    return jnp.sum(weight * off**2) + total_price(transform, params)


def average_copies(
    copies: np.ndarray, n_subjects: np.ndarray, dictionary: np.ndarray
) -> np.ndarray:
    """Return ``phi_k = sum_s copy_k^s / S_k`` from sums over the S_k subjects with the atom.

    Every subject counts once, whatever its number of cycles, as in the paper. An unused atom is
    kept (decision 11).

    >>> average_copies(np.full((2, 3, 1), 6.0), np.array([3.0, 0.0]), np.ones((2, 3, 1)))[:, 0, 0]
    array([2., 1.])
    """
    shared = n_subjects[:, None, None]
    return np.where(shared > 0, copies / np.maximum(shared, 1), dictionary)
