"""The subjects of a study: an ordered, immutable collection of recordings."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, SupportsFloat, final, overload

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from percdl.exceptions import InvalidParameterError, InvalidRecordingError, TransposedArrayWarning
from percdl.seeds import Seed, as_random_state
from percdl.signals.corrections import corrections_of
from percdl.signals.from_files import FromFiles
from percdl.signals.interop import Interop
from percdl.signals.measured import Measured
from percdl.signals.preprocessing import Preprocessing, lasting_steps
from percdl.signals.recording import (
    LAYOUTS,
    Arrays,
    Correction,
    Label,
    Recording,
    abbreviate,
    as_array,
    as_names,
    describe,
    entries,
    qualified_name,
)
from percdl.signals.tables import Columns, Table, channel_map, reading, recordings_in

# A cohort of at least this many channels, and fewer samples than channels, is probably transposed.
_MANY_CHANNELS = 32


@final
class Cohort(FromFiles, Interop, Preprocessing, Measured, Sequence[Recording]):
    """Recordings of several subjects, with the same channels, units and processing.

    Lengths may differ. Sampling rates may differ too, until a method needs a common one
    (`Cohort.resample`). Cost O(S) to build a cohort or to select from it; no sample is copied.

    Parameters
    ----------
    recordings : iterable of Recording
        At least one; every recording has its own subject id.

    Examples
    --------
    >>> walks = Cohort.from_arrays([[0.0, 1.0, 0.0], [1.0, 2.0]], sfreq=100, subjects=["A", "B"])
    >>> walks
    Cohort(2 recordings, 1 channel (ch0), 100 Hz, 2 to 3 samples)
    >>> walks["B"].duration
    0.02
    >>> walks[[True, False]].subjects
    ('A',)
    """

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._recordings = tuple(recordings)
        _check_consistent(self._recordings)
        longest = int(self.lengths.max())
        if self.n_channels >= _MANY_CHANNELS and self.n_channels > longest:
            warnings.warn(
                f"The recordings have {self.n_channels} channels and at most {longest} samples: "
                "the arrays may be transposed. Time comes first; if so, pass x.T.",
                TransposedArrayWarning,
                stacklevel=2,
            )

    @classmethod
    def from_arrays(
        cls,
        arrays: Arrays,
        *,
        sfreq: Arrays = 1.0,
        subjects: Iterable[Label] | None = None,
        groups: Iterable[Label | None] | None = None,
        persons: Iterable[Label] | None = None,
        visits: Iterable[Label | None] | None = None,
        channels: str | Iterable[str] | None = None,
        units: str | Iterable[str] | None = None,
    ) -> "Cohort":
        """Build a cohort from arrays, time before channels.

        Parameters
        ----------
        arrays : list of arrays, or array
            A list of (n_times, n_channels) or (n_times,) arrays, a 3-D array (n_subjects,
            n_times, n_channels), or a 2-D array (n_subjects, n_times) of univariate recordings.
        sfreq, subjects, groups : optional
            One per recording, or one rate for all. Subject ids are ``"0"``, ``"1"``, ... by
            default.
        persons, visits : optional
            See `with_visits`.
        channels, units : optional
            Shared by all recordings, see `Recording`.
        """
        signals = _one_per_subject(arrays)
        n = len(signals)
        rates: Any = [sfreq] * n if _is_single(sfreq) else entries("sfreq", sfreq, n)
        ids = range(n) if subjects is None else entries("subjects", subjects, n)
        labels = [None] * n if groups is None else entries("groups", groups, n)
        # The first subject would exhaust a generator of names.
        names = None if channels is None else as_names(channels)
        scales = units if units is None or isinstance(units, str) else as_names(units, "units")
        cohort = cls(
            Recording(x, sfreq=rate, channels=names, units=scales, subject=subject, group=group)
            for x, rate, subject, group in zip(signals, rates, ids, labels, strict=True)
        )
        if persons is not None or visits is not None:
            cohort = cohort.with_visits(cohort.subjects if persons is None else persons, visits)
        # Recordings hold converted copies of integer and boolean arrays.
        if type(arrays) is np.ndarray and (arrays.ndim, arrays.dtype) == (3, cohort.dtype):
            cohort.stacked = arrays
        return cohort

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        channels: str | Iterable[str],
        subject: str = "subject",
        time: str | None = None,
        sfreq: SupportsFloat | None = None,
        group: str | None = None,
        units: str | Iterable[str] | None = None,
    ) -> "Cohort":
        """Build a cohort from a long frame, one row per sample.

        ``channels``, ``subject``, ``time`` (seconds, dates or durations) and ``group`` are
        columns. Subjects come in order of appearance; their rows may be interleaved and are sorted
        by time. ``sfreq`` is read from a uniform time column by default, or 1.0 without one.
        ``units``: see `Recording`.
        """
        rate = 1.0 if sfreq is None and time is None else sfreq
        columns = Columns(
            channel_map(channels), subject, group, time, rate, units, is_sorted=False
        )
        table = Table("The frame", frame, "row", frame.index, error=InvalidRecordingError)
        with reading("The frame", InvalidRecordingError):
            recordings = list(recordings_in(table, columns, ""))
        return cls(recordings)

    @classmethod
    def concatenate(cls, cohorts: Iterable[Iterable[Recording]]) -> "Cohort":
        """Join cohorts end to end; subject ids must stay unique."""
        return cls(recording for cohort in cohorts for recording in cohort)

    @property
    def groups(self) -> tuple[str | None, ...]:
        """Group of each recording, in order."""
        return tuple(recording.group for recording in self)

    @property
    def persons(self) -> tuple[str, ...]:
        """Person of each recording, in order: by default its subject id."""
        return tuple(str(recording.person or recording.subject) for recording in self)

    @property
    def visits(self) -> tuple[str | None, ...]:
        """Visit of each recording, in order."""
        return tuple(recording.visit for recording in self)

    @cached_property
    def corrections(self) -> dict[str, tuple[Correction, ...]]:
        """Corrections of each subject that has some."""
        return {str(r.subject): r.corrections for r in self._recordings if r.corrections}

    @cached_property
    def lengths(self) -> Int[np.ndarray, " S"]:
        """Number of samples of each recording."""
        return np.array([recording.n_times for recording in self])

    @property
    def channels(self) -> tuple[str, ...]:
        """Channel names, the same for all recordings."""
        return self._recordings[0].channels

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of each channel, the same for all recordings."""
        return self._recordings[0].units

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return len(self.channels)

    @property
    def sfreqs(self) -> Float[np.ndarray, " S"]:
        """Sampling rate of each recording, in Hz."""
        return np.array([recording.sfreq for recording in self])

    @cached_property
    def sfreq(self) -> float:
        """The common sampling rate; raises if two recordings differ."""
        first = self._recordings[0]
        for other in self._recordings:
            if other.sfreq != first.sfreq:
                raise InvalidRecordingError(
                    f"Subject {first.subject!r} was sampled at {first.sfreq:g} Hz and subject "
                    f"{other.subject!r} at {other.sfreq:g} Hz. Resample first, e.g. "
                    f"`cohort.resample({min(first.sfreq, other.sfreq):g})`; if milliseconds were "
                    "read as seconds, divide them by 1000."
                )
        return first.sfreq

    def select(
        self,
        subjects: Label | Iterable[Label] | None = None,
        group: Label | Iterable[Label] | None = None,
    ) -> "Cohort":
        """Keep these subjects, in the order given, and only those in these groups."""
        kept = self if subjects is None else [self[subject] for subject in _as_ids(subjects)]
        if group is not None:
            wanted = _as_ids(group)
            absent = [name for name in wanted if name not in self.groups]
            if absent:
                raise InvalidParameterError(
                    f"No recording is in group {absent[0]!r}. "
                    f"Groups: {abbreviate(dict.fromkeys(self.groups), shown=10)}."
                )
            kept = [recording for recording in kept if recording.group in wanted]
        return Cohort(kept)

    def with_visits(
        self,
        persons: Mapping[str, Label] | Iterable[Label],
        visits: Mapping[str, Label] | Iterable[Label | None] | None = None,
    ) -> "Cohort":
        """Name the person of each recording and, optionally, the visit.

        Both are lists with one entry per recording, or dicts of subject to label. Subject ids stay
        unique.

        >>> walks = Cohort.from_arrays(np.ones((2, 9)), subjects=["10-1", "10-2"])
        >>> walks.with_visits(["10", "10"], ["before", "after"]).persons
        ('10', '10')
        """
        own, when = (
            [labels[subject] for subject in self.subjects]
            if isinstance(labels, Mapping)
            else entries(name, [None] * len(self) if labels is None else labels, len(self))
            for name, labels in (("persons", persons), ("visits", visits))
        )
        labelled = zip(self, own, when, strict=True)
        return Cohort(replace(walk, person=person, visit=at) for walk, person, at in labelled)

    def correct(self, corrections: pd.DataFrame, names: Sequence[str] = ()) -> "Cohort":
        """Set which events must, or must not, be found in the recordings.

        Fits, `personalize` and all functions that use them then find the best activations among
        those that agree with the corrections, see ``docs/corrections.md``. Earlier corrections
        are replaced. Cost O(S + E) for E corrections.

        Parameters
        ----------
        corrections : DataFrame
            As `read_corrections` returns it: subject and onset, and optionally duration,
            trial_type, action and tolerance.
        names : list of str
            Names of the atoms, ``model.atom_names_``, that ``trial_type`` may use beside
            ``atom0``, ``atom1``, ...

        Examples
        --------
        >>> walks = Cohort.from_arrays(np.ones((2, 9)), subjects=["A", "B"])
        >>> walks.correct(pd.DataFrame({"subject": ["B"], "onset": [3.0]}))["B"].corrections
        (Correction(onset=3.0, duration=None, atom=None, action='keep', tolerance=None),)
        """
        durations = {str(recording.subject): recording.duration for recording in self}
        found = corrections_of(durations, corrections, names)
        corrected = Cohort(
            replace(recording, corrections=found.get(str(recording.subject), ()))
            for recording in self
        )
        corrected.stacked = self.stacked
        return corrected

    def drop(self, subjects: Label | Iterable[Label]) -> "Cohort":
        """Leave these subjects out."""
        dropped = [find_subject(subject, self._position_of) for subject in _as_ids(subjects)]
        return self[np.delete(np.arange(len(self)), dropped)]

    def split(
        self, test_size: float = 0.3, stratify_by_group: bool = True, random_state: Seed = None
    ) -> tuple["Cohort", "Cohort"]:
        """Draw a training and a test cohort; both keep the order of the recordings.

        ``test_size`` is a share or a number of recordings; ``stratify_by_group`` keeps the
        proportions of the groups. Recordings of one person can end up on both sides.
        """
        from sklearn.model_selection import train_test_split

        labels = [str(group) for group in self.groups]
        try:
            train, test = train_test_split(
                np.arange(len(self)),
                test_size=test_size,
                stratify=labels if stratify_by_group and len(set(labels)) > 1 else None,
                random_state=as_random_state(random_state),
            )
        except ValueError as error:
            raise InvalidParameterError(
                f"Cannot split groups {dict(Counter(labels))} with test_size={test_size}: {error} "
                "Change test_size or pass stratify_by_group=False."
            ) from error
        return self[np.sort(train)], self[np.sort(test)]

    def __len__(self) -> int:
        return len(self._recordings)

    def __iter__(self) -> Iterator[Recording]:
        return iter(self._recordings)

    def __contains__(self, item: object) -> bool:
        return item in (self.subjects if isinstance(item, str) else self._recordings)

    @overload
    def __getitem__(self, index: int | np.integer | str) -> Recording: ...
    @overload
    def __getitem__(self, index: slice | list | np.ndarray) -> "Cohort": ...
    def __getitem__(self, index: Any) -> Any:
        """Return one recording (position or subject id) or a cohort (slice, positions, mask)."""
        if isinstance(index, str):
            index = find_subject(index, self._position_of)
        if isinstance(index, int | np.integer):
            return self._recordings[index]
        return Cohort(self._recordings[i] for i in np.arange(len(self))[index])

    @cached_property
    def _position_of(self) -> dict[str, int]:
        return {subject: i for i, subject in enumerate(self.subjects)}

    def __add__(self, other: object) -> "Cohort":
        if not isinstance(other, Cohort):
            return NotImplemented
        return self.concatenate([self, other])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cohort):
            return NotImplemented
        return self._recordings == other._recordings

    def __repr__(self) -> str:
        parts = [describe(self.lengths, self.channels, self.sfreqs)]
        if any(group is not None for group in self.groups):
            counts = Counter(str(group) for group in self.groups)
            parts.append("groups " + abbreviate(f"{name}: {n}" for name, n in counts.items()))
        if len(people := set(self.persons)) < len(self):
            parts.append(f"{len(people)} people")
        if self.processing:
            parts.append(f"processed: {'; '.join(self.processing)}")
        if n_corrections := sum(map(len, self.corrections.values())):
            parts.append(f"{n_corrections} corrections")
        return f"Cohort({', '.join(parts)})"


