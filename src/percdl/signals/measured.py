"""Power, missing samples and constant channels of all recordings, measured in one pass."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from percdl.signals.recording import Recordings

# Number of samples that are measured together, so that they stay in the cache of a processor.
BATCH_SAMPLES = 2**18


class Measures(NamedTuple):
    """Sums over the observed samples of every recording and channel.

    ``low`` and ``high`` are the extremes, not finite without observed samples. A recording is
    ``uneven`` if some channels miss a sample that others have.
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
        """Mean square of each recording; NaN without samples, infinite on overflow."""
        with np.errstate(invalid="ignore"):
            return self.square.sum(1) / self.count.sum(1)

    @property
    def masks(self) -> Int[np.ndarray, " S"]:
        """Number of masks each recording needs: 0, one for all channels, or one per channel.

        Constant channels count as missing, unless all are constant.
        """
        has_missing = (self.count < self.length[:, None]).any(1)
        some_dead = self.is_dead.any(1) & ~self.is_constant.all(1)
        return np.where(self.uneven | some_dead, self.count.shape[1], has_missing)

    @property
    def is_empty(self) -> Bool[np.ndarray, " S"]:
        """Whether every sample of a recording is missing."""
        return self.count.sum(1) == 0

    @property
    def is_dead(self) -> Bool[np.ndarray, "S P"]:
        """Whether a channel has the same value at several samples."""
        return (self.low == self.high) & (self.count > 1)

    @property
    def is_constant(self) -> Bool[np.ndarray, "S P"]:
        """Whether a channel has at most one value."""
        return ~(self.low < self.high)


class Measured(Recordings):
    """Measures of recordings in memory; shards hold theirs in the index (`ShardedCohort`)."""

    @cached_property
    def arrays(self) -> list[np.ndarray]:
        """The values of each recording (n_times, P)."""
        return [recording.values for recording in self]

    @cached_property
    def measures(self) -> Measures:
        """Sums over the samples of each recording."""
        return measure(self.arrays)

    @property
    def dtype(self) -> str:
        """The type of the samples of all recordings; the wider one if they differ."""
        return np.result_type(*{array.dtype for array in self.arrays}).name

    @property
    def is_measured(self) -> bool:
        """Whether `measures` are known."""
        return "measures" in vars(self)

    def remember(self, measures: Measures) -> None:
        """Take over measures from a device that holds the recordings."""
        vars(self)["measures"] = measures

    @cached_property
    def power(self) -> Float[np.ndarray, " S"]:
        """Mean square of each recording."""
        return self.measures.power

    @cached_property
    def n_masks(self) -> int:
        """Number of masks needed: 0, one for all channels, or one per channel."""
        return int(self.measures.masks.max())

    @cached_property
    def empty(self) -> tuple[str, ...]:
        """Subjects without an observed sample."""
        return self._name(self.measures.is_empty)

    @cached_property
    def constant(self) -> Bool[np.ndarray, "S P"]:
        """Whether each channel of each recording has the same value at several samples."""
        return self.measures.is_dead

    @cached_property
    def flat(self) -> tuple[str, ...]:
        """Subjects with constant channels only."""
        return self._name(np.asarray(self.measures.is_constant.all(1)))

    def offset(self, most: float) -> tuple[str, ...]:
        """Subjects with a mean of more than ``most`` times their largest standard deviation.

        Constant channels do not count.
        """
        mean, deviation = self._levels
        return self._name(mean > most * deviation)

    @cached_property
    def _levels(self) -> tuple[Float[np.ndarray, " S"], Float[np.ndarray, " S"]]:
        """The largest mean of a channel and the largest standard deviation, per recording."""
        with np.errstate(invalid="ignore", over="ignore"):
            mean = self.measures.total / self.measures.count
            variance = np.maximum(self.measures.square / self.measures.count - mean**2, 0)
        mean[self.measures.is_constant] = 0
        return np.abs(mean).max(1), np.sqrt(np.nan_to_num(variance).max(1))

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


def _measure(samples: Float[np.ndarray, "n P"], lengths: Int[np.ndarray, " S"]) -> Measures:
    """Measure recordings that are joined end to end."""
    starts = np.cumsum(lengths) - lengths
    count = np.repeat(lengths[:, None], samples.shape[1], axis=1)
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
