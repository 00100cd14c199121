"""Search for common shifts of a subject's onsets; not part of the paper's plain algorithm.

A warp has fixed ends, so it cannot undo a shift. If all onsets of a subject are a few samples
off, the fit is stuck, and the dictionary inherits the offset. Statistics on a window with margins
determine the moments at any common shift, so a shift can be tried without the signal. Each try
starts from a monotone alignment of the atom to the mean segment (`alignment`), which avoids the
local minima of the warp fit.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from percdl.steps.alignment import align
from percdl.steps.compilation import is_on_cpu
from percdl.steps.ipu import explained_energy, gauss_newton
from percdl.steps.prior import Prior
from percdl.steps.statistics import at_shift
from percdl.transforms.base import Atom, ClosedFormTransform, WarpTransform, require

# Number of shifts that are fitted: those with the best alignment.
N_TRIES = 2
# Relative gain in explained energy that a shift needs to be preferred.
PREFERENCE = 1e-6


def search(
    transform: WarpTransform,
    atom: Atom,
    moment: Float[Array, "B Lw P"],
    weight: Float[Array, "B Lw Q"],
    start: tuple[Float[Array, "B M"], Int[Array, " B"]],
    shifts: Int[Array, " T"],
    align_first: bool,
    n_steps: int,
    prior: Prior | None = None,
) -> tuple[Float[Array, "B M"], Int[Array, " B"]]:
    """Return the parameters and the shift of the best fit.

    Tries the parameters and shift of ``start``, then the ``shifts`` (relative to it) with the
    best alignment, with ``n_steps`` Gauss-Newton iterations per try. Cost O(T B L^2) to screen,
    O(B L M^2) per try.
    """
    advice = "Fit without a search: `realign=False, multistart=False`."
    require(transform, WarpTransform, "search", advice)
    length = atom.shape[0]
    margin = (moment.shape[1] - length) // 2
    params, shift = start

    def at(shift):
        return at_shift(moment, shift, length), at_shift(weight, shift, length)

    def screen(move):
        moved = jnp.clip(shift + move, -margin, margin)
        path = align(atom, *at(moved))[:, None] if align_first else own
        path = jnp.broadcast_to(path, own.shape)
        return explained_energy(transform.resample(atom, path), *at(moved))[0], moved, path

    def attempt(index):
        # The first try starts from the current parameters.
        ranked = ranking[jnp.maximum(index - 1, 0)], rows
        moved = jnp.where(index == 0, shift, shifts_tried[ranked])
        begin = transform.approximate(paths[ranked]) if align_first else params
        begin = jnp.where(index == 0, params, begin)
        found, explained = gauss_newton(transform, atom, *at(moved), begin, n_steps, prior=prior)
        return explained, found, moved

    rows = jnp.arange(moment.shape[0])
    own = transform.warp(params, *atom.shape)
    # On a CPU, one shift at a time stays in the cache; an accelerator needs all at once.
    each = jax.lax.map if is_on_cpu() else lambda f, x: jax.vmap(f)(x)
    promise, shifts_tried, paths = each(screen, shifts)
    n_tries = 1 + min(N_TRIES, len(shifts))
    ranking = _rank(promise, n_tries - 1)
    explained, found, moved = each(attempt, jnp.arange(n_tries))
    best, most = jnp.zeros_like(rows), explained[0]
    for i in range(1, n_tries):
        better = explained[i] > most * (1 + PREFERENCE)
        best, most = jnp.where(better, i, best), jnp.where(better, explained[i], most)
    return found[best, rows], moved[best, rows]


def _rank(promise: Float[Array, "T B"], n_first: int) -> Int[Array, "n B"]:
    """Return the indices of the largest entries along the first axis, largest first.

    A sort would take longer to compile than the rest of a try.
    """
    places = []
    for _ in range(n_first):
        place = jnp.argmax(promise, axis=0)
        places.append(place)
        promise = jnp.where(jnp.arange(len(promise))[:, None] == place, -jnp.inf, promise)
    return jnp.stack(places)


def best_window(
    transform: ClosedFormTransform,
    atom: Atom,
    moment: Float[Array, "B Lw P"],
    weight: Float[Array, "B Lw Q"],
) -> Int[Array, " B"]:
    """Return the common shift with the best closed-form fit; no shift in a tie."""
    length = atom.shape[0]
    margin = (moment.shape[1] - length) // 2
    still = jnp.zeros(moment.shape[0], jnp.int32)

    def explained(shift):
        at = at_shift(moment, shift, length), at_shift(weight, shift, length)
        return explained_energy(transform.apply(transform.solve(atom, *at), atom), *at)[0]

    def consider(index, best):
        shift, most = best
        moved = jnp.full_like(shift, index - margin)
        reached = explained(moved)
        better = reached > most * (1 + PREFERENCE)
        return jnp.where(better, moved, shift), jnp.where(better, reached, most)

    return jax.lax.fori_loop(0, 2 * margin + 1, consider, (still, explained(still)))[0]
