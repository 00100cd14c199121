"""WFDB records (PhysioNet), read with wfdb from the folder of their header only."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from percdl.exceptions import UnreadableFileError
from percdl.signals.extras import hushed, require
from percdl.signals.frames import pick_signals
from percdl.signals.recording import Recording

SUFFIXES = (".hea",)


def read_wfdb(path: Path, channels: dict[str, str] | None, subject: str) -> Iterator[Recording]:
    """Yield the recording of a WFDB header; see `Cohort.from_wfdb`."""
    wfdb = require("wfdb", "Reading WFDB records")
    in_segments = check_header(path)
    # Segments can only be joined at the frame rate, see `_check_segments`.
    with hushed():
        record = wfdb.rdrecord(str(path.absolute().with_suffix("")), smooth_frames=in_segments)
    signals = list(record.p_signal.T) if in_segments else record.e_p_signal
    rates = [
        record.fs * n for n in ([1] * record.n_sig if in_segments else record.samps_per_frame)
    ]
    # Names of signals are optional in a header.
    names = [name or f"signal{index}" for index, name in enumerate(record.sig_name)]
    wanted, chosen = pick_signals(path, names, rates, channels)
    yield Recording(
        np.column_stack([signals[index] for index in wanted]),
        sfreq=rates[wanted[0]],
        channels=chosen,
        units=[record.units[index] or "" for index in wanted],
        subject=subject,
    )


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
    if not lines or "\0" in text:
        raise UnreadableFileError(f"{path} is empty or no text. A WFDB header has a record line.")
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
    n_signals = int(number) if number.isdecimal() else 0
    if len(names) < n_signals:
        raise UnreadableFileError(
            f"{path}: the first line announces {n_signals} signal(s), but {len(names)} "
            "are described. The header was cut short; copy it again."
        )
    return False


def _check_inside(path: Path, name: str) -> None:
    """Raise where a name in a header, or a symbolic link, leads out of its folder."""
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
    segments = wfdb.rdheader(str(path.absolute().with_suffix("")), rd_segments=True).segments
    frames = {n for segment in segments if segment for n in segment.samps_per_frame or [1]}
    if frames - {1}:
        raise UnreadableFileError(
            f"{path}: a segment has signals of several sampling rates, which cannot be joined. "
            "Pass the segments as separate files."
        )
