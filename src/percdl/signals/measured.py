"""What a fit asks of all recordings before it looks at any of them closely."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from percdl.signals.recording import Recording


class Measured(ABC):
    """Power, missing samples and flat channels of recordings in memory, measured when asked for.

    A cohort on disk has written the same down, see `percdl.signals.shards`.
    """

    @abstractmethod
    def __iter__(self) -> Iterator[Recording]: ...

    @property
    @abstractmethod
    def stacked(self) -> np.ndarray | None:
        """All values as one array, if they are."""

    @property
    def power(self) -> Float[np.ndarray, " S"]:
        """Mean square of the observed samples of each recording."""
        return np.array([power_of(recording) for recording in self])

    @property
    def n_masks(self) -> int:
        """How many masks are needed: none (0), one for all channels, or one for each."""
        return max(masks_of(recording) for recording in self)

    @property
    def empty(self) -> tuple[str, ...]:
        """Subjects whose samples are all missing."""
        return tuple(str(recording.subject) for recording in self if is_empty(recording))

    @property
    def flat(self) -> tuple[str, ...]:
        """Subjects whose channels are all constant."""
        suspects = tuple(self)
        if self.stacked is not None and self.stacked.shape[1] > 1:
            # Few need a closer look: those whose first two samples do not differ.
            moved = _differ(self.stacked[:, 0], self.stacked[:, 1]).any(1)
            suspects = tuple(suspects[i] for i in np.flatnonzero(~moved))
        return tuple(str(recording.subject) for recording in suspects if is_flat(recording))


def power_of(recording: Recording) -> float:
    """Return the mean square of the observed samples; NaN where there is none.

    Infinite where the squares exceed all numbers.
    """
    if is_empty(recording):
        return float("nan")
    with np.errstate(over="ignore"):
        return float(np.nanmean(np.square(recording.values, dtype=float)))


def masks_of(recording: Recording) -> int:
    """Return how many masks a recording needs: 0, 1 or as many as it has channels."""
    if not recording.has_missing:
        return 0
    missing = ~recording.mask
    alike = (missing.all(1) == missing.any(1)).all()
    return 1 if alike else recording.n_channels


def is_empty(recording: Recording) -> bool:
    """Whether every sample is missing."""
    return recording.has_missing and not recording.mask.any()


def is_flat(recording: Recording) -> bool:
    """Whether every channel is constant over its observed samples."""
    values = recording.values
    if len(values) > 1 and _differ(values[0], values[1]).any():
        return False
    observed = [channel[~np.isnan(channel)] for channel in values.T]
    return all((channel == channel[:1]).all() for channel in observed)


def _differ(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether samples are observed and differ; their difference may exceed all numbers."""
    return (first < second) | (first > second)
