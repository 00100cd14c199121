"""EDF and EDF+ files, read by edfio."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from percdl.exceptions import UnreadableFileError
from percdl.signals.extras import require
from percdl.signals.frames import pick_signals
from percdl.signals.recording import Recording

SUFFIXES = (".edf",)
# Fields of the header, which has 256 bytes: the numbers of records and of signals.
_N_RECORDS, _N_SIGNALS = slice(236, 244), slice(252, 256)
_ANNOTATIONS = b"EDF Annotations"


def read_edf(path: Path, channels: dict[str, str] | None, subject: str) -> Iterator[Recording]:
    """Yield the recording of an EDF file; see `Cohort.from_edf`."""
    signals, rates = _open(path)
    wanted, names = pick_signals(path, [signal.label for signal in signals], rates, channels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # signals without calibration
        values = np.column_stack([signals[i].data for i in wanted])
    yield Recording(
        values,
        sfreq=rates[wanted[0]],
        channels=names,
        units=[signals[i].physical_dimension for i in wanted],
        subject=subject,
    )


def _open(path: Path) -> tuple[Any, list[float]]:
    """Return the signals of a whole and uninterrupted file, and the rate of each."""
    edfio = require("edfio", "Reading EDF files")
    content = path.read_bytes()
    announced = int(content[_N_RECORDS])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # files cut short are refused below
        edf = edfio.read_edf(content)
    present = edf.num_data_records
    rates = [signal.sampling_frequency for signal in edf.signals]
    starts = _record_starts(content, present)
    if present != announced:
        raise UnreadableFileError(
            f"{path}: its header announces {announced} data records (-1 means that it is still "
            f"being recorded), {present} are there. Copy or export it again."
        )
    if starts is not None and rates:
        apart = np.abs(np.diff(starts) - edf.data_record_duration) > 0.5 / max(rates)
        if apart.any():
            at = int(apart.argmax()) + 2
            raise UnreadableFileError(
                f"{path}, data record {at}: the recording is interrupted before this record, "
                f"which starts at {starts[at - 1]:g} s. Export the parts as separate files."
            )
    return edf.signals, rates


def _record_starts(content: bytes, n_records: int) -> np.ndarray | None:
    """Return the start of each data record in seconds; None if the file does not hold them.

    EDF+ opens the annotations of each record with its time, followed by the byte 20.
    """
    n_signals = int(content[_N_SIGNALS])
    labels = [content[256 + 16 * i : 272 + 16 * i].strip() for i in range(n_signals)]
    if _ANNOTATIONS not in labels:
        return None
    # The number of samples comes after 216 bytes of other fields per signal.
    counts = 256 + 216 * n_signals
    sizes = [2 * int(content[counts + 8 * i : counts + 8 * (i + 1)]) for i in range(n_signals)]
    keeper = labels.index(_ANNOTATIONS)
    begin = 256 * (n_signals + 1) + sum(sizes[:keeper])
    places = range(begin, begin + n_records * sum(sizes), sum(sizes))
    stamps = (content[place : place + sizes[keeper]].split(b"\x14")[0] for place in places)
    return np.array([float(stamp) for stamp in stamps])
