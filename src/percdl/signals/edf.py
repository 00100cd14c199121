"""EDF and EDF+ files, read by edfio."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from percdl.exceptions import UnreadableFileError
from percdl.signals.extras import require
from percdl.signals.frames import missing_column
from percdl.signals.recording import Recording, abbreviate

SUFFIXES = (".edf",)
# Size of the fixed part of an EDF header, and the fields with the numbers of records and signals.
_HEADER_BYTES = 256
_N_RECORDS = slice(236, 244)
_N_SIGNALS = slice(252, 256)
_ANNOTATIONS = b"EDF Annotations"


def read_edf(path: Path, channels: dict[str, str] | None, subject: str) -> Iterator[Recording]:
    """Yield the recording of an EDF file; see `Cohort.from_edf`."""
    edf = _open(path)
    signals = _signals(path, edf, channels)
    rates, samples = _samples(path, signals)
    if len(set(rates)) > 1:
        listed = [f"{s.label} {rate:g} Hz" for s, rate in zip(signals, rates, strict=True)]
        raise UnreadableFileError(
            f"{path}: signals have different sampling rates ({abbreviate(listed, shown=20)}). "
            "Choose signals of one rate with channels=[...]."
        )
    names = [signal.label for signal in signals] if channels is None else list(channels.values())
    yield Recording(
        np.column_stack(samples),
        sfreq=rates[0],
        channels=names,
        units=[signal.physical_dimension for signal in signals],
        subject=subject,
    )


def _open(path: Path) -> Any:
    edfio = require("edfio", "Reading EDF files")
    # Not memory-mapped: the file may change, and its size is checked here.
    content = path.read_bytes()
    try:
        if len(content) < _HEADER_BYTES:
            raise ValueError(f"it has {len(content)} bytes, a header alone has {_HEADER_BYTES}")
        announced = int(content[_N_RECORDS])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files cut short are refused below
            edf = edfio.read_edf(content)
        present = edf.num_data_records
        starts = _record_starts(content, present)
    except Exception as error:  # edfio raises many types for damaged headers
        raise UnreadableFileError(
            f"{path} is not a whole EDF file: {error}. Export it again."
        ) from error
    if present < announced:
        raise UnreadableFileError(
            f"{path} ends within data record {present + 1}: its header announces {announced} data "
            f"records, {present} are there. The file was cut short; copy or export it again."
        )
    if present > announced:
        raise UnreadableFileError(
            f"{path}: its header announces {announced} data records (-1 means that it is "
            f"still being recorded), {present} are there. Export it again when it is finished."
        )
    _check_continuous(path, edf, starts)
    return edf


def _samples(path: Path, signals: list[Any]) -> tuple[list[float], list[np.ndarray]]:
    """Return the rates and the samples of signals; raise where one is not calibrated."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return [one.sampling_frequency for one in signals], [one.data for one in signals]
        except Exception as error:
            raise UnreadableFileError(
                f"{path}: the samples cannot be read in physical units: {error} Correct the "
                "header, or export the file again."
            ) from error


def _signals(path: Path, edf: Any, channels: dict[str, str] | None) -> list[Any]:
    """Return the chosen signals, without annotations."""
    labels = [signal.label for signal in edf.signals]
    if not labels:
        raise UnreadableFileError(f"{path} holds annotations but no signal.")
    if channels is None:
        return list(edf.signals)
    for label in channels:
        if label not in labels:
            raise UnreadableFileError(missing_column(str(path), label, labels, "signal"))
        if labels.count(label) > 1:
            raise UnreadableFileError(
                f"{path}: {labels.count(label)} signals are called {label!r}. Give them different "
                "names in the file."
            )
    return [edf.signals[labels.index(label)] for label in channels]


def _check_continuous(path: Path, edf: Any, starts: np.ndarray | None) -> None:
    """Raise where a recording is interrupted (EDF+D): records must follow each other directly."""
    if starts is None or not edf.signals:
        return
    ends = starts + edf.data_record_duration
    half_a_sample = 0.5 / max(signal.sampling_frequency for signal in edf.signals)
    apart = np.flatnonzero(np.abs(starts[1:] - ends[:-1]) > half_a_sample)
    if apart.size:
        at = int(apart[0])
        raise UnreadableFileError(
            f"{path}, data record {at + 2}: the recording is interrupted, record {at + 1} ends at "
            f"{ends[at]:g} s and this one starts at {starts[at + 1]:g} s. Export the parts as "
            "separate files."
        )


def _record_starts(content: bytes, n_records: int) -> np.ndarray | None:
    """Return the start of each data record in seconds; None if the file does not hold them.

    EDF+ opens the annotations of each record with its time, followed by the byte 20.
    """
    n_signals = int(content[_N_SIGNALS])
    labels = [label.strip() for label in _fields(content, 256, 16, n_signals)]
    if _ANNOTATIONS not in labels:
        return None
    # The number of samples comes after 216 bytes of other fields per signal.
    sizes = [2 * int(n) for n in _fields(content, 256 + 216 * n_signals, 8, n_signals)]
    keeper = labels.index(_ANNOTATIONS)
    begin = 256 * (n_signals + 1) + sum(sizes[:keeper])
    places = range(begin, begin + n_records * sum(sizes), sum(sizes))
    stamps = (content[place : place + sizes[keeper]].split(b"\x14")[0] for place in places)
    return np.array([float(stamp) for stamp in stamps])


def _fields(content: bytes, start: int, width: int, count: int) -> list[bytes]:
    """Return consecutive fields of equal width."""
    return [content[start + width * i : start + width * (i + 1)] for i in range(count)]
