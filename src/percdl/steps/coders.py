"""How activations are found: the options of convolutional sparse coding (CSC)."""

from dataclasses import dataclass, replace
from typing import Annotated

from percdl.parameters import Amount, Count, Doc, Duration, Nonnegative, documented, in_samples


@documented
@dataclass(frozen=True)
class L0Coder:
    """Code exactly, at a price for each activation, without overlap.

    Hashable, so that it can be static in compiled programs. Cost
    O(K P N log N + (N / L)^2) per recording; with ``max_activations`` O(N max_activations) more.

    Examples
    --------
    >>> L0Coder(min_gap=20)
    L0Coder(signed=False, min_gap=20, max_activations=None)
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

    @property
    def gap(self) -> int:
        """The least gap in samples; `at_rate` makes samples of a duration."""
        return int(self.min_gap)

    def at_rate(self, sfreq: float) -> "L0Coder":
        """Return the same coder with ``min_gap`` in samples.

        >>> L0Coder(min_gap="0.2s").at_rate(100).min_gap
        20
        """
        return replace(self, min_gap=in_samples(self.min_gap, sfreq))


@documented
@dataclass(frozen=True)
class L1Coder:
    """Code with an l1 penalty: activations may overlap, and there may be many small ones.

    For patterns that run into one another, where the exact coder without overlap must choose.
    The penalty is then the price of a unit of amplitude, in signal units. Cost
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
