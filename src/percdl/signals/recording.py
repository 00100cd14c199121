"""One subject's signal with its labels, and the recordings that plain arrays hold."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsFloat, final

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from percdl.exceptions import InvalidParameterError, InvalidRecordingError

Label = str | int | np.integer
# Run-time type checkers do not see that ArrayLike covers tuples.
Arrays = ArrayLike | Sequence[Any]
_LAYOUTS = (
    "a list of (n_times, n_channels) arrays, a 3-D array (n_subjects, n_times, n_channels) "
    "or a 2-D array (n_subjects, n_times)"
)


@dataclass(frozen=True, init=False, eq=False, repr=False)
@final
class Recording:
    """The signal of one subject, with its sampling rate and its labels.

    Cost O(N P): the samples are checked once for infinities.

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
        Subject id; required when the recording joins a `Cohort`.
    group : str or int, optional
        A label such as ``"control"``, used to stratify and to compare.
    processing : list of str, optional
        Processing steps applied to the samples, in order. `Cohort.resample`, `Cohort.bandpass`
        and `Cohort.zscore` add theirs.

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
                "channels": _channel_names(channels, array.shape, who),
                "units": _channel_units(units, array.shape[1], who),
                "subject": None if subject is None else as_label(subject, "subject", who),
                "group": None if group is None else as_label(group, "group", who),
                "processing": _as_texts(as_names(processing, "processing"), "processing", who),
            }
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickle and copy call this too; without it they return writable values.
        values = state["values"].view()
        values.flags.writeable = False
        for name, value in {**state, "values": values}.items():
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


def recordings_from_arrays(
    arrays: Arrays,
    *,
    sfreq: Arrays = 1.0,
    subjects: Iterable[Label] | None = None,
    groups: Iterable[Label | None] | None = None,
    channels: str | Iterable[str] | None = None,
    units: str | Iterable[str] | None = None,
) -> list[Recording]:
    """Return one `Recording` per subject; see `Cohort.from_arrays`."""
    signals = _one_per_subject(arrays)
    n_subjects = len(signals)
    labels = range(n_subjects) if subjects is None else _entries("subjects", subjects, n_subjects)
    group_of = [None] * n_subjects if groups is None else _entries("groups", groups, n_subjects)
    rates: list[Any] = (
        [sfreq] * n_subjects if _is_single(sfreq) else _entries("sfreq", sfreq, n_subjects)
    )
    # The first subject would exhaust a generator of names.
    names = channels if channels is None or isinstance(channels, str) else as_names(channels)
    scales = units if units is None or isinstance(units, str) else as_names(units, "units")
    return [
        Recording(x, sfreq=rate, channels=names, units=scales, subject=subject, group=group)
        for x, rate, subject, group in zip(signals, rates, labels, group_of, strict=True)
    ]


def abbreviate(names: Iterable[object], shown: int = 4) -> str:
    """Join names with commas and count those beyond the first few.

    >>> abbreviate(["a", "b", "c"], shown=2)
    'a, b and 1 more'
    """
    names = [str(name) for name in names]
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


def qualified_name(value: object) -> str:
    """Return the full name of a value's type, e.g. ``scipy.sparse._csr.csr_matrix``."""
    kind = type(value)
    prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return prefix + kind.__qualname__


def as_label(value: object, what: str, who: str) -> str:
    """Return a subject id or a group as text.

    Floats are refused: 7.0 usually comes from an integer column with a missing entry, and
    ``"7.0"`` would match nothing.
    """
    if not isinstance(value, Label) or str(value) == "":
        raise InvalidRecordingError(
            f"{who}: {what}={value!r} is not a usable label. "
            f"Pass non-empty text or an integer, e.g. {what}='P01'."
        )
    return str(value)


def as_names(names: str | Iterable[Any], what: str = "channels") -> tuple[Any, ...]:
    """Return names as a tuple; a string is one name."""
    if isinstance(names, str):
        return (names,)
    try:
        return tuple(names)
    except TypeError as error:
        raise InvalidParameterError(f"{what}={names!r} is not a list. Pass a list.") from error


