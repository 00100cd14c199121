"""How activations are found: the options of convolutional sparse coding (CSC)."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Lt

from percdl.parameters import Amount, Count, Doc, Duration, Nonnegative, documented, in_samples

# Neighbouring lengths differ by at most this factor. Personal warps do not move the ends of an
# atom, so the ends are off by at most 3 per cent of the atom.
LENGTH_STEP = 1.06


@documented
@dataclass(frozen=True)
class L0Coder:
    """Code exactly, at a price for each activation, without overlap.

    Hashable, so that it can be static in compiled programs. Cost
    O(K P N log N + (N / L)^2) per recording, times the number of lengths that are tried; with
    ``max_activations`` O(N max_activations) more.

    Examples
    --------
    >>> L0Coder(min_gap=20) == L0Coder(min_gap="0.2s").at_rate(100)
    True
    """

    signed: Annotated[bool, Doc("Allow negative amplitudes.")] = False
    min_gap: Annotated[
        Amount | Duration,
        Doc(
            "Least time between the end of an activation and the next onset, in samples or as a "
            'duration ("0.2s").'
        ),
    ] = 0
    max_activations: Annotated[
        Count | None, Doc("Largest number of activations per recording, over all atoms.")
    ] = None
    stretch: Annotated[
        Annotated[float, Ge(1), Lt(10)],
        Doc(
            "How many times longer or shorter than the atom an activation may be. At 1 all have "
            "the atom's length; at 2 they last between half of it and twice as long, and "
            "neighbouring lengths differ by 6 per cent. Not with Huber's loss."
        ),
    ] = 1.0
    baseline: Annotated[
        Literal["none", "offset", "line"],
        Doc(
            "The baseline of each activation, per channel: nothing, an offset or a straight "
            "line. It is fitted and ignored, so that drift needs no filter. Not with Huber's loss."
        ),
    ] = "none"
    polarity: Annotated[
        Literal["common", "person"],
        Doc(
            'The sign of all amplitudes of a recording: positive, or with "person" the one that '
            "explains more of it, for recordings of which some are upside down."
        ),
    ] = "common"

    def lengths(self, atom_length: int) -> tuple[int, ...]:
        """Return the lengths of activations to try, in samples and increasing.

        >>> L0Coder(stretch=1.2).lengths(50)
        (42, 44, 46, 48, 50, 52, 55, 57, 60)
        """
        n_steps = int(np.ceil(np.log(self.stretch) / np.log(LENGTH_STEP) - 1e-9))
        factors = self.stretch ** (np.arange(-n_steps, n_steps + 1) / max(n_steps, 1))
        lengths = np.maximum(np.rint(atom_length * factors).astype(int), 2)
        return tuple(np.unique(lengths).tolist())

    def lengths_of(self, atom: int, atom_length: int) -> tuple[int, ...]:
        """Return the lengths that are tried for one atom."""
        return self.lengths(atom_length)

    def pairs(self, n_atoms: int, atom_length: int) -> tuple[tuple[int, int], ...]:
        """Return the choices of an activation: an atom, and the position of one of the lengths."""
        place = {length: d for d, length in enumerate(self.lengths(atom_length))}
        return tuple(
            (k, place[length])
            for k in range(n_atoms)
            for length in self.lengths_of(k, atom_length)
        )

    @property
    def n_terms(self) -> int:
        """The number of terms of a baseline."""
        return ("none", "offset", "line").index(self.baseline)

    @property
    def gap(self) -> int:
        """The least gap in samples; `at_rate` converts durations to samples."""
        return int(self.min_gap)

    def at_rate(self, sfreq: float) -> "L0Coder":
        """Return the same coder with ``min_gap`` in samples.

        >>> L0Coder(min_gap="0.2s").at_rate(100).min_gap
        20
        """
        return replace(self, min_gap=in_samples(self.min_gap, sfreq))


@dataclass(frozen=True)
class SizedCoder(L0Coder):
    """An exact coder of atoms of different lengths; models make it from ``atom_length``.

    All atoms are given at L samples; atom k lasts ``sizes[k]`` samples, times the stretch.

    >>> coder = SizedCoder(sizes=(50, 20))
    >>> coder.lengths(50), coder.pairs(2, 50)
    ((20, 50), ((0, 1), (1, 0)))
    """

    sizes: tuple[int, ...] = ()

    def lengths(self, atom_length: int) -> tuple[int, ...]:
        """Return the lengths of activations of any atom, in samples and increasing."""
        every = {n for k in range(len(self.sizes)) for n in self.lengths_of(k, atom_length)}
        return tuple(sorted(every))

    def lengths_of(self, atom: int, atom_length: int) -> tuple[int, ...]:
        """Return the lengths that are tried for one atom."""
        return L0Coder.lengths(self, self.sizes[atom])


@documented
@dataclass(frozen=True)
class L1Coder:
    """Code with an l1 penalty: activations may overlap, and there may be many small ones.

    For patterns that overlap. The penalty is per unit of amplitude, in signal units. Cost
    O(K N (P + log N)) per step and recording, see `encode_l1`.

    Examples
    --------
    >>> L1Coder(signed=True)
    L1Coder(signed=True, n_steps=1000, tolerance=0.001)
    """

    signed: Annotated[bool, Doc("Allow negative amplitudes.")] = False
    n_steps: Annotated[
        Count,
        Doc("Largest number of steps; each coding starts from the activations of the last round."),
    ] = 1000
    tolerance: Annotated[
        Nonnegative, Doc("Duality gap, relative to the objective, at which a coding ends.")
    ] = 1e-3
