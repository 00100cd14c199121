"""How activations are found: what a user says about CSC."""

from __future__ import annotations

from typing import NamedTuple


class L0Coder(NamedTuple):
    """Code exactly, at a price for each activation, without overlap.

    What a code may look like; hashable, so that it can be static in compiled programs. Cost
    O(K P N log N + (N / L)^2) per recording; with ``max_activations`` O(N max_activations) more.

    Parameters
    ----------
    signed : bool
        Whether amplitudes may be negative.
    min_gap : int
        Least number of samples between the end of an activation and the next onset.
    max_activations : int or None
        Most activations per recording, over all atoms.

    Examples
    --------
    >>> L0Coder(min_gap=20)
    L0Coder(signed=False, min_gap=20, max_activations=None)
    """

    signed: bool = False
    min_gap: int = 0
    max_activations: int | None = None


class L1Coder(NamedTuple):
    """Code with an l1 penalty: activations may overlap, and there may be many small ones.

    For patterns that run into one another, where the exact coder without overlap must choose.
    The penalty is then the price of a unit of amplitude, in signal units. Cost
    O(K N (P + log N)) a step and recording, see `encode_l1`.

    Parameters
    ----------
    signed : bool
        Whether amplitudes may be negative.
    n_steps : int
        Most steps of a coding; each starts from the activations of the round before.
    tolerance : float
        Duality gap, relative to the objective, at which a coding ends.

    Examples
    --------
    >>> L1Coder(signed=True)
    L1Coder(signed=True, n_steps=1000, tolerance=0.001)
    """

    signed: bool = False
    n_steps: int = 1000
    tolerance: float = 1e-3
