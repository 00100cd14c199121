"""Activations that last longer or shorter than the atom: the lengths that a coder tries.

An activation of another length is the atom g resampled, ``z D g``, with a map D for each length.
Statistics are in the time of the atom (*common time*), so nothing else depends on lengths. Since
``D^T D`` is not diagonal, they are those of a bound: with the diagonal W of row sums,
``g^T D^T D g <= g0^T D^T D g0 + 2 (g - g0)^T D^T D g0 + (g - g0)^T W (g - g0)``, with equality at
the atom g0 of the coding. A step that lowers the bound lowers the objective.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from percdl.signals.reconstruction import read_between, read_dilated


class Readings(NamedTuple):
    """The linear maps between an atom and its activations of D lengths.

    ``dilate`` reads an atom of L samples at the samples of the activations, W of the longest.
    ``contract`` is its transpose, for windows that begin ``n_before`` samples before the onset,
    with margins in common time on both sides.
    """

    dilate: Float[np.ndarray, "D W L"]
    contract: Float[np.ndarray, "D Lw V"]
    n_before: int


@lru_cache(maxsize=32)
def make_readings(lengths: tuple[int, ...], atom_length: int, margin: int = 0) -> Readings:
    """Return the readings of activations of given lengths, for windows with a margin."""
    spacing = (atom_length - 1) / (np.array(lengths) - 1)  # of samples, in common time
    n_before = int(np.ceil(margin / spacing.min()))
    wide = np.arange(-margin, atom_length + margin)
    n_wide = max(lengths) + 2 * n_before
    dilate = np.zeros((len(lengths), max(lengths), atom_length))
    contract = np.zeros((len(lengths), len(wide), n_wide))
    inner = slice(margin, margin + atom_length)
    for d, (length, step) in enumerate(zip(lengths, spacing, strict=True)):
        dilate[d, :length] = read_dilated(atom_length, length)
        times = (np.arange(n_wide) - n_before) * step
        contract[d] = read_between(wide, times, max(1.0, step)) / step
        contract[d, inner] = 0
        contract[d, inner, n_before : n_before + length] = dilate[d, :length].T
    return Readings(dilate, contract, n_before)


def dilate_atoms(
    atoms: Float[Array, "S K L P"],
    lengths: tuple[int, ...],
    pairs: tuple[tuple[int, int], ...] | None = None,
) -> Float[Array, "S C W P"]:
    """Return atoms at some lengths, zero beyond their ends.

    ``pairs`` are atoms and lengths, as positions; by default all, with lengths varying fastest.
    """
    table = jnp.asarray(make_readings(lengths, atoms.shape[2]).dilate, atoms.dtype)
    if pairs is None or len(pairs) == atoms.shape[1] * len(lengths):
        dilated = jnp.einsum("dwl,sklp->skdwp", table, atoms)
        return dilated.reshape(atoms.shape[0], -1, *dilated.shape[-2:])
    which, length = np.array(pairs).T
    return jnp.einsum("cwl,sclp->scwp", table[length], atoms[:, which])
