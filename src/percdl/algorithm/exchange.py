"""Messages between sites and server: sums one way, a broadcast the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial, reduce
from typing import TypeVar

import numpy as np

T = TypeVar("T")
# Number of sums that are added at once, if they come from many places.
BRANCHES = 8
# The default of sums that a round does not need: an empty array.
_nothing = partial(np.zeros, 0)


@dataclass(frozen=True)
class Sums:
    """Sums over subjects, in float64: the only output of a local round (decision 10).

    Attributes
    ----------
    objective : float
        Objective after the CSC half-step.
    objective_fitted : float
        Objective after the IPU half-step, with the codes of the round before.
    energy : float
        Sum of squared samples plus the price of the activations: what the objective would
        be if nothing were explained.
    signal : float
        Sum of squared samples.
    counts : array (K,)
        Activations per atom.
    moment, weight : arrays (K, L + 2R, P), (K, L + 2R, Q)
        Statistics for CDU, and for the windows of the atoms; empty in the second phase if
        nothing is searched and structure is shared.
    ztx, ztz : arrays (K, L, P), (K, K, 2 L - 1)
        Statistics for CDU if activations may overlap and no sample is missing; else empty.
    gram, transported : arrays (K, G, n, n), (K, L, P)
        Statistics for PerCDU; empty in the first phase, without shared structure and in the
        robust variant.
    copies : array (K, L, P)
        Sum of the subjects' copies of the atoms, in the robust variant of the second phase; else
        empty.
    warp, squared_displacement, inverse_warp : arrays (K, C, L)
        Sums of the warps, of their squared distances to the identity and of their inverses,
        for centering; empty for other transforms, the last two also if nothing is refitted.
    warp_sines, squared_sines : arrays (K, C, L, n), (K, C, n)
        Sums of the sines of the warps and of the squared sine coefficients of their displacements,
        for centering as well.
    warp_moment : array (K, C, m, m)
        Sum of the expected squares of the coordinates of the warps, for the prior; else empty.
    mixing : array (K, M)
        Sum of the parameters that mix channels, for centering; empty for other transforms.
    n_warps : array (K,)
        The number of subjects with the atom, whose copies, warps and mixtures are summed.
    misfit : array (K, 2)
        Unexplained and total energy of the mean segments; empty if nothing is searched.
    """

    objective: float
    objective_fitted: float
    energy: float
    signal: float
    counts: np.ndarray
    moment: np.ndarray = field(default_factory=_nothing)
    weight: np.ndarray = field(default_factory=_nothing)
    ztx: np.ndarray = field(default_factory=_nothing)
    ztz: np.ndarray = field(default_factory=_nothing)
    gram: np.ndarray = field(default_factory=_nothing)
    transported: np.ndarray = field(default_factory=_nothing)
    copies: np.ndarray = field(default_factory=_nothing)
    warp: np.ndarray = field(default_factory=_nothing)
    squared_displacement: np.ndarray = field(default_factory=_nothing)
    inverse_warp: np.ndarray = field(default_factory=_nothing)
    warp_sines: np.ndarray = field(default_factory=_nothing)
    squared_sines: np.ndarray = field(default_factory=_nothing)
    warp_moment: np.ndarray = field(default_factory=_nothing)
    mixing: np.ndarray = field(default_factory=_nothing)
    n_warps: np.ndarray = field(default_factory=_nothing)
    misfit: np.ndarray = field(default_factory=_nothing)

    def __add__(self, other: Sums) -> Sums:
        """Add field by field; this is the only operation a runtime performs on sums."""
        return Sums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @staticmethod
    def total(parts: Iterable[Sums]) -> Sums:
        """Add sums up in the order given, so that the result does not depend on scheduling."""
        return reduce(Sums.__add__, parts)


def add_in_tree(parts: Sequence[T], add: Callable[[Sequence[T]], T]) -> T:
    """Add many parts by a tree with `BRANCHES` branches that depends only on their number.

    ``parts`` are sums, or represent sums in other places, and ``add`` adds some of them, in
    order. The result does not depend on where and when, to the bit.
    """
    while len(parts) > 1:
        parts = [add(parts[i : i + BRANCHES]) for i in range(0, len(parts), BRANCHES)]
    return parts[0]


@dataclass(frozen=True)
class Broadcast:
    """The answer of the server.

    Attributes
    ----------
    dictionary : array (K, L, P)
        The common atoms, at unit norm.
    move : array (K,)
        Samples by which each atom's window has moved since the codes were made.
    gauge : array (K, C, L) or None
        The warp the dictionary was centred with; parameters must follow.
    mixing_gauge : array (K, M) or None
        The mixture of channels the dictionary was centred with; parameters must follow.
    misfit : array (K,) or None
        Share of the population's mean segments that was left unexplained.
    precision : array (K, C, m, m) or None
        Inverse covariance of the coordinates of the warps in the population.
    """

    dictionary: np.ndarray
    move: np.ndarray | None = None
    gauge: np.ndarray | None = None
    mixing_gauge: np.ndarray | None = None
    misfit: np.ndarray | None = None
    precision: np.ndarray | None = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the fields that are set, as arrays by name."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: np.asarray(value) for name, value in values.items() if value is not None}
