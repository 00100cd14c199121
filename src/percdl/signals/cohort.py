"""The subjects of a study: an ordered, immutable collection of recordings."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsFloat, final, overload

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from percdl.exceptions import InvalidParameterError
from percdl.signals.consistency import check_consistent, common_sfreq, unknown_subject
from percdl.signals.construct import recordings_from_arrays
from percdl.signals.frames import recordings_from_frame
from percdl.signals.from_files import FromFiles
from percdl.signals.interchange import Interchange
from percdl.signals.labels import Label
from percdl.signals.measured import Measured
from percdl.signals.recording import Arrays, Recording, abbreviate
from percdl.signals.selection import as_ids, draw_test, positions
from percdl.signals.treatable import Treatable


@final
class Cohort(FromFiles, Interchange, Treatable, Measured, Sequence[Recording]):
    """Recordings of several subjects, with the same channels, units and processing.

    Lengths may differ, and so may sampling rates until a method needs a common one
    (`Cohort.resample`). Cost O(S) to make one of recordings or to select from it: no sample is
    copied.

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
        check_consistent(self._recordings)
        # Asked for again and again by a fit, and slow to gather from many recordings.
        self._subjects = tuple(str(recording.subject) for recording in self._recordings)
        self._lengths = np.array([recording.n_times for recording in self._recordings])
        self._lengths.flags.writeable = False
        self._position_of = {subject: i for i, subject in enumerate(self._subjects)}
        self._stacked: np.ndarray | None = None

    @property
    def stacked(self) -> np.ndarray | None:
        """The 3-D array (n_subjects, n_times, n_channels) the cohort was made from, if any."""
        return self._stacked

    @classmethod
    def from_arrays(
        cls,
        arrays: Arrays,
        *,
        sfreq: Arrays = 1.0,
        subjects: Iterable[Label] | None = None,
        groups: Iterable[Label | None] | None = None,
        channels: str | Iterable[str] | None = None,
        units: str | Iterable[str] | None = None,
    ) -> "Cohort":
        """Build a cohort from arrays, time before channels.

        Parameters
        ----------
        arrays : list of arrays, or array
            A list of (n_times, n_channels) or (n_times,) arrays, a 3-D array
            (n_subjects, n_times, n_channels), or a 2-D array (n_subjects, n_times) of
            univariate recordings. Axes are never guessed nor swapped.
        sfreq : float or one float per recording, default=1.0
            Samples per second.
        subjects, groups : one label per recording, optional
            Subject ids are ``"0"``, ``"1"``, ... by default.
        channels, units : optional
            Shared by all recordings, see `Recording`.
        """
        cohort = cls(
            recordings_from_arrays(
                arrays,
                sfreq=sfreq,
                subjects=subjects,
                groups=groups,
                channels=channels,
                units=units,
            )
        )
        # Integers and booleans were converted: the array is then not what the recordings hold.
        if type(arrays) is np.ndarray and arrays.ndim == 3:
            same = arrays.dtype == cohort[0].values.dtype
            cohort._stacked = arrays if same else None
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

        Parameters
        ----------
        frame : DataFrame
            Subjects come in order of appearance; their rows may be interleaved.
        channels : list of str
            The columns that hold the signal.
        subject, time, group : str
            Columns of the subject ids, of the time (seconds, dates or durations) and of
            the groups. With a time column, rows are sorted by it; without, they are
            taken in the order they come.
        sfreq : float, optional
            Samples per second. By default read from the time column, which must then be
            uniform, or 1.0 without one. When both are given they must agree.
        units : str or list of str, optional
            See `Recording`.

        Examples
        --------
        >>> frame = pd.DataFrame({"id": [7, 7, 8], "t": [0.01, 0.0, 0.0], "x": [2, 1, 3]})
        >>> Cohort.from_frame(frame, subject="id", channels="x", time="t", sfreq=100)["7"].values.T
        array([[1., 2.]])
        """
        return cls(
            recordings_from_frame(
                frame,
                channels=channels,
                subject=subject,
                time=time,
                sfreq=sfreq,
                group=group,
                units=units,
            )
        )

    @classmethod
    def concatenate(cls, cohorts: Iterable[Iterable[Recording]]) -> "Cohort":
        """Join cohorts end to end; subject ids must stay unique."""
        return cls(recording for cohort in cohorts for recording in cohort)

    @property
    def subjects(self) -> tuple[str, ...]:
        """Subject ids, in order."""
        return self._subjects

    @property
    def groups(self) -> tuple[str | None, ...]:
        """Group of each recording, in order."""
        return tuple(recording.group for recording in self)

    @property
    def lengths(self) -> Int[np.ndarray, " S"]:
        """Number of samples of each recording."""
        return self._lengths

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

    @property
    def sfreq(self) -> float:
        """The sampling rate all recordings share; an error names two that differ."""
        return common_sfreq(self._recordings)

    def select(
        self,
        subjects: Label | Iterable[Label] | None = None,
        group: Label | Iterable[Label] | None = None,
    ) -> "Cohort":
        """Keep these subjects, in the order given, and of those the ones in these groups."""
        kept = self if subjects is None else [self[subject] for subject in as_ids(subjects)]
        if group is not None:
            wanted = as_ids(group)
            absent = [name for name in wanted if name not in self.groups]
            if absent:
                raise InvalidParameterError(
                    f"No recording is in group {absent[0]!r}. "
                    f"Groups: {abbreviate(dict.fromkeys(self.groups), shown=10)}."
                )
            kept = [recording for recording in kept if recording.group in wanted]
        return Cohort(kept)

    def drop(self, subjects: Label | Iterable[Label]) -> "Cohort":
        """Leave these subjects out."""
        dropped = {self._position(subject) for subject in as_ids(subjects)}
        return Cohort(self[i] for i in range(len(self)) if i not in dropped)

    def split(
        self,
        test_size: float = 0.3,
        stratify_by_group: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> tuple["Cohort", "Cohort"]:
        """Draw a training and a test cohort, both in the present order.

        Recordings are drawn one by one: several trials of one person can end on both
        sides, so keep one trial per person or split by hand with `select`.

        Parameters
        ----------
        test_size : float or int, default=0.3
            Share, or number, of recordings in the test cohort.
        stratify_by_group : bool, default=True
            Keep the proportions of the groups, when there are several.
        random_state : int, RandomState or None
            Decides the draw.
        """
        train, test = draw_test(self.groups, test_size, stratify_by_group, random_state)
        return self[train], self[test]

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
            return self._recordings[self._position(index)]
        if isinstance(index, int | np.integer):
            if not -len(self) <= index < len(self):
                positions([index], len(self))  # raises, in words
            return self._recordings[index]
        if isinstance(index, slice):
            return Cohort(self._recordings[index])
        return Cohort(self._recordings[i] for i in positions(index, len(self)))

    def _position(self, subject: str) -> int:
        if subject not in self._position_of:
            raise KeyError(unknown_subject(subject, self.subjects))
        return self._position_of[subject]

    def __add__(self, other: object) -> "Cohort":
        if not isinstance(other, Cohort):
            return NotImplemented
        return self.concatenate([self, other])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cohort):
            return NotImplemented
        return self._recordings == other._recordings

    def __repr__(self) -> str:
        plural = "" if self.n_channels == 1 else "s"
        rates, sizes = np.unique(self.sfreqs), np.unique(self.lengths)
        parts = [
            f"{len(self)} recording{'' if len(self) == 1 else 's'}",
            f"{self.n_channels} channel{plural} ({abbreviate(self.channels)})",
            f"{abbreviate(f'{rate:g}' for rate in rates)} Hz",
            f"{sizes[0]} samples" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} samples",
        ]
        if any(group is not None for group in self.groups):
            counts = Counter(str(group) for group in self.groups)
            parts.append("groups " + abbreviate(f"{name}: {n}" for name, n in counts.items()))
        if self.processing:
            parts.append(f"processed: {'; '.join(self.processing)}")
        return f"Cohort({', '.join(parts)})"
