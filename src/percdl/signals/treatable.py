"""What can be done to a whole cohort before a model sees it, written down as it is done."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from os import PathLike
from typing import TypeVar

import numpy as np

from percdl.exceptions import InvalidParameterError
from percdl.signals.preprocessing.bandpass import bandpass
from percdl.signals.preprocessing.resample import resample
from percdl.signals.preprocessing.zscore import zscore
from percdl.signals.processing import merged_steps
from percdl.signals.recording import Recording

# Not typing.Self: run-time type checkers know it in decorated classes only.
C = TypeVar("C", bound="Treatable")


class Treatable(ABC):
    """Resample, filter, scale and store recordings; every step returns a new cohort."""

    @abstractmethod
    def __init__(self, recordings: Iterable[Recording]) -> None: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Recording]: ...

    @property
    def processing(self) -> tuple[str, ...]:
        """What was done to the recordings since they were read, in order, in words."""
        return merged_steps(tuple(self))

    def resample(self: C, sfreq: float) -> C:
        """Bring all recordings to one sampling rate, with a low-pass filter against aliasing.

        Polyphase filtering (`scipy.signal.resample_poly`), in O(n_times) per channel.
        Recordings that have the rate already are returned as they are. A new sample whose
        filter touches a missing one (ten samples of the slower rate to each side) is missing:
        holes are never filled.

        Parameters
        ----------
        sfreq : float
            Samples per second.

        Examples
        --------
        >>> from percdl import Cohort
        >>> walks = Cohort.from_arrays(np.ones((1, 8)), sfreq=200)
        >>> walks.resample(100)
        Cohort(1 recording, 1 channel (ch0), 100 Hz, 4 samples,
            processed: resampled from 200 to 100 Hz)
        """
        return type(self)(resample(recording, float(sfreq)) for recording in self)

    def bandpass(self: C, low: float | None, high: float | None, *, order: int = 4) -> C:
        """Keep the frequencies between two edges, without delay.

        A Butterworth filter run forwards and backwards (`scipy.signal.sosfiltfilt`): the gain
        at an edge is 1/2 (-6 dB), and the phase is zero. Every run of observed samples is
        filtered by itself; what is missing stays missing.

        Parameters
        ----------
        low, high : float or None
            The edges in Hz; None leaves that side open.
        order : int, default=4
            Order of the filter that is run twice.
        """
        return type(self)(bandpass(recording, low, high, order) for recording in self)

    def zscore(self: C, per: str = "channel") -> C:
        """Bring each recording to mean zero and unit standard deviation, missing samples aside.

        Parameters
        ----------
        per : {"channel", "recording"}, default="channel"
            Scale each channel by its own standard deviation; or centre each channel and
            divide all by one number, which keeps the proportions between channels.
        """
        return type(self)(zscore(recording, per) for recording in self)

    def apply(
        self: C,
        function: Callable[[np.ndarray], np.ndarray],
        step: str,
        units: str | Iterable[str] | None = None,
    ) -> C:
        """Change the samples by a function of your own, written down under a name.

        Parameters
        ----------
        function : callable
            Takes the values (n_times, n_channels) of a recording and returns as many.
        step : str
            What it does, in words, e.g. ``"rectified"``.
        units : str or list of str, optional
            Units of the new values; none by default, since a function may change them.
        """
        return type(self)(_applied(recording, function, step, units) for recording in self)

    def to_npz(self, path: str | PathLike[str]) -> None:
        """Write all recordings to one NPZ archive, which `Cohort.from_npz` reads back."""
        from percdl.signals.writers.npz import write_npz

        write_npz(tuple(self), path)


def _applied(
    recording: Recording,
    function: Callable[[np.ndarray], np.ndarray],
    step: str,
    units: str | Iterable[str] | None,
) -> Recording:
    values = np.asarray(function(recording.values.copy()))
    if values.shape != recording.values.shape:
        raise InvalidParameterError(
            f"The step {step!r} turned values of shape {recording.values.shape} of subject "
            f"{recording.subject!r} into {values.shape}. It must return as many samples and "
            "channels; change rates with `resample`."
        )
    steps = (*recording.processing, step)
    return replace(recording, values=values, units=units, processing=steps)
