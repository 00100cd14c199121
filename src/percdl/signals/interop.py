"""Cohorts from and to the containers of aeon, sktime, tslearn and MNE."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsFloat, TypeVar

import numpy as np
import pandas as pd

from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals import mne
from percdl.signals.containers import has_axes, is_nested, refusal
from percdl.signals.extras import hushed, require
from percdl.signals.frames import recordings_from_frame
from percdl.signals.recording import Arrays, Label, Recording

# Run-time type checkers know typing.Self in decorated classes only.
C = TypeVar("C", bound="Interop")
NUMPY_3D, NUMPY_LIST = "numpy3D", "np-list"
MULTIINDEX, FRAMES, NESTED = "pd-multiindex", "df-list", "nested_univ"
_CUBE = "a 3-D array (n_cases, n_channels, n_timepoints)"
_AEON = f"{_CUBE} or a list of 2-D arrays (n_channels, n_timepoints)"
_SKTIME = (
    "a 3-D array (n_instances, n_channels, n_timepoints), a frame with the index levels instance "
    "and time, a list of frames (one row per time) or a frame of series"
)


class Interop(ABC):
    """Convert recordings from and to the containers of other libraries.

    Axes are never guessed: each converter reads the one layout that its library documents. Pass
    labels that a container does not hold (sampling rate, subjects, groups, channel names, units)
    as in `Cohort.from_arrays`.
    """

    @abstractmethod
    def __init__(self, recordings: Iterable[Recording]) -> None: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Recording]: ...

    @classmethod
    @abstractmethod
    def from_arrays(cls: type[C], arrays: Arrays, **labels: Any) -> C:
        """Build a cohort from arrays, time before channels."""

    @classmethod
    def from_aeon(cls: type[C], X: Any, **labels: Any) -> C:
        """Read a collection of aeon: channels before time. aeon itself is not needed.

        Parameters
        ----------
        X : array (n_cases, n_channels, n_timepoints), or list of (n_channels, n_timepoints)
            aeon's ``numpy3D`` and ``np-list``; convert other types with
            ``aeon.utils.conversion.convert_collection``. Floats are not copied.
        **labels
            ``sfreq``, ``subjects``, ``groups``, ``channels`` and ``units``, see
            `Cohort.from_arrays`. Pass class labels ``y`` as ``groups``.

        Examples
        --------
        >>> from percdl import Cohort
        >>> Cohort.from_aeon(np.zeros((5, 2, 30)), sfreq=100, groups=list("aabbb"))
        Cohort(5 recordings, 2 channels (ch0, ch1), 100 Hz, 30 samples, groups a: 2, b: 3)
        """
        channels = labels.get("channels")
        if not (isinstance(X, list | tuple) and X):
            return cls.from_arrays(_swapped(X, channels, "from_aeon", _AEON), **labels)
        if not all(has_axes(case, 2) for case in X):
            advice = "Pass `[x[None, :] for x in X]` if they are univariate series."
            raise refusal(X, "from_aeon", _AEON, advice)
        cases = [np.asanyarray(case) for case in X]
        _check_names(channels, cases[0])
        return cls.from_arrays([case.T for case in cases], **labels)

    def to_aeon(self, output_type: str | None = None) -> Any:
        """Return a collection for aeon: channels before time. Class labels are `Cohort.groups`.

        Parameters
        ----------
        output_type : {"numpy3D", "np-list"}, optional
            An array (n_cases, n_channels, n_timepoints) or a list of arrays. By default an
            array if all lengths are equal and a list otherwise, as aeon expects.
        """
        recordings = tuple(self)
        if output_type is None:
            equal = len({recording.n_times for recording in recordings}) == 1
            output_type = NUMPY_3D if equal else NUMPY_LIST
        if output_type == NUMPY_LIST:
            return [recording.values.T.copy() for recording in recordings]
        if output_type == NUMPY_3D:
            return _cube(recordings, f"output_type={NUMPY_LIST!r}")
        raise InvalidParameterError(
            f"output_type={output_type!r} must be {NUMPY_3D!r}, {NUMPY_LIST!r} or None."
        )

    @classmethod
    def from_sktime(
        cls: type[C], X: Any, *, sfreq: SupportsFloat | None = None, **labels: Any
    ) -> C:
        """Read a panel of sktime; only ``nested_univ`` needs sktime itself.

        Parameters
        ----------
        X : array or DataFrame or list of DataFrame
            ``numpy3D`` (n_instances, n_channels, n_timepoints), ``pd-multiindex``, ``df-list``
            or ``nested_univ``; convert other types with ``sktime.datatypes.convert``.
        sfreq : float, optional
            Samples per second. By default read from a time index of dates or durations. Integers
            and periods count samples, 1.0 per second by default. Gaps in the index are refused.
        **labels
            ``subjects``, ``groups``, ``channels`` and ``units``, see `Cohort.from_arrays`. By
            default subjects and channels are the instances and columns of a frame.

        Examples
        --------
        >>> import pandas as pd
        >>> from percdl import Cohort
        >>> frames = {"P1": pd.DataFrame({"x": [0.0, 1.0]}), "P2": pd.DataFrame({"x": [2.0]})}
        >>> Cohort.from_sktime(pd.concat(frames), sfreq=100)["P1"]
        Recording(subject='P1', 2 samples x 1 channel (x), 100 Hz, 0.02 s)
        """
        if not isinstance(X, pd.DataFrame | list | tuple):
            cube = _swapped(X, labels.get("channels"), "from_sktime", _SKTIME)
            return cls.from_arrays(cube, sfreq=1.0 if sfreq is None else float(sfreq), **labels)
        found = _recordings_from_panel(_as_multiindex(X), sfreq)
        own = {"subjects": [str(r.subject) for r in found], "channels": found[0].channels}
        given = {name: value for name, value in labels.items() if value is not None}
        return cls.from_arrays(
            [recording.values for recording in found],
            sfreq=[recording.sfreq for recording in found],
            **(own | given),
        )

    def to_sktime(self, mtype: str = "pd-multiindex") -> Any:
        """Return a panel for sktime; only ``nested_univ`` needs sktime itself.

        Frames are indexed by subject id and by sample number from 0 on. Class labels are
        `Cohort.groups`.

        Parameters
        ----------
        mtype : {"pd-multiindex", "df-list", "nested_univ", "numpy3D"}
            ``numpy3D`` requires equal lengths and drops subjects and channel names.
        """
        mtypes = (NUMPY_3D, MULTIINDEX, FRAMES, NESTED)
        if mtype not in mtypes:
            raise InvalidParameterError(
                f"mtype={mtype!r} must be one of {', '.join(map(repr, mtypes))}. Convert to "
                "others with `sktime.datatypes.convert`."
            )
        recordings = tuple(self)
        if mtype == NUMPY_3D:
            return _cube(recordings, f"mtype={MULTIINDEX!r}")
        frames = {
            str(r.subject): pd.DataFrame(r.values, columns=list(r.channels), copy=True)
            for r in recordings
        }
        if mtype == FRAMES:
            return list(frames.values())
        panel = pd.concat(frames, names=["instances", "timepoints"])
        return _convert(panel, MULTIINDEX, NESTED) if mtype == NESTED else panel

    @classmethod
    def from_tslearn(cls: type[C], X: Any, *, lengths: Arrays | None = None, **labels: Any) -> C:
        """Read a dataset of tslearn: time before channels, NaN after the end of a series.

        tslearn itself is not needed. The padding is removed: the last samples where every channel
        is NaN. Other NaN are missing samples. A recording that ends in missing samples looks like
        a shorter one; pass ``lengths`` to tell them apart.

        Parameters
        ----------
        X : array (n_ts, sz, d)
            As ``tslearn.utils.to_time_series_dataset`` returns it.
        lengths : list of int, optional
            Number of samples of each series without padding.
        **labels
            ``sfreq``, ``subjects``, ``groups``, ``channels`` and ``units``, see
            `Cohort.from_arrays`.

        Examples
        --------
        >>> from percdl import Cohort
        >>> X = np.array([[[1.0], [2.0], [3.0]], [[1.0], [np.nan], [np.nan]]])
        >>> Cohort.from_tslearn(X).lengths
        array([3, 1])
        """
        return cls.from_arrays(_without_padding(X, lengths), **labels)

    def to_tslearn(self) -> np.ndarray:
        """Return an array (n_ts, sz, d) for tslearn, padded with NaN.

        tslearn reads NaN at the end of a recording as padding. Keep `Cohort.lengths` to convert
        back: ``Cohort.from_tslearn(X, lengths=cohort.lengths)``.
        """
        recordings = tuple(self)
        n_times = max(recording.n_times for recording in recordings)
        dtype = np.result_type(*(recording.values.dtype for recording in recordings))
        padded = np.full((len(recordings), n_times, recordings[0].n_channels), np.nan, dtype)
        for series, recording in zip(padded, recordings, strict=True):
            series[: recording.n_times] = recording.values
        return padded

    @classmethod
    def from_mne(
        cls: type[C],
        data: Any,
        *,
        subjects: str | Iterable[Label] | None = None,
        groups: str | Iterable[Label | None] | None = None,
        picks: Any = None,
        units: str | dict[str, str] | None = None,
        bad_as_nan: bool = False,
    ) -> C:
        """Read Raw, Epochs or Evoked of MNE, with their rate, channel names and units.

        MNE holds samples in SI units: volts, tesla. Values and units are kept, unless ``units``
        asks for a conversion. Needs mne (``pip install 'percdl[interop]'``).

        Parameters
        ----------
        data : Raw, Epochs, Evoked, or list of these
            A Raw or an Evoked is one recording. Each epoch of Epochs is one recording, named
            ``<subject>-<number>`` after its place in ``epochs.selection``, with its condition as
            group.
        subjects, groups : one label per item of ``data``, optional
            Subjects are ``info["subject_info"]["his_id"]`` by default, or ``"0"``, ``"1"``, ...
            if an item has no id.
        picks : optional
            Channels as in MNE: names, or types such as ``"eeg"``. By default all, including
            channels marked as bad.
        units : str or dict type -> unit, optional
            Convert, e.g. to ``"uV"`` or ``{"eeg": "uV", "mag": "fT"}``.
        bad_as_nan : bool, default=False
            Set the spans of a Raw annotated ``BAD_...`` to missing, in all channels.
        """
        return cls(mne.recordings_from_mne(data, subjects, groups, picks, units, bad_as_nan))

    def to_mne(self, ch_types: str | Iterable[str] = "misc") -> list[Any]:
        """Return one ``mne.io.RawArray`` per recording, with the subject id in its ``info``.

        MNE holds volts: channels in mV or uV are converted if their type has a unit. Missing
        samples stay NaN and are annotated ``BAD_NAN``. Groups are dropped. Needs mne
        (``pip install 'percdl[interop]'``).

        Parameters
        ----------
        ch_types : str or list of str, default="misc"
            Type of all channels or of each of them, such as ``"eeg"`` or ``"ecg"``. ``"misc"``
            has no unit, and values are not converted.
        """
        return mne.raws_from_recordings(tuple(self), ch_types)


def _swapped(X: Any, channels: Any, converter: str, needed: str) -> np.ndarray:
    """Return a 3-D array with time before channels."""
    if not has_axes(X, 3):
        flat = isinstance(X, np.ndarray) and X.ndim == 2
        advice = "Pass `X[:, None, :]` if its rows are univariate series." if flat else ""
        raise refusal(X, converter, needed, advice)
    cube = np.asanyarray(X)  # keeps masked arrays; their mask means "missing"
    if len(cube):
        _check_names(channels, cube[0])
    return cube.transpose(0, 2, 1)


def _check_names(channels: Any, case: np.ndarray) -> None:
    """Raise where names do not match an array (n_channels, n_timepoints)."""
    if channels is None:
        return
    n_names = 1 if isinstance(channels, str) else len(channels)
    n_channels, n_times = case.shape
    if n_names != n_channels:
        raise InvalidRecordingError(
            f"channels names {n_names} channel(s), but the first case has {n_channels} (shape "
            f"{case.shape}, read as n_channels x n_timepoints). "
            + (
                "If time comes first in it, use `Cohort.from_arrays(...)`."
                if n_names == n_times
                else "Give one name per channel."
            )
        )


def _cube(recordings: Sequence[Recording], otherwise: str) -> np.ndarray:
    """Return an array (n_cases, n_channels, n_timepoints); lengths must be equal."""
    first = recordings[0]
    other = next((r for r in recordings if r.n_times != first.n_times), None)
    if other is not None:
        raise InvalidParameterError(
            f"{NUMPY_3D!r} holds recordings of one length, but subject {first.subject!r} has "
            f"{first.n_times} samples and subject {other.subject!r} has {other.n_times}. "
            f"Pass {otherwise}."
        )
    return np.stack([recording.values.T for recording in recordings])


def _recordings_from_panel(panel: pd.DataFrame, sfreq: SupportsFloat | None) -> list[Recording]:
    """Return one recording per instance of a frame with two index levels."""
    names = [str(name) for name in panel.columns]
    clock = panel.index.get_level_values(1)
    if isinstance(clock, pd.PeriodIndex):
        clock = pd.Index(clock.asi8)
    frame = panel.set_axis(names, axis=1).reset_index(drop=True)
    who, when = _unused("instance", names), _unused("time", names)
    frame[who] = panel.index.get_level_values(0)
    if clock.dtype.kind in "iu":  # sample numbers
        sfreq = 1.0 if sfreq is None else float(sfreq)
        frame[when] = clock.to_numpy() / sfreq
    else:
        frame[when] = clock
    return recordings_from_frame(frame, channels=names, subject=who, time=when, sfreq=sfreq)


def _as_multiindex(X: Any) -> pd.DataFrame:
    if isinstance(X, list | tuple) and X and all(isinstance(x, pd.DataFrame) for x in X):
        _check_same_columns(X)
        return pd.concat(dict(enumerate(X)))
    if isinstance(X, pd.DataFrame) and is_nested(X):
        return _convert(X, NESTED, MULTIINDEX)
    if isinstance(X, pd.DataFrame) and X.index.nlevels == 2:
        return X
    raise refusal(X, "from_sktime", _SKTIME)


def _check_same_columns(frames: Sequence[pd.DataFrame]) -> None:
    first = list(frames[0].columns)
    for position, frame in enumerate(frames):
        if list(frame.columns) != first:
            raise InvalidParameterError(
                f"Frame 0 has columns {first} and frame {position} has {list(frame.columns)}. "
                "All must have the same channels, in the same order."
            )
        if frame.index.nlevels != 1:
            raise refusal(list(frames), "from_sktime", _SKTIME)


def _convert(X: Any, source: str, target: str) -> Any:
    """Convert between types of sktime, with sktime."""
    datatypes = require("sktime.datatypes", f"Converting {source} to {target}", "interop")
    with hushed():
        return datatypes.convert(X, source, target, as_scitype="Panel")


def _unused(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name = f"_{name}"
    return name


def _without_padding(X: Any, lengths: Arrays | None) -> Sequence[Any] | np.ndarray:
    """Cut each series of an array (n_ts, sz, d) where it ends."""
    if not has_axes(X, 3):
        needed = "a 3-D array (n_ts, sz, d) padded with NaN"
        advice = (
            "Use `tslearn.utils.to_time_series_dataset(X)` to make one."
            if isinstance(X, list | tuple)
            else "Pass `X[:, :, None]` if its rows are univariate series."
        )
        raise refusal(X, "from_tslearn", needed, advice)
    padded = np.asarray(X)
    if 0 in padded.shape:
        return padded  # refused by `from_arrays`
    ends = _observed_ends(padded)
    if lengths is not None:
        ends = _checked(lengths, ends, padded.shape[1])
    if len(ends) and not ends.all():
        raise InvalidRecordingError(
            f"Series {np.flatnonzero(ends == 0)[0]} of X is all NaN, so its length is unknown. "
            "Leave it out, or pass `lengths=`."
        )
    return [series[:end] for series, end in zip(padded, ends, strict=True)]


def _observed_ends(padded: np.ndarray) -> np.ndarray:
    """Return the length of each series up to its last observed sample."""
    if padded.dtype.kind != "f":  # integers have no NaN
        return np.full(len(padded), padded.shape[1])
    observed: np.ndarray = np.any(~np.isnan(padded), axis=2)
    behind = np.argmax(observed[:, ::-1], axis=1)
    return np.where(observed.any(1), padded.shape[1] - behind, 0)


def _checked(lengths: Arrays, ends: np.ndarray, most: int) -> np.ndarray:
    stated = np.atleast_1d(lengths)
    if stated.shape != ends.shape or stated.dtype.kind not in "iu":
        raise InvalidParameterError(
            f"lengths has {len(stated)} entries of type {stated.dtype}, but X has {len(ends)} "
            "series. Pass one integer per series."
        )
    wrong = np.flatnonzero((stated < ends) | (stated > most))
    if wrong.size:
        at = wrong[0]
        raise InvalidParameterError(
            f"lengths[{at}]={stated[at]}, but series {at} has its last observed sample at "
            f"{ends[at] - 1} of {most}. Pass the number of samples before the padding."
        )
    return stated
