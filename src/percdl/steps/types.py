"""Types that the steps exchange: signals, events and statistics of a chunk of subjects."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Bool, Complex, Float, Int


class Pins(NamedTuple):
    """Constraints on the codes of recordings, see `percdl.algorithm.pins`.

    Attributes
    ----------
    allowed : array (S, C, V)
        Where an activation of each choice of atom and length may begin.
    covered : array (S, N)
        Samples that an activation has to cover.
    """

    allowed: Bool[Array, "S C V"]
    covered: Bool[Array, "S N"]


class Signals(NamedTuple):
    """A chunk of recordings, padded with zeros at the end to a common length N.

    Attributes
    ----------
    values : array (S, N, P)
        Samples; zero where missing or beyond the end.
    lengths : array (S,)
        Number of samples of each recording (0 for a row that only fills the chunk).
    observed : array (S, N, Q) or None
        One where observed, zero where missing, with Q = 1 (all channels alike) or Q = P.
        None when nothing is missing.
    spectrum : array (S, P, N // 2 + 1), optional
        Fourier transforms of the values, if there is room to keep them between rounds.
    pins : Pins, optional
        Constraints on the codes, if there are corrections.
    """

    values: Float[Array, "S N P"]
    lengths: Int[Array, " S"]
    observed: Float[Array, "S N Q"] | None
    spectrum: Complex[Array, "S P F"] | None = None
    pins: Pins | None = None


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

    Attributes
    ----------
    moment : array (S, K, L + 2R, P)
        ``m = sum_j z_j y_j``.
    weight : array (S, K, L + 2R, Q)
        ``w = sum_j z_j^2`` over the observed samples.
    count : array (S, K)
        Number of activations.
    """

    moment: Float[Array, "S K Lw P"]
    weight: Float[Array, "S K Lw Q"]
    count: Int[Array, "S K"]
