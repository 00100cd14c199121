"""What a fit asks of all recordings before it looks at any of them closely."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from percdl.signals.recording import Recording

# Samples that are looked at together, about: they stay in a processor's cache.
BATCH_SAMPLES = 2**18


class Measures(NamedTuple):
    """Sums over the observed samples of every recording and channel.

    ``low`` and ``high`` are the extremes, not finite where nothing was observed. Recordings are
    ``uneven`` where some channels miss a sample that others have.
    """

    length: Int[np.ndarray, " S"]
    count: Int[np.ndarray, "S P"]
    total: Float[np.ndarray, "S P"]
    square: Float[np.ndarray, "S P"]
    low: Float[np.ndarray, "S P"]
    high: Float[np.ndarray, "S P"]
    uneven: Bool[np.ndarray, " S"]

    @property
    def power(self) -> Float[np.ndarray, " S"]:
        """Mean square of each recording; NaN without samples, infinite beyond all numbers."""
        with np.errstate(invalid="ignore"):
            return self.square.sum(1) / self.count.sum(1)

    @property
    def masks(self) -> Int[np.ndarray, " S"]:
        """How many masks each recording needs: none (0), one for all channels, one for each."""
        has_missing = (self.count < self.length[:, None]).any(1)
        return np.where(self.uneven, self.count.shape[1], has_missing)

    @property
    def is_empty(self) -> Bool[np.ndarray, " S"]:
        """Whether every sample of a recording is missing."""
        return self.count.sum(1) == 0

    @property
    def is_constant(self) -> Bool[np.ndarray, "S P"]:
        """Whether a channel has one value throughout, or none."""
        return ~(self.low < self.high)

    def is_offset(self, most: float) -> Bool[np.ndarray, " S"]:
        """Whether some mean is more than ``most`` times the largest standard deviation."""
        with np.errstate(invalid="ignore", over="ignore"):
            # Only channels whose own mean is that large, or not a number, are looked at closely.
            ordinary = self.total**2 * (1 + most**2) <= most**2 * self.count * self.square
            if ordinary.all():
                return np.zeros(len(self.length), bool)
            mean = self.total / self.count
            variance = np.maximum(self.square / self.count - mean**2, 0)
        largest = np.sqrt(np.nan_to_num(variance).max(1))
        return np.abs(np.nan_to_num(mean)).max(1) > most * largest


class Measured(ABC):
    """Power, missing samples and flat channels of recordings in memory, measured once.

    A cohort on disk has written the same down, see `percdl.signals.shards`.
    """

    @abstractmethod
    def __iter__(self) -> Iterator[Recording]: ...

    @property
    @abstractmethod
    def subjects(self) -> tuple[str, ...]:
        """Subject ids, in order."""

    @property
    @abstractmethod
    def stacked(self) -> np.ndarray | None:
        """All values as one array, if they are."""

    @cached_property
    def arrays(self) -> list[np.ndarray]:
        """The values of each recording (n_times, P)."""
        return [recording.values for recording in self]

    @cached_property
    def measures(self) -> Measures:
        """Sums over the samples of each recording."""
        if self.stacked is not None:
            return measure_stacked(self.stacked)
        return measure(self.arrays)

    @property
    def dtype(self) -> str:
        """The type of the samples of all recordings, the wider one where they differ."""
        if self.stacked is not None:
            return self.stacked.dtype.name
        return np.result_type(*{array.dtype for array in self.arrays}).name

    @property
    def is_measured(self) -> bool:
        """Whether `measures` are known."""
        return "measures" in vars(self)

    def remember(self, measures: Measures) -> None:
        """Take over measures from a device that holds the recordings."""
        vars(self)["measures"] = measures

    @property
    def power(self) -> Float[np.ndarray, " S"]:
        """Mean square of the observed samples of each recording."""
        return self.measures.power

    @property
    def n_masks(self) -> int:
        """How many masks are needed: none (0), one for all channels, or one for each."""
        return int(self.measures.masks.max())

    @property
    def empty(self) -> tuple[str, ...]:
        """Subjects whose samples are all missing."""
        return self._name(self.measures.is_empty)

    @property
    def constant(self) -> Bool[np.ndarray, "S P"]:
        """Whether each channel of each recording has one value throughout; False without any."""
        return self.measures.low == self.measures.high

    @property
    def flat(self) -> tuple[str, ...]:
        """Subjects whose channels are all constant."""
        return self._name(np.asarray(self.measures.is_constant.all(1)))

    def offset(self, most: float) -> tuple[str, ...]:
        """Subjects whose mean is more than ``most`` times their standard deviation."""
        return self._name(self.measures.is_offset(most))

    def _name(self, which: Bool[np.ndarray, " S"]) -> tuple[str, ...]:
        return tuple(self.subjects[i] for i in np.flatnonzero(which))


def measure(values: Sequence[np.ndarray]) -> Measures:
    """Measure recordings (n_times, P) of any lengths, some of them at a time."""
    lengths = np.array([len(x) for x in values])
    batch = np.cumsum(lengths * values[0].shape[1]) // BATCH_SAMPLES
    cuts = [0, *(np.flatnonzero(np.diff(batch)) + 1), len(values)]
    parts = [
        _measure(np.concatenate(values[start:stop]), lengths[start:stop])
        for start, stop in pairwise(cuts)
    ]
    return Measures(*map(np.concatenate, zip(*parts, strict=True)))


def measure_stacked(stacked: np.ndarray) -> Measures:
    """Measure recordings of one length, array (S, N, P), without a copy."""
    n_times, n_channels = stacked.shape[1:]
    size = max(1, BATCH_SAMPLES // (n_times * n_channels))
    starts = range(0, len(stacked), size)
    batches = (stacked[start : start + size] for start in starts)
    parts = [_measure(x.reshape(-1, n_channels), np.full(len(x), n_times)) for x in batches]
    return Measures(*map(np.concatenate, zip(*parts, strict=True)))


def _measure(samples: Float[np.ndarray, "n P"], lengths: Int[np.ndarray, " S"]) -> Measures:
    """Measure recordings that are joined end to end."""
    starts = np.cumsum(lengths) - lengths
    n_channels = samples.shape[1]
    count = np.repeat(lengths[:, None], n_channels, axis=1)
    uneven = np.zeros(len(lengths), bool)
    low, high = (f.reduceat(samples, starts, axis=0) for f in (np.fmin, np.fmax))
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduceat(samples, starts, axis=0, dtype=float)
        if np.isnan(total).any():
            missing = np.isnan(samples)
            count = count - np.add.reduceat(missing, starts, axis=0, dtype=int)
            alike = missing.all(1) == missing.any(1)
            uneven = ~np.logical_and.reduceat(alike, starts)
            samples = np.where(missing, 0, samples)
            total = np.add.reduceat(samples, starts, axis=0, dtype=float)
        square = np.add.reduceat(np.square(samples, dtype=float), starts, axis=0)
    return Measures(lengths, count, total, square, low.astype(float), high.astype(float), uneven)
