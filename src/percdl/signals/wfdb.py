"""WFDB records (PhysioNet), read with wfdb from the folder of their header only."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from percdl.exceptions import UnreadableFileError
from percdl.signals.extras import hushed, require
from percdl.signals.frames import missing_column
from percdl.signals.recording import Recording, abbreviate

SUFFIXES = (".hea",)


def read_wfdb(path: Path, channels: dict[str, str] | None, subject: str) -> Iterator[Recording]:
    """Yield the recording of a WFDB header; see `Cohort.from_wfdb`."""
    record, signals, rates = _read(path)
    # Names of signals are optional in a header.
    names = [name or f"signal{index}" for index, name in enumerate(record.sig_name)]
    wanted = _wanted(path, names, channels)
    if len({rates[index] for index in wanted}) > 1:
        listed = [f"{names[index]} {rates[index]:g} Hz" for index in wanted]
        raise UnreadableFileError(
            f"{path}: signals have different sampling rates ({abbreviate(listed, shown=20)}). "
            "Choose signals of one rate with channels=[...]."
        )
    yield Recording(
        np.column_stack([signals[index] for index in wanted]),
        sfreq=rates[wanted[0]],
        channels=[names[index] for index in wanted] if channels is None else channels.values(),
        units=[record.units[index] or "" for index in wanted],
        subject=subject,
    )


def _read(path: Path) -> tuple[Any, list[np.ndarray], list[float]]:
    """Return a record, its signals in physical units, and the rate of each."""
    wfdb = require("wfdb", "Reading WFDB records")
    in_segments = check_header(path)
    try:
        # Segments can only be joined at the frame rate, see `_check_segments`.
        with hushed():
            record = wfdb.rdrecord(str(path.absolute().with_suffix("")), smooth_frames=in_segments)
        if not record.n_sig:
            raise UnreadableFileError(f"{path}: the record has no signal.")
        if in_segments:
            return record, list(record.p_signal.T), [record.fs] * record.n_sig
        rates = [record.fs * n for n in record.samps_per_frame]
        return record, [np.asarray(signal) for signal in record.e_p_signal], rates
    except UnreadableFileError:
        raise
    except Exception as error:  # wfdb raises many types for damaged records
        raise _explain(path, error) from error


def check_header(path: Path, is_segment: bool = False) -> bool:
    """Raise where a header is malformed or names files outside its folder.

    Returns whether the record is in segments. A segment must not be in segments itself.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UnreadableFileError(
            f"{path} is not a WFDB header. Pass the .hea file of the record."
        )
    _check_inside(path, path.name)
    # wfdb ignores bytes other than ASCII.
    text = path.read_bytes().decode("ascii", "ignore")
    stripped = [line.strip() for line in text.splitlines()]
    lines = [line.split() for line in stripped if line and line[0] != "#"]
    if not lines:
        raise UnreadableFileError(f"{path} is empty. A WFDB header has a line for the record.")
    in_segments, names = "/" in lines[0][0], [line[0] for line in lines[1:]]
    if any("://" in name or "::" in name for name in names):
        raise UnreadableFileError(f"{path} names a file on the network. Only local ones are read.")
    if in_segments and is_segment:
        raise UnreadableFileError(
            f"{path} is a segment that is in segments itself, which WFDB does not allow."
        )
    for name in dict.fromkeys(names):
        file = f"{name}.hea" if in_segments else name
        _check_inside(path, file)
        if in_segments and (path.parent / file).is_file():
            check_header(path.parent / file, is_segment=True)
    if in_segments:
        _check_segments(path)
        return True
    number = lines[0][1] if len(lines[0]) > 1 else ""
    n_signals = float(number) if number.isdecimal() else 0  # int() limits the digits
    if len(names) < n_signals:
        raise UnreadableFileError(
            f"{path}: the first line announces {n_signals:.0f} signal(s), but {len(names)} "
            "are described. The header was cut short; copy it again."
        )
    return False


def _check_inside(path: Path, name: str) -> None:
    """Raise where a name in a header, or a symbolic link, leads out of its folder."""
    if "\0" in name:
        return  # wfdb refuses such names
    folder = os.path.realpath(path.parent)
    found = os.path.realpath(os.path.join(folder, name))
    if not Path(found).is_relative_to(folder):
        raise UnreadableFileError(
            f"{path}: {name!r} is {found}, outside the folder of the record. Copy the file "
            "into that folder; other files are not read."
        )


def _check_segments(path: Path) -> None:
    """Raise where a segment is missing or has signals of several rates."""
    wfdb = require("wfdb", "Reading WFDB records")
    try:
        segments = wfdb.rdheader(str(path.absolute().with_suffix("")), rd_segments=True).segments
    except Exception as error:
        raise UnreadableFileError(
            f"{path}: a segment of the record cannot be read: {error}. Copy the record again."
        ) from error
    for segment in segments:
        if segment is not None and set(segment.samps_per_frame or [1]) != {1}:
            raise UnreadableFileError(
                f"{path}: segment {segment.record_name!r} has signals of several sampling rates, "
                "which cannot be joined. Pass the segments as separate files."
            )


def _explain(path: Path, error: Exception) -> UnreadableFileError:
    """Return the error for a record that wfdb cannot read."""
    wfdb = require("wfdb", "Reading WFDB records")
    try:
        header = wfdb.rdheader(str(path.absolute().with_suffix("")))
        names = list(dict.fromkeys(getattr(header, "file_name", None) or ()))
    except Exception:
        return UnreadableFileError(
            f"{path} is not a WFDB header ({type(error).__name__}: {error}). Copy it again."
        )
    for name in names:
        if not (path.parent / name).is_file():
            return UnreadableFileError(
                f"{path}: its signal file {name!r} is not beside it. Copy it there; a WFDB record "
                "is a .hea file and the files it names."
            )
    reason = " ".join(str(error).split())  # NumPy's messages may have several lines
    sizes = [f"{name} has {(path.parent / name).stat().st_size} bytes" for name in names]
    return UnreadableFileError(
        f"{path}: the header announces {header.sig_len} samples of {header.n_sig} signal(s), "
        f"which cannot be read ({'; '.join(sizes) or 'several segments'}; {reason}). A file "
        "was probably cut short; copy the record again."
    )


def _wanted(path: Path, known: list[str], channels: dict[str, str] | None) -> list[int]:
    """Return the positions of the chosen signals."""
    if channels is None:
        return list(range(len(known)))
    for name in channels:
        if name not in known:
            raise UnreadableFileError(missing_column(str(path), name, known, "signal"))
    return [known.index(name) for name in channels]
