"""Votes to move the window of an atom by one sample.

A warp keeps the ends of an atom fixed. If the window of an atom is off by one sample, it begins
(or ends) in the silence beside the pattern and cuts the pattern at the other end. Every subject
can be fitted like that, a little worse, so neither codes nor warps correct it. But the ends are
louder than those of the neighbouring window. Each subject votes for the window that fits its own
segments best, and a large majority moves the atom.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

MOVES = (-1, 0, 1)
# Share of the votes that moves an atom; with less, the next round often undoes the move.
MAJORITY = 2 / 3
# A subject votes for another window if its ends have less than this share of the energy...
QUIETER = 0.5
# ... and the window loses at most this share of the energy inside.
MOST_LOST = 1e-3


def prefer_windows(
    energy: Float[Array, "S Lw"], seen: Bool[Array, "S Lw"], atom_length: int
) -> Float[Array, "S 3"]:
    """Return one vote of each subject, for one of `MOVES`.

    ``energy`` is that of a subject's mean segment at each sample of a window with equal margins on
    both sides; without margins a window stays. Samples that were never ``seen`` are not silent:
    no window moves to or from such an end.
    """
    margin = (energy.shape[1] - atom_length) // 2
    stay = jnp.tile(jnp.asarray([0, 1, 0], energy.dtype), (len(energy), 1))
    if margin == 0:
        return stay
    firsts = [margin + move for move in MOVES]
    ends = jnp.stack([energy[:, i] + energy[:, i + atom_length - 1] for i in firsts], 1)
    known = jnp.stack([seen[:, i] & seen[:, i + atom_length - 1] for i in firsts], 1)
    inside = jnp.stack([energy[:, i : i + atom_length].sum(1) for i in firsts], 1)
    fine = (ends < QUIETER * ends[:, 1:2]) & (inside >= (1 - MOST_LOST) * inside[:, 1:2])
    fine &= known & known[:, 1:2]
    best = jnp.argmin(jnp.where(fine, ends, jnp.inf), axis=1)
    wish = (best[:, None] == jnp.arange(3)).astype(energy.dtype)
    return jnp.where(fine.any(1, keepdims=True), wish, stay)


def elect_windows(votes: Float[np.ndarray, "K 3"]) -> Int[np.ndarray, " K"]:
    """Return the move of each atom's window, in samples, by a large majority."""
    wanted = votes > MAJORITY * votes.sum(1, keepdims=True)
    return wanted @ np.array(MOVES)


def move_windows(
    dictionary: Float[np.ndarray, "K L P"], moves: Int[np.ndarray, " K"]
) -> Float[np.ndarray, "K L P"]:
    """Return the atoms in the moved windows; the end sample is repeated."""
    samples = np.arange(dictionary.shape[1])
    inside = np.clip(samples + moves[:, None], 0, samples[-1])
    return np.take_along_axis(dictionary, inside[..., None], axis=1)
