"""Where do a subject's onsets really lie? The search that the paper's plain algorithm lacks.

A warp has fixed ends, so it cannot undo a shift. If the onsets of a subject are all a few
samples off, the fit is stuck, and the dictionary inherits the offset. The statistics on a
window with margins say what the moments would be at any common shift, so a shift can be
tried without looking at the signal again. Each try starts from a monotone alignment of the
atom to the mean segment (`alignment`), which avoids the local minima of the warp fit.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from percdl.steps.alignment import align
from percdl.steps.ipu import explained_energy, gauss_newton
from percdl.steps.statistics import at_shift
from percdl.steps.warp_fit import fit_warp
from percdl.transforms.base import Atom, ClosedFormTransform, WarpTransform

# Gauss-Newton iterations from the identity to the alignment; the fit itself does the rest.
N_ALIGN_STEPS = 2
# A shift must explain this much more than its rival, relative, to be preferred.
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
) -> tuple[Float[Array, "B M"], Int[Array, " B"]]:
    """Return the parameters and the shift from which the fit explains most.

    Tries the parameters and shift of ``start``, then each of ``shifts``, relative to it,
    with ``n_steps`` Gauss-Newton iterations a try.
    Cost O(T B (L M^2 + L^2)).
    """
    length = atom.shape[0]
    margin = (moment.shape[1] - length) // 2
    params, shift = start

    def attempt(params, shift, align_first):
        at = at_shift(moment, shift, length), at_shift(weight, shift, length)
        if align_first:
            params = _aligned_start(transform, atom, *at)
        return gauss_newton(transform, atom, *at, params, n_steps)

    def consider(index, best):
        best_params, best_shift, best_explained = best
        moved = jnp.clip(shift + shifts[index], -margin, margin)
        found, explained = attempt(params, moved, align_first)
        better = explained > best_explained * (1 + PREFERENCE)
        return (
            jnp.where(better[:, None], found, best_params),
            jnp.where(better, moved, best_shift),
            jnp.where(better, explained, best_explained),
        )

    current, explained = attempt(params, shift, False)
    best = jax.lax.fori_loop(0, len(shifts), consider, (current, shift, explained))
    return best[0], best[1]


def best_window(
    transform: ClosedFormTransform,
    atom: Atom,
    moment: Float[Array, "B Lw P"],
    weight: Float[Array, "B Lw Q"],
) -> Int[Array, " B"]:
    """Return the common shift at which a closed-form fit explains most; stay put in a tie."""
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


def _aligned_start(transform, atom, moment, weight):
    """Return the parameters of the warp closest to the alignment of atom and mean segment."""
    neutral = jnp.broadcast_to(
        transform.neutral(atom), (moment.shape[0], transform.n_params(*atom.shape))
    )
    path = align(atom, moment, weight)
    n_warps = transform.warp(neutral[:1], *atom.shape).shape[-2]
    target = jnp.broadcast_to(path[:, None], (path.shape[0], n_warps, path.shape[1]))
    return fit_warp(transform, target, neutral, atom.shape[1], N_ALIGN_STEPS)
