"""One subject's signal with its labels, and the recordings that plain arrays hold."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, SupportsFloat, TypeVar, final

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from percdl.exceptions import InvalidParameterError, InvalidRecordingError

Label = str | int | np.integer
# Run-time type checkers do not see that ArrayLike covers tuples.
Arrays = ArrayLike | Sequence[Any]
# Run-time type checkers know typing.Self in decorated classes only.
C = TypeVar("C", bound="Recordings")
LAYOUTS = (
    "a list of (n_times, n_channels) arrays, a 3-D array (n_subjects, n_times, n_channels) "
    "or a 2-D array (n_subjects, n_times)"
)


class Correction(NamedTuple):
    """A correction of one event of a recording by a person, see `Cohort.correct`.

    Times are in seconds. None means the length of the atom, any atom, and no fixed tolerance.
    """

    onset: float
    duration: float | None
    atom: int | None
    action: str
    tolerance: float | None


@dataclass(frozen=True, init=False, eq=False, repr=False)
@final
class Recording:
    """The signal of one subject, with its sampling rate and its labels.

    Cost O(N P): the samples are checked once for infinities.

    Parameters
    ----------
    values : array of shape (n_times, n_channels) or (n_times,)
        The samples, time first; kept as a read-only view (n_times, n_channels). NaN marks a
        missing sample; infinities are refused. float32 and float64 are not copied, other real
        types become floats.
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
    person, visit : str or int, optional
        The person (by default the subject) and the visit, if people have several recordings.
    processing : list of str, optional
        Processing steps applied to the samples, in order. `Cohort.resample`, `Cohort.bandpass`
        and `Cohort.zscore` add theirs.
    corrections : list of Correction, optional
        Events that must be found, or not; set by `Cohort.correct`.

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
    person: str | None
    visit: str | None
    processing: tuple[str, ...]
    corrections: tuple[Correction, ...]

    def __init__(
        self,
        values: Arrays,
        *,
        sfreq: SupportsFloat = 1.0,
        channels: str | Iterable[str] | None = None,
        units: str | Iterable[str] | None = None,
        subject: Label | None = None,
        group: Label | None = None,
        person: Label | None = None,
        visit: Label | None = None,
        processing: str | Iterable[str] = (),
        corrections: Iterable[Sequence[Any]] | None = None,
    ) -> None:
        who = "A recording without subject" if subject is None else f"Subject {str(subject)!r}"
        array = _as_values(values, who)
        n_channels = array.shape[1]
        names = [f"ch{index}" for index in range(n_channels)] if channels is None else channels
        scales = [units or ""] * n_channels if isinstance(units, str | None) else units
        state: dict[str, Any] = {"values": array, "sfreq": as_rate(sfreq, who)}
        labels = {"subject": subject, "group": group, "person": person, "visit": visit}
        for name, label in labels.items():
            state[name] = None if label is None else as_label(label, name, who)
        for name, texts in {"channels": names, "units": scales, "processing": processing}.items():
            state[name] = _as_texts(texts, name, array.shape, who)
        state["corrections"] = tuple(Correction(*each) for each in corrections or ())
        self.__setstate__(state)

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
        labels = [field.name for field in fields(self) if field.name != "values"]
        return all(getattr(self, name) == getattr(other, name) for name in labels) and (
            np.array_equal(self.values, other.values, equal_nan=True)
        )

    def __repr__(self) -> str:
        parts = [] if self.subject is None else [f"subject={self.subject!r}"]
        parts.append(f"{self.n_times} samples x {channels_in_words(self.channels)}")
        parts += [f"{self.sfreq:g} Hz", f"{self.duration:g} s"]
        if self.group is not None:
            parts.append(f"group={self.group!r}")
        if self.has_missing:
            parts.append(f"{np.isnan(self.values).sum()} missing")
        if self.processing:
            parts.append(f"processed: {'; '.join(self.processing)}")
        if self.corrections:
            parts.append(f"{len(self.corrections)} corrections")
        return f"Recording({', '.join(parts)})"


class Recordings(ABC):
    """Recordings in order: the base of the classes that make up a `Cohort`."""

    # The 3-D array (n_subjects, n_times, n_channels) that holds all values, if there is one.
    stacked: np.ndarray | None = None

    @abstractmethod
    def __init__(self, recordings: Iterable[Recording]) -> None: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Recording]: ...

    @classmethod
    @abstractmethod
    def from_arrays(cls: type[C], arrays: Arrays, **labels: Any) -> C: ...  # noqa: D102

    @classmethod
    @abstractmethod
    def from_frame(cls: type[C], frame: Any, **columns: Any) -> C: ...  # noqa: D102

    @cached_property
    def subjects(self) -> tuple[str, ...]:
        """Subject ids, in order."""
        return tuple(str(recording.subject) for recording in self)


def abbreviate(names: Iterable[object], shown: int = 4) -> str:
    """Join names with commas and count those beyond the first few.

    >>> abbreviate(["a", "b", "c"], shown=2)
    'a, b and 1 more'
    """
    names = [str(name) for name in names]
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


def channels_in_words(channels: Sequence[str]) -> str:
    """Return number and names of channels, e.g. ``2 channels (x, y)``."""
    return f"{len(channels)} channel{'s'[: len(channels) != 1]} ({abbreviate(channels)})"


