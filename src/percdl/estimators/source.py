"""What a model must know of the recordings it was learned from, wherever they are."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Source(Protocol):
    """Who was recorded and how; a cohort is one, and so is what sites of a federation agree on."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """Who is known by name."""
        ...

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels."""
        ...

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of each channel."""
        ...

    @property
    def n_channels(self) -> int:
        """P, the number of channels."""
        ...

    @property
    def sfreq(self) -> float:
        """Samples per second."""
        ...

    @property
    def processing(self) -> tuple[str, ...]:
        """What was done to the recordings."""
        ...