def unknown_subject(subject: str, known: Sequence[str]) -> str:
    """Return the message for an unknown subject, with similar ids."""
    near = get_close_matches(subject, known, n=3)
    hint = f"Near matches: {', '.join(near)}." if near else f"Subjects: {abbreviate(known)}."
    return f"No subject {subject!r} among {len(known)} recording(s). {hint}"


def find_subject(subject: str, position_of: dict[str, int]) -> int:
    """Return the position of a subject; the error names similar ids."""
    if subject not in position_of:
        raise KeyError(unknown_subject(subject, list(position_of)))
    return position_of[subject]


def repeated_subjects(repeated: Sequence[str]) -> InvalidRecordingError:
    """Return the error for subject ids that are used more than once."""
    return InvalidRecordingError(
        f"Subject id(s) used more than once: {abbreviate(repeated)}. A Cohort has one "
        f"recording per id; give each trial its own id, e.g. '{repeated[0]}-trial2'."
    )


def _as_ids(labels: Label | Iterable[Label]) -> list[str]:
    """Return labels as text; a single label is a list of one."""
    return [str(label) for label in ([labels] if isinstance(labels, Label) else labels)]


def _one_per_subject(arrays: Arrays) -> list[Any]:
    """Split the input along its subject axis."""
    if isinstance(arrays, list | tuple) and not (arrays and all(map(_is_single, arrays))):
        return list(arrays)
    array = as_array(arrays)
    if array.ndim == 1 and array.size and not _is_single(array[0]):  # recordings as objects
        return list(array)
    if array.ndim not in (2, 3):
        raise InvalidRecordingError(
            f"Got {array.ndim} dimension(s) (shape {array.shape}) where {LAYOUTS} is needed. "
            "Reshape your data: pass [x] if x is one univariate recording."
        )
    if 0 in array.shape[1:]:
        # scikit-learn's estimator checks look for this wording.
        raise InvalidRecordingError(
            f"Found array with 0 feature(s) (shape={array.shape}) while a minimum of 1 is "
            "required. Every recording needs at least one sample and one channel."
        )
    return list(array)