def describe(lengths: np.ndarray, channels: Sequence[str], rates: Any) -> str:
    """Describe a cohort, e.g. ``2 recordings, 1 channel (x), 100 Hz, 40 to 50 samples``."""
    sizes, hertz = np.unique(lengths), abbreviate(f"{rate:g}" for rate in np.unique(rates))
    span = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    count = f"{len(lengths)} recording{'s'[: len(lengths) != 1]}"
    return f"{count}, {channels_in_words(channels)}, {hertz} Hz, {span} samples"


def qualified_name(value: object) -> str:
    """Return the full name of a value's type, e.g. ``scipy.sparse._csr.csr_matrix``."""
    kind = type(value)
    prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return prefix + kind.__qualname__


def as_label(value: object, what: str, who: str) -> str:
    """Return a label as text; 7.0, from an integer column with a missing entry, is refused."""
    if not isinstance(value, Label) or str(value) == "":
        raise InvalidRecordingError(
            f"{who}: {what}={value!r} is not a usable label. "
            f"Pass non-empty text or an integer, e.g. {what}='P01'."
        )
    return str(value)


def as_names(names: str | Iterable[Any], what: str = "channels") -> tuple[Any, ...]:
    """Return names as a tuple; a string is one name."""
    try:
        return (names,) if isinstance(names, str) else tuple(names)
    except TypeError:
        message = f"{what}={names!r} is not a list. Pass a list."
        raise InvalidParameterError(message) from None


def as_rate(sfreq: SupportsFloat, who: str) -> float:
    """Return a sampling rate as a positive, finite float."""
    try:
        rate = float(sfreq)
    except (TypeError, ValueError, OverflowError):
        rate = np.nan
    if not 0 < rate < np.inf:
        raise InvalidRecordingError(
            f"{who}: sfreq={sfreq!r} is not a sampling rate. "
            "Pass the number of samples per second, positive and finite."
        )
    return rate


def entries(name: str, values: Any, n_recordings: int) -> list[Any]:
    """Return an argument that has one entry per recording as a list."""
    found = [] if isinstance(values, str) else list(as_names(values, name))
    if len(found) != n_recordings:
        count = "is one string" if isinstance(values, str) else f"has {len(found)} entries"
        raise InvalidParameterError(
            f"{name} {count}, but there are {n_recordings} recording(s). Pass a list with one "
            "entry per recording, in the same order."
        )
    return found


def as_array(values: Arrays) -> np.ndarray:
    """Return an array; masked ones stay masked, and a masked number in a list becomes NaN."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning: converting a masked element", UserWarning)
        return np.asanyarray(values)


def _as_values(values: Arrays, who: str) -> Float[np.ndarray, "n_times n_channels"]:
    """Return samples as floats (n_times, n_channels)."""
    try:
        array = np.asarray(as_array(values))
    except ValueError as error:  # rows of unequal lengths
        raise InvalidRecordingError(
            f"{who}: values is not an array: {error} Pass n_times rows of n_channels numbers each."
        ) from error
    if array.dtype.kind not in "biuf":
        advice = "Convert with `.astype(float)` and mark missing samples with NaN."
        if array.dtype.kind == "c":  # scikit-learn's estimator checks look for the first words
            advice = "Complex data not supported: pass real and imaginary parts as two channels."
        raise InvalidRecordingError(
            f"{who}: values has dtype {array.dtype}, but real numbers are needed. {advice}"
        )
    single = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    with np.errstate(over="ignore"):  # infinite samples are refused below
        array = array.astype(np.float32 if single else np.float64, copy=False)
    if isinstance(values, np.ma.MaskedArray):
        array = np.where(np.ma.getmaskarray(values), np.nan, array)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidRecordingError(
            f"{who}: values has {array.ndim} dimension(s) (shape {array.shape}). One recording is "
            "(n_times, n_channels) or (n_times,), with at least one sample and one channel. For "
            "several subjects use Cohort.from_arrays."
        )
    infinite = np.isinf(array)
    if infinite.any():
        sample, channel = np.argwhere(infinite)[0]
        raise InvalidRecordingError(
            f"{who}: values has {infinite.sum()} infinite sample(s), the first at sample {sample} "
            f"of channel {channel}. Values must be finite; mark missing samples with NaN."
        )
    return array


def _as_texts(values: Any, what: str, shape: tuple[int, ...], who: str) -> tuple[str, ...]:
    """Return channels, units or processing as a tuple of strings."""
    texts = as_names(values, what)
    if not all(isinstance(text, str) for text in texts):
        raise InvalidRecordingError(
            f"{who}: {what}={list(texts)} must be a list of strings. Convert the entries to text."
        )
    if what != "processing" and len(texts) != shape[1]:
        advice = "Pass values.T." if len(texts) == shape[0] else "Give one per channel."
        raise InvalidRecordingError(
            f"{who}: {what}={list(texts)} has {len(texts)} entries, but values has {shape[1]} "
            f"channel(s) (shape {shape}, read as n_times x n_channels). {advice}"
        )
    if what == "channels" and len(set(texts)) != len(texts):
        raise InvalidRecordingError(
            f"{who}: channels={list(texts)} repeats a name. Give each channel its own name."
        )
    return tuple(str(text) for text in texts)
