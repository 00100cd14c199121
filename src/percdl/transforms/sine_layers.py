"""Layers of sines, the building blocks of a warp (Eqs. 4-5), and their derivatives.

The layers of a deep warp are nearly redundant in a single Gauss-Newton step, whose cost grows
with the square of its unknowns. So layers share unknowns, in groups that change with each turn:
every layer gets its own values in the end.
"""

from __future__ import annotations

from math import factorial, pi
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from percdl.transforms.base import Turn


def sincospi(x: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Return ``sin(pi x)`` and ``cos(pi x)``.

    There are two reasons not to call ``jnp.sin(jnp.pi * x)``. ``sin(pi w)`` is exactly zero for
    whole w, so warps keep their ends fixed to the last bit. And on a CPU, XLA calls a scalar
    sine, which would dominate the cost of IPU (six times slower on an ARM core); a polynomial on
    the reduced argument is vectorized.
    """
    turn = jnp.round(x)
    r = x - turn
    sign = 1 - 2 * (turn - 2 * jnp.floor(turn / 2))
    # Taylor series on |r| <= 1/2: the next term is below half a unit in the last place.
    n_terms = 6 if x.dtype == jnp.float32 else 11
    square = r * r
    sine = _horner([_term(2 * k + 1) for k in range(n_terms)], square) * r
    cosine = _horner([_term(2 * k) for k in range(n_terms + 1)], square)
    return sign * sine, sign * cosine


def _term(power: int) -> float:
    """Return the coefficient of ``r ** power`` in sin(pi r) or cos(pi r)."""
    return (-1) ** (power // 2) * pi**power / factorial(power)


def _horner(coefficients: list[float], x):
    result = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


def pass_through(layers: Float[Array, "D *batch W"], atom_length: int):
    """Return the displacement (..., L) of all layers, the times at each layer, and its slope.

    It is a scan, because XLA would inline a loop and evaluate the layers once per use.
    """
    time = grid(atom_length, layers.dtype)

    def advance(displacement, layer):
        moved, slope = displace(time + displacement, layer)
        return displacement + moved, (time + displacement, slope)

    start = jnp.zeros((*layers.shape[1:-1], atom_length), layers.dtype)
    return jax.lax.scan(advance, start, layers)


def stretch_by_later(slopes: Float[Array, "D *batch L"]) -> Float[Array, "D *batch L"]:
    """Return, per layer, the product of the slopes of the later layers (chain rule)."""
    depth = len(slopes)
    # With few layers, comparing all pairs compiles and runs faster than a scan.
    is_later = np.arange(depth) > np.arange(depth)[:, None]
    is_later = is_later.reshape(depth, depth, *[1] * (slopes.ndim - 1))
    return jnp.where(is_later, slopes, 1).prod(1)


def grid(atom_length: int, dtype) -> Float[Array, " L"]:
    """Return the sampling times t_i = i / (L - 1) (decision 3)."""
    return jnp.arange(atom_length, dtype=dtype) / (atom_length - 1)


def in_samples(displacement: Float[Array, "*batch L"], atom_length: int):
    """Return ``t + displacement`` in samples; no displacement returns exactly 0..L-1."""
    last = atom_length - 1
    return jnp.clip(jnp.arange(atom_length) + last * displacement, 0, last)


def displace(time: Float[Array, "*#batch L"], row: Float[Array, "*#batch W"]):
    """Return the displacement of times by one layer, and psi_d', both by Clenshaw's recurrence."""
    sine, cosine = sincospi(time)
    order = np.pi * np.arange(1, row.shape[-1] + 1)
    height, _ = _clenshaw(row / jnp.asarray(order, row.dtype), cosine)
    steepness, rest = _clenshaw(row, cosine)
    return height * sine, 1 + steepness * cosine - rest


def _clenshaw(row: Float[Array, "*#batch W"], cosine: Float[Array, "*#batch L"]):
    """Return b and c: ``sum a_w sin(w x) = b sin x``, ``sum a_w cos(w x) = b cos x - c``."""
    first, second = row[..., -1:], jnp.zeros_like(row[..., -1:])
    for order in range(row.shape[-1] - 2, -1, -1):
        first, second = row[..., order : order + 1] + 2 * cosine * first - second, first
    return first, second


def sines(time: Float[Array, "*batch L"], width: int) -> Float[Array, "*batch W L"]:
    """Return sin(w pi t) / (w pi) for w = 1..W."""
    order = jnp.arange(1, width + 1, dtype=time.dtype)[:, None]
    return sincospi(time[..., None, :] * order)[0] / (jnp.pi * order)


def sine_coefficients(curve: Float[Array, "*batch L"], width: int) -> Float[Array, "*batch W"]:
    """Return the coefficients of sin(w pi t) / (w pi) in a curve that vanishes at both ends."""
    length = curve.shape[-1]
    order = np.arange(1, width + 1)
    table = np.sin(np.pi * order * np.arange(length)[:, None] / (length - 1))
    return curve @ jnp.asarray(table * order * (2 * np.pi / (length - 1)), curve.dtype)


# Maximum number of unknowns of a step per warp, unless one layer has more.
MAX_UNKNOWNS = 32


class Groups(NamedTuple):
    """Groups of layers that move together.

    ``slots`` holds the layer in each slot, group by group; slots beyond the last layer are empty.
    ``places`` is the inverse, the slot of each layer.
    """

    n_groups: int
    size: int
    slots: Int[Array, " slots"]
    places: Int[Array, " layers"]


def tie_layers(depth: int, width: int, turn: Turn) -> Groups:
    """Return the groups of a turn; without a turn every layer is its own group."""
    n_groups = depth if turn is None else min(depth, max(1, MAX_UNKNOWNS // width))
    size = -(-depth // n_groups)
    layer = np.arange(n_groups * size)
    # Four layers in pairs: the first with the second, then with the third, then with the last.
    strides = np.arange(1, max(depth, 2))[:, None]
    keys = np.where(layer < depth, layer * strides % depth, layer)
    slots = np.argsort(keys, axis=1, kind="stable")
    places = np.argsort(slots, axis=1)[:, :depth]
    row = 0 if turn is None else turn % len(slots)
    return Groups(n_groups, size, jnp.asarray(slots)[row], jnp.asarray(places)[row])


def by_group(groups: Groups, by_layer: Array) -> Array:
    """Sort values per layer into groups, array (groups, size, ...); empty slots get zeros."""
    empty = len(groups.slots) - len(groups.places)
    padded = jnp.pad(by_layer, ((0, empty), *((0, 0) for _ in by_layer.shape[1:])))
    return padded[groups.slots].reshape(groups.n_groups, groups.size, *by_layer.shape[1:])


def by_layer(groups: Groups, by_group: Float[Array, "*batch G W"]) -> Float[Array, "*batch D W"]:
    """Return for every layer the values of its group."""
    by_slot = jnp.repeat(by_group, groups.size, axis=-2)
    return jnp.take(by_slot, groups.places, axis=-2)


def project_rows_onto_l1_ball(
    rows: Float[Array, "*batch W"], radius: float
) -> Float[Array, "*batch W"]:
    """Return ``argmin_y |y - row|_2`` subject to ``|y|_1 <= radius``, for every row.

    The solution shrinks every entry by the threshold ``max_k (S_k - radius) / k``, where S_k
    sums the k largest magnitudes. Rows are short, so counting by comparison, O(W^2), is more than
    ten times faster on a CPU than the sort of ``optax.projections.projection_l1_ball`` (a sort
    costs about 0.1 microsecond per entry). A test checks that the two agree.
    """
    size = jnp.abs(rows)
    # Every entry counts itself: a compiler may compute the two sides with different rounding.
    itself = np.eye(rows.shape[-1], dtype=bool)
    at_least = (size[..., None, :] >= size[..., :, None]) | itself
    count = at_least.sum(-1)
    total = jnp.where(at_least, size[..., None, :], 0).sum(-1)
    threshold = jnp.maximum(((total - radius) / count).max(-1, keepdims=True), 0)
    return jnp.sign(rows) * jnp.maximum(size - threshold, 0)
