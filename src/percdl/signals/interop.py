"""Cohorts from and to the containers of aeon, sktime, tslearn and MNE."""

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, SupportsFloat, TypeVar

import numpy as np
import pandas as pd

from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals.extras import require
from percdl.signals.recording import (
    Arrays,
    Label,
    Recording,
    Recordings,
    as_names,
    entries,
    qualified_name,
)

C = TypeVar("C", bound="Interop")
NUMPY_3D, NUMPY_LIST = "numpy3D", "np-list"
MULTIINDEX, FRAMES = "pd-multiindex", "df-list"
_CUBE = "a 3-D array (n_cases, n_channels, n_timepoints)"
# Units by their FIFF codes. MNE holds samples in these, never in multiples.
_SI = {
    1: "m", 3: "s", 6: "M", 7: "rad", 107: "V", 110: "S", 112: "T", 114: "°C", 117: "V/m²",
    201: "T/m", 202: "Am",
}  # fmt: skip
# Micro is written with three characters: u, the micro sign, and the Greek letter.
_PREFIXES = {
    "": 1, "m": 1e-3, "u": 1e-6, "\u00b5": 1e-6, "\u03bc": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15
}  # fmt: skip


class Interop(Recordings):
    """Convert recordings from and to the containers of other libraries; axes are not guessed."""

    @classmethod
    def from_aeon(cls: type[C], X: Any, **labels: Any) -> C:
        """Read a collection of aeon, ``numpy3D`` or ``np-list``: channels before time.

        Labels are those of `Cohort.from_arrays`; pass class labels ``y`` as ``groups``.
        """
        if isinstance(X, list | tuple) and X and all(has_axes(case, 2) for case in X):
            return cls.from_arrays([np.asanyarray(case).T for case in X], **labels)
        if not has_axes(X, 3):
            needed = f"{_CUBE} or a list of 2-D arrays (n_channels, n_timepoints)"
            raise refusal(X, "from_aeon", needed)
        return cls.from_arrays(np.asanyarray(X).transpose(0, 2, 1), **labels)

    def to_aeon(self, output_type: str | None = None) -> Any:
        """Return a collection for aeon: channels before time. Class labels are `Cohort.groups`.

        ``output_type`` is ``"numpy3D"`` (the default if all lengths are equal) or ``"np-list"``.
        """
        if output_type not in (None, NUMPY_3D, NUMPY_LIST):
            raise InvalidParameterError(
                f"output_type={output_type!r} must be {NUMPY_3D!r}, {NUMPY_LIST!r} or None."
            )
        if output_type is None:
            equal = len({recording.n_times for recording in self}) == 1
            output_type = NUMPY_3D if equal else NUMPY_LIST
        if output_type == NUMPY_3D:
            return self._cube(f"output_type={NUMPY_LIST!r}")
        return [recording.values.T.copy() for recording in self]

    @classmethod
    def from_sktime(
        cls: type[C], X: Any, *, sfreq: SupportsFloat | None = None, **labels: Any
    ) -> C:
        """Read a panel of sktime: ``numpy3D``, ``pd-multiindex`` or ``df-list``.

        The rate is read from a time index of dates or durations; integers and periods count
        samples. Gaps are refused. Labels are those of `Cohort.from_arrays`, by default the
        instances and columns of a frame. Convert other types with ``sktime.datatypes.convert``.
        """
        if has_axes(X, 3):
            cube = np.asanyarray(X).transpose(0, 2, 1)
            return cls.from_arrays(cube, sfreq=1.0 if sfreq is None else float(sfreq), **labels)
        if isinstance(X, list | tuple) and X and all(isinstance(x, pd.DataFrame) for x in X):
            if any(list(frame.columns) != list(X[0].columns) for frame in X):
                raise InvalidParameterError(
                    f"The first frame has columns {list(X[0].columns)}, another one does not. All "
                    "must have the same channels, in the same order."
                )
            X = pd.concat(dict(enumerate(X)))
        if not isinstance(X, pd.DataFrame) or X.index.nlevels != 2:
            needed = (
                f"{_CUBE}, a frame with the index levels instance and time, or a list of frames"
            )
            raise refusal(X, "from_sktime", needed)
        clock = X.index.get_level_values(1)
        if isinstance(clock, pd.PeriodIndex):
            clock = pd.Index(clock.asi8)
        if clock.dtype.kind in "iu":  # sample numbers
            sfreq = 1.0 if sfreq is None else float(sfreq)
            clock = pd.Index(clock.to_numpy() / sfreq)
        channels = [str(name) for name in X.columns]
        frame = X.set_axis(channels, axis=1).reset_index(drop=True)
        who, when = "(instance)", "(time)"  # columns are not called so
        frame[who], frame[when] = X.index.get_level_values(0), clock
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what the cohort below warns as well
            found = cls.from_frame(frame, channels=channels, subject=who, time=when, sfreq=sfreq)
        own = {"subjects": found.subjects, "channels": channels}
        rates = [recording.sfreq for recording in found]
        return cls.from_arrays([r.values for r in found], sfreq=rates, **(own | labels))

    def to_sktime(self, mtype: str = "pd-multiindex") -> Any:
        """Return a panel for sktime, indexed by subject id and sample number.

        ``mtype`` is ``"pd-multiindex"``, ``"df-list"`` or ``"numpy3D"``, which requires equal
        lengths and drops the names. Class labels are `Cohort.groups`.
        """
        mtypes = (NUMPY_3D, MULTIINDEX, FRAMES)
        if mtype not in mtypes:
            raise InvalidParameterError(
                f"mtype={mtype!r} must be one of {', '.join(map(repr, mtypes))}. Convert to "
                "others with `sktime.datatypes.convert`."
            )
        if mtype == NUMPY_3D:
            return self._cube(f"mtype={MULTIINDEX!r}")
        look: Any = {"columns": list(next(iter(self)).channels), "copy": True}
        frames = {str(r.subject): pd.DataFrame(r.values, **look) for r in self}
        if mtype == FRAMES:
            return list(frames.values())
        return pd.concat(frames, names=["instances", "timepoints"])

    @classmethod
    def from_tslearn(cls: type[C], X: Any, *, lengths: Arrays | None = None, **labels: Any) -> C:
        """Read a dataset of tslearn (n_ts, sz, d): time before channels, padded with NaN.

        The padding, the last samples where every channel is NaN, is removed. A recording that ends
        in missing samples looks like a shorter one, unless ``lengths`` is passed. Labels are
        those of `Cohort.from_arrays`.
        """
        if not has_axes(X, 3):
            needed = "a 3-D array (n_ts, sz, d) of `tslearn.utils.to_time_series_dataset`"
            raise refusal(X, "from_tslearn", needed)
        padded = np.asarray(X)
        observed = np.any(padded == padded, axis=2)  # not NaN
        ends = (observed * np.arange(1, padded.shape[1] + 1)).max(1, initial=0)
        if lengths is not None:
            stated = np.array(entries("lengths", lengths, len(padded)))
            if (stated < ends).any() or (stated > padded.shape[1]).any():
                raise InvalidParameterError(
                    f"lengths={stated.tolist()} must lie between the last observed samples "
                    f"{ends.tolist()} and {padded.shape[1]}."
                )
            ends = stated.astype(int)
        if not ends.all():
            raise InvalidRecordingError(
                f"Series {ends.argmin()} of X is all NaN. Leave it out, or pass `lengths=`."
            )
        return cls.from_arrays([x[:end] for x, end in zip(padded, ends, strict=True)], **labels)

    def to_tslearn(self) -> np.ndarray:
        """Return (n_ts, sz, d) padded with NaN; `from_tslearn(X, lengths=...)` reads it back."""
        arrays = [recording.values for recording in self]
        room = [((0, max(map(len, arrays)) - len(x)), (0, 0)) for x in arrays]
        padded = zip(arrays, room, strict=True)
        return np.stack([np.pad(x, more, constant_values=np.nan) for x, more in padded])

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

        Each epoch is one recording, named ``<subject>-<number>`` after its place in
        ``epochs.selection``, with its condition as group. ``subjects`` and ``groups`` have one
        label per item of ``data``; subjects are ``info["subject_info"]["his_id"]`` by default.
        ``picks`` are channels as in MNE, all by default, including bad ones. Samples are in SI
        units, unless ``units`` asks for a conversion: ``"uV"`` or ``{"eeg": "uV", "mag": "fT"}``.
        ``bad_as_nan`` sets spans of a Raw annotated ``BAD_...`` to missing. Needs mne
        (``pip install 'percdl[interop]'``).
        """
        mne = require("mne", "Reading MNE containers", "interop")
        kinds = (mne.io.BaseRaw, mne.BaseEpochs, mne.Evoked)
        items = [data] if isinstance(data, kinds) else data
        if not isinstance(items, list | tuple) or not all(isinstance(i, kinds) for i in items):
            raise refusal(data, "from_mne", "a Raw, Epochs or Evoked, or a list of them")
        ids = [(item.info["subject_info"] or {}).get("his_id") for item in items]
        labels: Iterable[Any] = map(str, ids) if all(ids) else range(len(items))
        if subjects is not None:
            labels = entries("subjects", as_names(subjects), len(items))
        given = None if groups is None else entries("groups", as_names(groups), len(items))
        recordings = []
        for position, (item, label) in enumerate(zip(items, labels, strict=True)):
            # The chosen channels, without samples: those of an item may not be loaded.
            empty = np.zeros((len(item.ch_names), 1))
            part = mne.EvokedArray(empty, item.info, verbose="ERROR")
            if picks is not None:
                part.pick(picks, verbose="ERROR")
            shared = {"sfreq": item.info["sfreq"], "channels": part.ch_names}
            shared["units"] = _units_in(part, units)
            options = {"picks": part.ch_names, "units": units}
            for subject, condition, values in _signals_in(mne, item, label, options, bad_as_nan):
                group = condition if given is None else given[position]
                recordings.append(Recording(values.T, subject=subject, group=group, **shared))
        return cls(recordings)

    def to_mne(self, ch_types: str | Iterable[str] = "misc") -> list[Any]:
        """Return one ``mne.io.RawArray`` per recording, with the subject id in its ``info``.

        ``ch_types`` is the type of all channels or of each. MNE holds volts: channels in mV or uV
        are converted if their type has a unit, ``"misc"`` has none. Missing samples are annotated
        ``BAD_NAN``. Groups are dropped. Needs mne (``pip install 'percdl[interop]'``).
        """
        mne = require("mne", "Making MNE containers", "interop")
        raws = []
        for recording in self:
            types = [ch_types] * recording.n_channels if isinstance(ch_types, str) else [*ch_types]
            if len(types) != recording.n_channels:
                raise InvalidParameterError(
                    f"ch_types={types} gives {len(types)} type(s) for {recording.n_channels} "
                    "channel(s). Give one per channel, or one for all."
                )
            info = mne.create_info([*recording.channels], recording.sfreq, types, verbose="ERROR")
            info["subject_info"] = {"his_id": str(recording.subject)}
            units = [_SI.get(int(channel["unit"]), "") for channel in info["chs"]]
            factors = [*map(_factor, recording.channels, recording.units, types, units)]
            raw = mne.io.RawArray((recording.values * factors).T, info, verbose="ERROR")
            if recording.has_missing:
                raw.set_annotations(mne.preprocessing.annotate_nan(raw, verbose="ERROR"))
            raws.append(raw)
        return raws

    def _cube(self, otherwise: str) -> np.ndarray:
        """Return an array (n_cases, n_channels, n_timepoints); lengths must be equal."""
        lengths = {recording.n_times: recording.subject for recording in self}
        if len(lengths) > 1:
            (one, first), (other, second), *_ = lengths.items()
            raise InvalidParameterError(
                f"{NUMPY_3D!r} holds recordings of one length, but subject {first!r} has {one} "
                f"samples and subject {second!r} has {other}. Pass {otherwise}."
            )
        return np.stack([recording.values.T for recording in self])


def _factor(name: str, unit: str, kind: str, si: str) -> float:
    """Return the factor that converts samples to the unit MNE uses for this channel type."""
    if si == "" or kind == "stim":
        return 1.0
    known = {prefix + si: size for prefix, size in _PREFIXES.items()}
    if unit not in known:
        raise InvalidParameterError(
            f"MNE holds channels of type {kind!r} in {si}, but the unit of channel {name!r} is "
            f"{unit!r}. Give its unit when you make the cohort, e.g. units='m{si}', or pass "
            "ch_types='misc', which has no unit."
        )
    return known[unit]


def _units_in(part: Any, asked: str | dict[str, str] | None) -> list[str]:
    """Return the unit of each channel: MNE's own, or the one asked for."""
    units = []
    for channel, kind in zip(part.info["chs"], part.get_channel_types(), strict=True):
        own = "" if kind == "stim" else _SI.get(int(channel["unit"]), "")
        converted = asked.get(kind, own) if isinstance(asked, dict) else asked or own
        units.append(converted if own else "")
    return units


