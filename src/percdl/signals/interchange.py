"""The doors of a cohort that lead to other libraries: aeon, sktime, tslearn and MNE."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, SupportsFloat, TypeVar

import numpy as np

from percdl.signals.containers import cases, mne, sktime, tslearn
from percdl.signals.labels import Label
from percdl.signals.recording import Arrays, Recording

# Not typing.Self: run-time type checkers know it in decorated classes only.
C = TypeVar("C", bound="Interchange")


class Interchange(ABC):
    """Take recordings from the containers of other libraries, and give them back.

    Axes are never guessed: each door reads the one layout its library documents, and refuses
    the others. What a container does not hold (sampling rate, subjects, groups, names of
    channels, units) is passed as in `Cohort.from_arrays`.
    """

    @abstractmethod
    def __init__(self, recordings: Iterable[Recording]) -> None: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Recording]: ...

    @classmethod
    @abstractmethod
    def from_arrays(cls: type[C], arrays: Arrays, **description: Any) -> C:
        """Build a cohort from arrays, time before channels."""

    @classmethod
    def from_aeon(
        cls: type[C],
        X: Any,
        *,
        sfreq: Arrays = 1.0,
        subjects: Iterable[Label] | None = None,
        groups: Iterable[Label | None] | None = None,
        channels: str | list[str] | tuple[str, ...] | None = None,
        units: str | Iterable[str] | None = None,
    ) -> C:
        """Take a collection of aeon: channels before time. aeon itself is not needed.

        Parameters
        ----------
        X : array (n_cases, n_channels, n_timepoints), or list of (n_channels, n_timepoints)
            aeon's ``numpy3D`` and ``np-list``; bring others to these with
            ``aeon.utils.conversion.convert_collection``. Floats are not copied.
        sfreq, subjects, groups, channels, units
            See `Cohort.from_arrays`; class labels ``y`` go into ``groups``.

        Examples
        --------
        >>> from percdl import Cohort
        >>> Cohort.from_aeon(np.zeros((5, 2, 30)), sfreq=100, groups=list("aabbb"))
        Cohort(5 recordings, 2 channels (ch0, ch1), 100 Hz, 30 samples, groups a: 2, b: 3)
        """
        return cls.from_arrays(
            cases.arrays_from_cases(X, channels),
            sfreq=sfreq,
            subjects=subjects,
            groups=groups,
            channels=channels,
            units=units,
        )

    def to_aeon(self, output_type: str | None = None) -> Any:
        """Return a collection for aeon: channels before time. Labels are `Cohort.groups`.

        Parameters
        ----------
        output_type : {"numpy3D", "np-list"}, optional
            An array (n_cases, n_channels, n_timepoints) or a list of arrays; by default an
            array where lengths are equal and a list where they are not, as aeon expects it.
        """
        return cases.cases_from_recordings(tuple(self), output_type)

    @classmethod
    def from_sktime(
        cls: type[C],
        X: Any,
        *,
        sfreq: SupportsFloat | None = None,
        subjects: Iterable[Label] | None = None,
        groups: Iterable[Label | None] | None = None,
        channels: str | list[str] | tuple[str, ...] | None = None,
        units: str | Iterable[str] | None = None,
    ) -> C:
        """Take a panel of sktime; only ``nested_univ`` needs sktime itself.

        Parameters
        ----------
        X : array or DataFrame or list of DataFrame
            ``numpy3D`` (n_instances, n_channels, n_timepoints), ``pd-multiindex``, ``df-list``
            or ``nested_univ``; bring others to these with ``sktime.datatypes.convert``.
        sfreq : float, optional
            Samples per second. A time index of dates or durations says it; integers and periods
            count samples, 1.0 per second by default. Gaps of the index are refused.
        subjects, groups, channels, units
            See `Cohort.from_arrays`; by default subjects and channels are named as the instances
            and columns of a frame.

        Examples
        --------
        >>> import pandas as pd
        >>> from percdl import Cohort
        >>> frames = {"P1": pd.DataFrame({"x": [0.0, 1.0]}), "P2": pd.DataFrame({"x": [2.0]})}
        >>> Cohort.from_sktime(pd.concat(frames), sfreq=100)["P1"]
        Recording(subject='P1', 2 samples x 1 channel (x), 100 Hz, 0.02 s)
        """
        if not sktime.is_panel(X):
            return cls.from_arrays(
                cases.arrays_from_cube(X, channels, "from_sktime", sktime.NEEDED),
                sfreq=1.0 if sfreq is None else float(sfreq),
                subjects=subjects,
                groups=groups,
                channels=channels,
                units=units,
            )
        found = sktime.recordings_from_panel(X, sfreq)
        return cls.from_arrays(
            [recording.values for recording in found],
            sfreq=[recording.sfreq for recording in found],
            subjects=[str(r.subject) for r in found] if subjects is None else subjects,
            groups=groups,
            channels=found[0].channels if channels is None else channels,
            units=units,
        )

    def to_sktime(self, mtype: str = "pd-multiindex") -> Any:
        """Return a panel for sktime; only ``nested_univ`` needs sktime itself.

        Frames are indexed by subject id and by sample number from 0 on. Labels are
        `Cohort.groups`.

        Parameters
        ----------
        mtype : {"pd-multiindex", "df-list", "nested_univ", "numpy3D"}
            ``numpy3D`` holds equal lengths only, and neither subjects nor channel names.
        """
        return sktime.panel_from_recordings(tuple(self), mtype)

    @classmethod
    def from_tslearn(
        cls: type[C],
        X: Any,
        *,
        lengths: Arrays | None = None,
        sfreq: Arrays = 1.0,
        subjects: Iterable[Label] | None = None,
        groups: Iterable[Label | None] | None = None,
        channels: str | Iterable[str] | None = None,
        units: str | Iterable[str] | None = None,
    ) -> C:
        """Take a dataset of tslearn: time before channels, NaN behind the end of a series.

        tslearn itself is not needed. The padding is cut off: the last samples of which every
        channel is NaN. NaN before them are missing samples. A recording that truly ends in NaN
        looks the same as a shorter one; ``lengths`` tells them apart.

        Parameters
        ----------
        X : array (n_ts, sz, d)
            As ``tslearn.utils.to_time_series_dataset`` makes it.
        lengths : list of int, optional
            Number of samples of each series, padding not counted.
        sfreq, subjects, groups, channels, units
            See `Cohort.from_arrays`.

        Examples
        --------
        >>> from percdl import Cohort
        >>> X = np.array([[[1.0], [2.0], [3.0]], [[1.0], [np.nan], [np.nan]]])
        >>> Cohort.from_tslearn(X).lengths
        array([3, 1])
        """
        return cls.from_arrays(
            tslearn.arrays_from_padded(X, lengths),
            sfreq=sfreq,
            subjects=subjects,
            groups=groups,
            channels=channels,
            units=units,
        )

    def to_tslearn(self) -> np.ndarray:
        """Return an array (n_ts, sz, d) for tslearn, NaN behind the end of each recording.

        tslearn takes NaN at the end of a recording for padding; keep `Cohort.lengths` to come
        back: ``Cohort.from_tslearn(X, lengths=cohort.lengths)``.
        """
        return tslearn.padded_from_recordings(tuple(self))

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
        """Take Raw, Epochs or Evoked of MNE, with their rate, channel names and units.

        MNE holds samples in SI units: volts, tesla. They are kept, and so is the name of the
        unit, unless ``units`` says otherwise. Needs mne (``pip install 'percdl[interop]'``).

        Parameters
        ----------
        data : Raw, Epochs, Evoked, or list of these
            A Raw or an Evoked is one recording. Of Epochs each epoch is one, called
            ``<subject>-<number>`` after its place in ``epochs.selection``, its condition the
            group.
        subjects, groups : one label per item of ``data``, optional
            By default subjects are named by ``info["subject_info"]["his_id"]`` where all have
            one, else counted from ``"0"``.
        picks : optional
            Channels, in the words of MNE: names, or types such as ``"eeg"``. All by default,
            those marked bad included.
        units : str or dict type -> unit, optional
            Convert, e.g. ``"uV"`` or ``{"eeg": "uV", "mag": "fT"}``.
        bad_as_nan : bool, default=False
            Make the spans of a Raw annotated ``BAD_...`` missing samples, in all channels.
        """
        return cls(
            mne.recordings_from_mne(
                data,
                subjects=subjects,
                groups=groups,
                picks=picks,
                units=units,
                bad_as_nan=bad_as_nan,
            )
        )

    def to_mne(self, ch_types: str | Iterable[str] = "misc") -> list[Any]:
        """Return one ``mne.io.RawArray`` per recording, the subject id in its ``info``.

        MNE holds volts: channels in mV or uV are converted where their type has a unit.
        Missing samples stay NaN and are annotated ``BAD_NAN``. Groups are left behind. Needs
        mne (``pip install 'percdl[interop]'``).

        Parameters
        ----------
        ch_types : str or list of str, default="misc"
            Type of all channels or of each of them, such as ``"eeg"`` or ``"ecg"``. ``"misc"``
            has no unit: numbers go over as they are.
        """
        return mne.raws_from_recordings(tuple(self), ch_types)