def _is_single(value: object) -> bool:
    """Whether a value is a scalar or text."""
    return np.isscalar(value) or getattr(value, "ndim", None) == 0


def _check_consistent(recordings: Sequence[Any]) -> None:
    """Raise if recordings cannot form a cohort; the error names the subjects."""
    if not recordings:  # scikit-learn's estimator checks look for this wording
        raise InvalidRecordingError("A Cohort needs at least one recording (n_samples=0 given).")
    for position, recording in enumerate(recordings):
        if not isinstance(recording, Recording) or recording.subject is None:
            raise InvalidRecordingError(
                f"Item {position} is of type {qualified_name(recording)} and has no subject. A "
                "Cohort is made of Recording(..., subject='P01'); see also Cohort.from_arrays."
            )
    counts = Counter(recording.subject for recording in recordings)
    if repeated := [str(subject) for subject, count in counts.items() if count > 1]:
        raise repeated_subjects(repeated)
    visits = Counter((r.person or r.subject, r.visit) for r in recordings if r.visit is not None)
    if twice := [visit for visit, count in visits.items() if count > 1]:
        raise InvalidRecordingError(
            f"Person {twice[0][0]!r} has several recordings of visit {twice[0][1]!r}. Give each "
            "recording of a person its own visit, or leave the visits out."
        )
    first = recordings[0]
    for what in ("processing", "channels", "units"):  # processing may change the units
        for other in recordings[1:]:
            both = mine, theirs = getattr(first, what), getattr(other, what)
            if mine != theirs and (what != "processing" or len({*map(lasting_steps, both)}) > 1):
                one, two = (abbreviate(map(repr, names)) or "none" for names in both)
                raise InvalidRecordingError(
                    f"Subject {first.subject!r} has the {what} {one} and subject "
                    f"{other.subject!r} has {two}. All recordings of a Cohort need the same."
                )
