"""WFDB records (PhysioNet), read by the package wfdb, from local files only."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from percdl.exceptions import UnreadableFileError
from percdl.signals.readers.files import require
from percdl.signals.readers.table import missing_column
from percdl.signals.recording import Recording, abbreviate

SUFFIXES = (".hea",)


def read_wfdb(path: Path, channels: dict[str, str] | None, subject: str) -> Iterator[Recording]:
    """Yield the recording of a WFDB header; see `Cohort.from_wfdb`."""
    header = _header(path)
    for segment in getattr(header, "segments", None) or [header]:
        _check_signal_files(path, segment)
    record = _record(path, header)
    wanted = _wanted(path, record.sig_name, channels)
    signals = [np.asarray(record.e_p_signal[index]) for index in wanted]
    per_frame = [record.samps_per_frame[index] for index in wanted]
    if len(set(per_frame)) > 1:
        listed = [
            f"{record.sig_name[i]} {record.fs * n:g} Hz"
            for i, n in zip(wanted, per_frame, strict=True)
        ]
        raise UnreadableFileError(
            f"{path}: signals have different sampling rates ({abbreviate(listed, shown=20)}). "
            "Name those of one rate with channels=[...]."
        )
    names = [record.sig_name[index] for index in wanted]
    yield Recording(
        np.column_stack(signals),
        sfreq=record.fs * per_frame[0],
        channels=names if channels is None else list(channels.values()),
        units=[record.units[index] or "" for index in wanted],
        subject=subject,
    )


def _header(path: Path) -> Any:
    """Read a header; it must name signals."""
    wfdb = require("wfdb", "Reading WFDB records")
    if path.suffix != ".hea":
        raise UnreadableFileError(
            f"{path} is not a WFDB header. Pass the .hea file of the record."
        )
    try:
        header = wfdb.rdheader(str(path.absolute().with_suffix("")), rd_segments=True)
    except Exception as error:  # wfdb raises whatever a malformed line leads to
        raise UnreadableFileError(
            f"{path} is not a WFDB header, or a part of it is missing: "
            f"{type(error).__name__}: {error}. See the format at physionet.org, or copy the "
            "record again."
        ) from error
    if not header.n_sig:
        raise UnreadableFileError(f"{path}: the record has no signal.")
    n_described = len(header.sig_name or ())
    if n_described < header.n_sig:
        raise UnreadableFileError(
            f"{path}: the first line announces {header.n_sig} signals, but {n_described} are "
            "described. The header was cut short; copy it again."
        )
    return header


def _check_signal_files(path: Path, header: Any) -> None:
    """Refuse a record whose signal files are absent; wfdb would look for them elsewhere."""
    if header is None or header.sig_len == 0:
        return
    for name in dict.fromkeys(header.file_name):
        if not (path.parent / name).is_file():
            raise UnreadableFileError(
                f"{path}: its signal file {name!r} is not beside it. Copy it there; a WFDB record "
                "is a .hea file and the files it names."
            )


def _record(path: Path, header: Any) -> Any:
    """Read the samples, in physical units, each signal at its own rate."""
    wfdb = require("wfdb", "Reading WFDB records")
    try:
        return wfdb.rdrecord(str(path.absolute().with_suffix("")), smooth_frames=False)
    except Exception as error:  # wfdb raises whatever too few bytes lead to
        files = getattr(header, "file_name", None) or []
        sizes = [f"{n} has {(path.parent / n).stat().st_size} bytes" for n in dict.fromkeys(files)]
        raise UnreadableFileError(
            f"{path}: the header announces {header.sig_len} samples of {header.n_sig} signal(s), "
            f"which cannot be read ({'; '.join(sizes) or 'several segments'}; {error}). A file "
            "was probably cut short; copy the record again."
        ) from error


def _wanted(path: Path, known: list[str], channels: dict[str, str] | None) -> list[int]:
    """Return the positions of the signals named."""
    if channels is None:
        return list(range(len(known)))
    for name in channels:
        if name not in known:
            raise missing_column(str(path), name, known, "signal")
    return [known.index(name) for name in channels]