def _signals_in(
    mne: Any, container: Any, label: Label, options: dict[str, Any], bad_as_nan: bool
) -> Iterator[tuple[Label, str | None, np.ndarray]]:
    """Yield id, condition and samples (n_channels, n_times) of each recording in a container."""
    if isinstance(container, mne.io.BaseRaw):
        rejected = "NaN" if bad_as_nan else None
        values = container.get_data(**options, reject_by_annotation=rejected, verbose="ERROR")
        yield label, None, values
        return
    if bad_as_nan:
        raise InvalidParameterError(
            "bad_as_nan=True reads the annotations of a Raw, but got "
            f"{in_words(container)}. Leave it out: MNE drops bad epochs by itself."
        )
    if not isinstance(container, mne.BaseEpochs):
        yield label, None, container.get_data(**options)
        return
    if not container.preload:  # bad epochs are known only after reading
        container = container.copy().drop_bad(verbose="ERROR")
    names = {code: name for name, code in container.event_id.items()}
    samples = container.get_data(**options, verbose="ERROR")
    codes = container.events[:, 2]
    for number, code, values in zip(container.selection, codes, samples, strict=True):
        yield f"{label}-{number}", names[code], values


def refusal(X: object, converter: str, needed: str) -> InvalidRecordingError:
    """Return an error that names the value, the layout needed and the converter to use."""
    door = better_door(X)
    advice = f" Use {door} instead." if door and f".{converter}(" not in door else ""
    return InvalidRecordingError(
        f"`Cohort.{converter}` needs {needed}, but got {in_words(X)}.{advice}"
    )


def in_words(X: object) -> str:
    """Describe a value by its type and shape, and a list by its first item too."""
    if isinstance(X, list | tuple):
        first = f", the first {in_words(X[0])}" if len(X) else ""
        return f"a {qualified_name(X)} of {len(X)}{first}"
    shape = getattr(X, "shape", None)
    return f"a {qualified_name(X)}" + (f" of shape {shape}" if isinstance(shape, tuple) else "")


def better_door(X: object) -> str | None:
    """Return the converter for a container, if its type is known."""
    item = X[0] if isinstance(X, list | tuple) and X else X
    if type(item).__module__.partition(".")[0] == "mne":
        return "`Cohort.from_mne(...)`"
    if isinstance(item, pd.DataFrame) and (item is not X or item.index.nlevels > 1):
        return "`Cohort.from_sktime(...)`"
    if isinstance(item, pd.DataFrame | pd.Series):
        return "`Cohort.from_frame(frame, subject=..., channels=[...])`"
    return None


def has_axes(X: object, n_axes: int) -> bool:
    """Whether a value is an array with this number of axes; frames are not arrays."""
    return not isinstance(X, pd.DataFrame) and getattr(X, "ndim", None) == n_axes
