"""Groups of layers that move together: cheap Gauss-Newton steps for deep warps.

The layers of a warp are nearly redundant in a single step, and the cost of a step grows with
the square of its unknowns. So layers of a deep warp share unknowns. The groups change with each
turn, so every layer gets its own values in the end.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from percdl.transforms.base import Turn

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
