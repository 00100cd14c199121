"""Signals, events and statistics of a chunk of subjects, which the steps exchange."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Complex, Float, Int


class Pins(NamedTuple):
    """Constraints on the codes of recordings, see `percdl.algorithm.pins`."""

    allowed: Bool[Array, "S C V"]  # where an activation of each atom and length may begin
    covered: Bool[Array, "S N"]  # samples that an activation has to cover


class Signals(NamedTuple):
    """A chunk of recordings, padded with zeros at the end to a common length N.

    ``observed`` is one where a sample was observed and zero elsewhere, with Q = 1 (all channels
    alike) or Q = P; None if nothing is missing.
    """

    values: Float[Array, "S N P"]  # zero where missing or beyond the end
    lengths: Int[Array, " S"]  # in samples; 0 for a row that only fills the chunk
    observed: Float[Array, "S N Q"] | None
    spectrum: Complex[Array, "P S F"] | None = None  # of the values, if there is room to keep it
    pins: Pins | None = None  # if there are corrections


class Events(NamedTuple):
    """Sparse activations Z, in order of onset; empty slots have amplitude 0 and onset N.

    ``length`` is the position of an activation's length in the coder's list, if it has several.
    """

    onset: Int[Array, "S E"]
    atom: Int[Array, "S E"]
    amplitude: Float[Array, "S E"]
    length: Int[Array, "S E"] | None = None


class Statistics(NamedTuple):
    """The two sufficient statistics of each subject and atom (decision 7), on a wide window.

    The window extends R samples beyond the atom on both sides, so that IPU can compute the
    statistics for earlier or later onsets. Samples of the margins that belong to another
    activation, or to no recording, count as missing.
    """

    moment: Float[Array, "S K Lw P"]  # m = sum_j z_j y_j
    weight: Float[Array, "S K Lw Q"]  # w = sum_j z_j^2, over the observed samples
    count: Int[Array, "S K"]  # number of activations


def pick(which: Bool[Array, " S"], new: Any, old: Any) -> Any:
    """Return the rows of the arrays in ``new`` where ``which``, and those in ``old`` elsewhere."""

    def pick_rows(a: Array, b: Array) -> Array:
        return jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(pick_rows, new, old)
