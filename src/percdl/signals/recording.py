"""One subject's signal and everything needed to read it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsFloat, final

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from percdl.exceptions import InvalidRecordingError
from percdl.signals.labels import Label, as_label, as_steps, channel_names, channel_units

# Not ArrayLike alone: run-time type checkers do not see that it covers tuples.
Arrays = ArrayLike | Sequence[Any]


@dataclass(frozen=True, init=False, eq=False, repr=False)
@final
class Recording:
    """The signal of one subject, with its sampling rate and its labels.

    Cost O(N P): samples are looked at once, for infinities.

    Parameters
    ----------
    values : array of shape (n_times, n_channels) or (n_times,)
        The samples, time first. NaN marks a missing sample; infinities are refused.
        float32 and float64 are kept without a copy, other real types become floats.
    sfreq : float, default=1.0
        Samples per second.
    channels : list of str, optional
        One name per column, ``"ch0"``, ``"ch1"``, ... by default.
    units : str or list of str, optional
        Unit of all channels or of each of them, empty by default.
    subject : str or int, optional
        Who was recorded; needed as soon as the recording joins a `Cohort`.
    group : str or int, optional
        A label such as ``"control"``, used to stratify and to compare.
    processing : list of str, optional
        What was done to the samples since they were recorded, in order; `Cohort.resample`,
        `Cohort.bandpass` and `Cohort.zscore` write it themselves.

    Attributes
    ----------
    values : ndarray of shape (n_times, n_channels)
        A read-only view of the samples.
    channels, units : tuple of str
        One entry per channel.
    processing : tuple of str
        One entry per step, the first step first.

    Examples
    --------
    >>> Recording([0.0, 1.0, float("nan"), 0.5], sfreq=2, subject="P01", units="m/s")
    Recording(subject='P01', 4 samples x 1 channel (ch0), 2 Hz, 2 s, 1 missing)
    """

    values: Float[np.ndarray, "n_times n_channels"]
    sfreq: float
    channels: tuple[str, ...]
    units: tuple[str, ...]
    subject: str | None
    group: str | None
    processing: tuple[str, ...]

    def __init__(
        self,
        values: Arrays,
        *,
        sfreq: SupportsFloat = 1.0,
        channels: str | Iterable[str] | None = None,
        units: str | Iterable[str] | None = None,
        subject: Label | None = None,
        group: Label | None = None,
        processing: str | Iterable[str] = (),
    ) -> None:
        who = "A recording without subject" if subject is None else f"Subject {str(subject)!r}"
        array = _as_values(values, who)
        self.__setstate__(
            {
                "values": array,
                "sfreq": as_rate(sfreq, who),
                "channels": channel_names(channels, array.shape, who),
                "units": channel_units(units, array.shape[1], who),
                "subject": None if subject is None else as_label(subject, "subject", who),
                "group": None if group is None else as_label(group, "group", who),
                "processing": as_steps(processing, who),
            }
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Also called by pickle and copy, which would otherwise hand back writable values.
        values = state["values"].view()
        values.flags.writeable = False
        # Older pickles know of no processing.
        for name, value in {"processing": (), **state, "values": values}.items():
            object.__setattr__(self, name, value)

    @property
    def n_times(self) -> int:
        """Number of samples."""
        return self.values.shape[0]

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return self.values.shape[1]

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.n_times / self.sfreq

    @property
    def mask(self) -> Bool[np.ndarray, "n_times n_channels"]:
        """True where a sample was observed, False where it is missing."""
        return ~np.isnan(self.values)

    @cached_property
    def has_missing(self) -> bool:
        """Whether any sample is missing."""
        return bool(np.isnan(self.values).any())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recording):
            return NotImplemented
        return self._labels() == other._labels() and np.array_equal(
            self.values, other.values, equal_nan=True
        )

    def _labels(self) -> tuple[object, ...]:
        return (
            self.sfreq, self.channels, self.units, self.subject, self.group, self.processing
        )  # fmt: skip

    def __repr__(self) -> str:
        parts = [] if self.subject is None else [f"subject={self.subject!r}"]
        plural = "" if self.n_channels == 1 else "s"
        parts.append(
            f"{self.n_times} samples x {self.n_channels} channel{plural} "
            f"({abbreviate(self.channels)})"
        )
        parts += [f"{self.sfreq:g} Hz", f"{self.duration:g} s"]
        if self.group is not None:
            parts.append(f"group={self.group!r}")
        if self.has_missing:
            parts.append(f"{np.isnan(self.values).sum()} missing")
        if self.processing:
            parts.append(f"processed: {'; '.join(self.processing)}")
        return f"Recording({', '.join(parts)})"


def abbreviate(names: Iterable[object], shown: int = 4) -> str:
    """Join names with commas, counting those beyond the first few.

    >>> abbreviate(["a", "b", "c"], shown=2)
    'a, b and 1 more'
    """
    names = [str(name) for name in names]
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


def _as_values(values: Arrays, who: str) -> Float[np.ndarray, "n_times n_channels"]:
    array = _as_float(values, who)
    if isinstance(values, np.ma.MaskedArray):
        array = np.where(np.ma.getmaskarray(values), np.nan, array)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    _check_shape(array.shape, who)
    infinite = np.isinf(array)
    if infinite.any():
        sample, channel = np.argwhere(infinite)[0]
        raise InvalidRecordingError(
            f"{who}: values has {infinite.sum()} infinite sample(s), the first at sample {sample} "
            f"of channel {channel}. Values must be finite; mark missing samples with NaN."
        )
    return array


def _as_float(values: Arrays, who: str) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of unequal lengths
        raise InvalidRecordingError(
            f"{who}: values is not an array: {error} Pass n_times rows of n_channels numbers each."
        ) from error
    if array.dtype.kind == "c":
        raise InvalidRecordingError(
            f"{who}: values is complex ({array.dtype}). Complex data not supported: "
            "pass real and imaginary parts as two channels."
        )
    if array.dtype.kind not in "biuf":
        raise InvalidRecordingError(
            f"{who}: values has dtype {array.dtype}, but real numbers are needed. "
            "Convert with `.astype(float)` and mark missing samples with NaN."
        )
    single = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    with np.errstate(over="ignore"):  # an extended float beyond all others is refused as infinite
        return array.astype(np.float32 if single else np.float64, copy=False)


def _check_shape(shape: tuple[int, ...], who: str) -> None:
    if len(shape) != 2:
        raise InvalidRecordingError(
            f"{who}: values has {len(shape)} dimension(s) (shape {shape}), but one subject is "
            "(n_times, n_channels) or (n_times,). For several subjects use Cohort.from_arrays."
        )
    if 0 in shape:
        missing = "samples" if shape[0] == 0 else "channels"
        raise InvalidRecordingError(
            f"{who}: values has no {missing} (shape {shape}, read as n_times x n_channels). "
            "At least one sample and one channel are needed; leave that subject out."
        )


def as_rate(sfreq: SupportsFloat, who: str) -> float:
    """Return a sampling rate as a float, positive and finite."""
    try:
        is_one = np.ndim(sfreq) == 0 and not np.ma.is_masked(sfreq)  # pyright: ignore
        rate = float(sfreq) if is_one else np.nan
    except (TypeError, ValueError, OverflowError):  # no number, or an integer beyond all floats
        rate = np.nan
    if not (np.isfinite(rate) and rate > 0):
        raise InvalidRecordingError(
            f"{who}: sfreq={sfreq!r} is not a sampling rate. "
            "Pass the number of samples per second, positive and finite."
        )
    return rate