def as_rate(sfreq: SupportsFloat, who: str) -> float:
    """Return a sampling rate as a positive, finite float."""
    try:
        is_one = np.ndim(sfreq) == 0 and not np.ma.is_masked(sfreq)  # pyright: ignore
        rate = float(sfreq) if is_one else np.nan
    except (TypeError, ValueError, OverflowError):  # not a number, or a huge integer
        rate = np.nan
    if not (np.isfinite(rate) and rate > 0):
        raise InvalidRecordingError(
            f"{who}: sfreq={sfreq!r} is not a sampling rate. "
            "Pass the number of samples per second, positive and finite."
        )
    return rate


def _one_per_subject(arrays: Arrays) -> list[Any]:
    """Split the input along its subject axis."""
    if isinstance(arrays, list | tuple):
        if arrays and all(map(_is_single, arrays)):
            raise InvalidRecordingError(
                f"Got a list of {len(arrays)} single values where {_LAYOUTS} is needed. "
                "Reshape your data: pass [x] if x is one univariate recording."
            )
        return list(arrays)
    # asanyarray keeps masked arrays; their mask means "missing".
    array = np.asanyarray(arrays)
    if array.ndim == 1 and array.dtype == object and array.size:
        return _one_per_subject(list(array))
    if array.ndim not in (2, 3):
        raise InvalidRecordingError(
            f"Got an array of {array.ndim} dimension(s) (shape {array.shape}) where {_LAYOUTS} "
            "is needed. Reshape your data: pass x[None, :] if x is one univariate recording."
        )
    if 0 in array.shape[1:]:
        # scikit-learn's estimator checks look for this wording.
        raise InvalidRecordingError(
            f"Found array with 0 feature(s) (shape={array.shape}) while a minimum of 1 is "
            "required. Every recording needs at least one sample and one channel."
        )
    return list(array)


def _entries(name: str, values: Any, n_subjects: int) -> list[Any]:
    """Return an argument that has one entry per subject as a list."""
    if isinstance(values, str):
        raise InvalidParameterError(
            f"{name}={values!r} is one string, but {n_subjects} recording(s) need one entry each. "
            f"Pass a list, e.g. {name}=[{values!r}, ...]."
        )
    entries = list(as_names(values, name))
    if len(entries) != n_subjects:
        raise InvalidParameterError(
            f"{name} has {len(entries)} entries, but there are {n_subjects} recording(s). "
            "Pass one entry per recording, in the same order."
        )
    return entries


def _is_single(value: object) -> bool:
    """Whether a value is a scalar or text."""
    try:
        return np.ndim(value) == 0  # pyright: ignore[reportArgumentType]
    except ValueError:  # rows of unequal lengths
        return False


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
    with np.errstate(over="ignore"):  # an extended float may overflow; it is then refused
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


def _channel_names(
    channels: str | Iterable[str] | None, shape: tuple[int, ...], who: str
) -> tuple[str, ...]:
    """Return one distinct name per column of an array of this shape."""
    n_times, n_channels = shape
    if channels is None:
        return tuple(f"ch{index}" for index in range(n_channels))
    names = as_names(channels)
    if len(names) != n_channels:
        advice = "Pass values.T." if len(names) == n_times else "Give one name per column."
        raise InvalidRecordingError(
            f"{who}: channels={list(names)} names {len(names)} channel(s), but values has "
            f"{n_channels} column(s) (shape {shape}, read as n_times x n_channels). {advice}"
        )
    if len(set(_as_texts(names, "channels", who))) != len(names):
        raise InvalidRecordingError(
            f"{who}: channels={list(names)} repeats a name. Give each channel its own name."
        )
    return tuple(str(name) for name in names)


def _channel_units(
    units: str | Iterable[str] | None, n_channels: int, who: str
) -> tuple[str, ...]:
    """Return one unit per channel; a string is the unit of every channel."""
    if units is None or isinstance(units, str):
        return (str(units or ""),) * n_channels
    named = as_names(units, "units")
    if len(named) != n_channels:
        raise InvalidRecordingError(
            f"{who}: units={list(named)} gives {len(named)} unit(s) for {n_channels} channel(s). "
            "Give one per channel, or one string for all."
        )
    return _as_texts(named, "units", who)


def _as_texts(names: tuple[Any, ...], what: str, who: str) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str):
            raise InvalidRecordingError(
                f"{who}: {what}={list(names)} contains {name!r}, which is not text. "
                "Pass a list of strings."
            )
    return tuple(str(name) for name in names)
