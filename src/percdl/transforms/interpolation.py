"""Interpolation of an atom between its samples: the phi-tilde of the paper, in three variants.

Each variant is linear in the atom, so interpolation at L times is an L x L operator. Positions
are in samples, from 0 to L-1. ``"cubic"`` and ``"linear"`` return the samples unchanged at whole
positions. See decision 4 of the notes on the paper.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from percdl.exceptions import InvalidParameterError

Interpolation = Literal["cubic", "linear", "paper"]
INTERPOLATIONS: tuple[str, ...] = get_args(Interpolation)

# The paper's sigma, in samples: a compromise between smoothness and sharp peaks.
PAPER_SIGMA = 0.5


def check_interpolation(name: str, interpolation: str) -> None:
    """Raise if the interpolation is unknown."""
    if interpolation not in INTERPOLATIONS:
        raise InvalidParameterError(
            f"`{name}(interpolation={interpolation!r})` must be one of "
            f"{', '.join(INTERPOLATIONS)}."
        )


def read(
    atom: Float[Array, "L P"], position: Float[Array, "*batch L"], kind: Interpolation
) -> tuple[Float[Array, "*batch L P"], Float[Array, "*batch L P"]]:
    """Return the atom and its time derivative (per sample) at the given positions.

    Cost O(L P) per batch element for the local kernels, O(L^2 P) for ``"paper"``.
    """
    if kind == "paper":
        weights, slopes = jax.jvp(
            partial(_paper_operator, length=atom.shape[0]), (position,), (jnp.ones_like(position),)
        )
        return weights @ atom, slopes @ atom
    start, weights, slopes = stencil(position, atom.shape[0], kind)
    width, length = weights.shape[-1], atom.shape[0]
    table = _extend(atom)
    rows = jnp.stack([table[1 + o : length + o] for o in _offsets(width)], axis=1)
    near = rows[start]
    return (
        jnp.einsum("...o,...op->...p", weights, near),
        jnp.einsum("...o,...op->...p", slopes, near),
    )


def operator(
    position: Float[Array, "*batch L"], length: int, kind: Interpolation
) -> Float[Array, "*batch L L"]:
    """Return the matrix that interpolates an atom of ``length`` samples at ``position``.

    Banded (four or two entries per row) for the local kernels. Cost O(L^2).
    """
    if kind == "paper":
        return _paper_operator(position, length)
    start, weights, _ = stencil(position, length, kind)
    columns = jnp.arange(-1, length + 1)
    rows = jnp.zeros((*position.shape, length + 2), position.dtype)
    for index, offset in enumerate(_offsets(weights.shape[-1])):
        hit = columns == (start + offset)[..., None]
        rows = rows + jnp.where(hit, weights[..., index, None], 0)
    # Fold the two ghost samples back: phi[-1] = 2 phi[0] - phi[1], the same at the end.
    left, right, matrix = rows[..., 0], rows[..., -1], rows[..., 1:-1]
    matrix = matrix.at[..., 0].add(2 * left).at[..., 1].add(-left)
    return matrix.at[..., -1].add(2 * right).at[..., -2].add(-right)


def normal_equations(
    position: Float[Array, "S L"],
    weight: Float[Array, "S L"],
    moment: Float[Array, "S L P"],
    kind: Interpolation,
) -> tuple[Float[Array, "L L"], Float[Array, "L P"]]:
    """Return ``sum_s T_s^T W_s T_s`` and ``sum_s T_s^T m_s`` of a local kernel.

    A row of T has a few entries side by side, so only the products of neighbours are added
    up, for each interval of the atom that is read: O(S L P) on a CPU instead of O(S L^3).
    """
    length = position.shape[1]
    start, weights, _ = stencil(position, length, kind)
    width = weights.shape[-1]
    sides = jnp.concatenate([weight[..., None] * weights, moment], axis=-1)
    # Without the barrier a compiler would compute them again for each of their products.
    weights, sides = jax.lax.optimization_barrier((weights, sides))
    columns = (weights[..., :, None] * sides[..., None, :]).reshape(*position.shape, -1)
    by_interval = _add_by_interval(columns, start, length - 1).reshape(length - 1, width, -1)
    # On the atom with its two ghost samples, interval i uses the samples from i + first on.
    first = 1 + _offsets(width)[0]
    near = first + np.arange(length - 1)[:, None] + np.arange(width)
    gram = jnp.zeros((length + 2, length + 2), position.dtype)
    gram = gram.at[near[:, :, None], near[:, None, :]].add(by_interval[..., :width])
    shared = jnp.zeros((length + 2, moment.shape[-1]), position.dtype)
    shared = shared.at[near].add(by_interval[..., width:])
    ghosts = _extend(jnp.eye(length, dtype=position.dtype))
    return ghosts.T @ gram @ ghosts, ghosts.T @ shared


def _add_by_interval(columns: Float[Array, "S L q"], start: Int[Array, "S L"], n_intervals: int):
    """Add up the columns that start in the same interval of the atom, array (n_intervals, q)."""
    if jax.default_backend() == "cpu":
        return jax.ops.segment_sum(
            columns.reshape(-1, columns.shape[-1]), start.reshape(-1), n_intervals
        )
    # An accelerator would add in no fixed order; a product of matrices is reproducible.
    reads = (start[..., None] == jnp.arange(n_intervals)).astype(columns.dtype)
    return jnp.einsum("sli,slq->iq", reads, columns)


def _offsets(width: int) -> range:
    return range(-1, 3) if width == 4 else range(2)


def _extend(atom: Float[Array, "L P"]) -> Float[Array, "L2 P"]:
    """Add one linearly extrapolated ghost sample at each end (one-sided end slopes)."""
    return jnp.concatenate([2 * atom[:1] - atom[1:2], atom, 2 * atom[-1:] - atom[-2:-1]])


def stencil(position, length, kind):
    """Return the first sample of each interval, the weights of its neighbours, their slopes."""
    start = jnp.clip(jnp.floor(position), 0, length - 2)
    u = position - start
    if kind == "linear":
        weights, slopes = (1 - u, u), (-jnp.ones_like(u), jnp.ones_like(u))
    else:
        # Cubic Hermite with centred slopes (Catmull-Rom), expanded on the four neighbours.
        weights = (
            ((-0.5 * u + 1) * u - 0.5) * u,
            (1.5 * u - 2.5) * u * u + 1,
            ((-1.5 * u + 2) * u + 0.5) * u,
            (0.5 * u - 0.5) * u * u,
        )
        slopes = (
            (-1.5 * u + 2) * u - 0.5,
            (4.5 * u - 5) * u,
            (-4.5 * u + 4) * u + 0.5,
            (1.5 * u - 1) * u,
        )
    return start.astype(jnp.int32), jnp.stack(weights, -1), jnp.stack(slopes, -1)


def _paper_operator(position, length):
    """Gaussian weights that sum to one, each with the linear extrapolation of its knot."""
    offset = position[..., None] - jnp.arange(length)
    weights = jax.nn.softmax(-(offset**2) / (2 * PAPER_SIGMA**2), axis=-1)
    climb = (weights * offset).at[..., -1].set(0)  # the last slope is zero
    return weights - climb + jnp.roll(climb, 1, axis=-1)
