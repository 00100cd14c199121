"""Events for other programs: CSV, BIDS, WFDB annotations and MNE annotations.

All functions take a frame such as ``model.events_`` or ``model.personalize(X).events``: one row
per event, with columns subject, atom, onset_sample (from zero), onset_seconds and amplitude.
"""

import json
import re
from collections.abc import Iterable, Iterator
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from percdl.exceptions import InvalidParameterError
from percdl.signals.extras import hushed, require
from percdl.signals.files import replace_file
from percdl.signals.recording import Label
from percdl.signals.tables import check_columns

COLUMNS = ("subject", "atom", "onset_sample", "onset_seconds", "amplitude")
#: The advice for a table that is not one of events.
SUCH_AS = "Pass a table such as `model.events_`."
# Of the columns of BIDS event files.
_DESCRIPTIONS = {
    "onset": {"Description": "Start of the pattern in the recording", "Units": "s"},
    "duration": {"Description": "Length of the atom, the same for all events", "Units": "s"},
    "trial_type": {"Description": "Which atom of the dictionary occurs, counted from zero"},
    "sample": {"Description": "Start of the pattern in samples, the first sample being 0"},
    "amplitude": {"Description": "Strength of the pattern, relative to the personal atom"},
    "subject": {"Description": "Subject id as it was in the recordings"},
}


def events_to_csv(events: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write events to one CSV file; other columns follow those of ``model.events_``.

    Cost O(E) for E events.

    Parameters
    ----------
    events, path
        A frame such as ``model.events_``, and the file, which is replaced if it exists.

    Examples
    --------
    >>> import tempfile
    >>> events = pd.DataFrame([["P01", 0, 120, 1.2, 1.0]], columns=list(COLUMNS))
    >>> events_to_csv(events, f"{tempfile.mkdtemp()}/events.csv")
    """
    _check(events)
    table = events[[*COLUMNS, *(name for name in events if name not in COLUMNS)]]
    replace_file(Path(path).expanduser(), table.to_csv(index=False, lineterminator="\n").encode())


def events_to_bids(
    events: pd.DataFrame,
    folder: str | PathLike[str],
    *,
    duration: float,
    task: str,
    datatype: str = "beh",
    subjects: Iterable[Label] | None = None,
) -> list[Path]:
    """Write events as BIDS: one ``events.tsv`` per subject and one JSON file for their columns.

    Files are ``sub-<id>/<datatype>/sub-<id>_task-<task>_events.tsv``. BIDS ids consist of letters
    and digits: other characters are left out of the file names, and the column ``subject`` keeps
    the full id. Cost O(E log E) for E events.

    Parameters
    ----------
    events, folder
        A frame such as ``model.events_``, and the root of the BIDS dataset.
    duration : float
        Length of an event in seconds, ``model.atom_length_ / model.sfreq_``; events with a
        column duration_seconds have their own.
    task, datatype : str
        Name of the task, e.g. ``"walk"``; folder of the recordings, e.g. ``"eeg"``.
    subjects : list, optional
        All subjects; those without events get a file with a header only.

    Returns
    -------
    list of Path
        The event files.

    Examples
    --------
    >>> import tempfile
    >>> events = pd.DataFrame([["P01", 0, 120, 1.2, 1.0]], columns=list(COLUMNS))
    >>> events_to_bids(events, tempfile.mkdtemp(), duration=0.5, task="walk")[0].name
    'sub-P01_task-walk_events.tsv'
    """
    _check(events, duration)
    label, own, ids = _bids_label(task), dict(_by_subject(events)), {}
    files = {f"task-{label}_events.json": json.dumps(_DESCRIPTIONS, indent=2) + "\n"}
    for subject in dict.fromkeys([*map(str, subjects or ()), *own]):
        name = _bids_label(subject.removeprefix("sub-"))
        if name in ids:
            raise InvalidParameterError(
                f"Subjects {ids[name]!r} and {subject!r} would both be sub-{name}, since BIDS "
                "allows letters and digits only. Rename one of them."
            )
        ids[name] = subject
        rows: Any = own.get(subject, events[:0])
        columns = {
            "onset": rows["onset_seconds"],
            "duration": event_lengths(rows, float(duration), "duration_seconds"),
            "trial_type": [f"atom{atom}" for atom in rows["atom"]],
            "sample": rows["onset_sample"],
            "amplitude": rows["amplitude"],
            "subject": rows["subject"],
        }
        path = f"sub-{name}/{datatype}/sub-{name}_task-{label}_events.tsv"
        look: Any = {"sep": "\t", "na_rep": "n/a", "lineterminator": "\n"}
        files[path] = pd.DataFrame(columns).to_csv(index=False, **look)
    paths = [Path(folder).expanduser() / name for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    return paths[1:]


def events_to_wfdb(
    events: pd.DataFrame,
    folder: str | PathLike[str],
    *,
    sfreq: float,
    extension: str = "percdl",
    symbol: str = "(",
) -> list[Path]:
    """Write events as WFDB annotations: one file per subject, ``<subject>.<extension>``.

    Every annotation is at the onset. Its ``num`` is the atom, and its note holds atom and
    amplitude. Needs wfdb (``pip install 'percdl[data]'``). Cost O(E log E) for E events.

    Parameters
    ----------
    events, folder
        A frame such as ``model.events_``, and usually the folder of the records.
    sfreq : float
        Samples per second, ``model.sfreq_``.
    extension, symbol : str
        Ending of the files, and kind of annotation: ``"("`` is the onset of a waveform.

    Returns
    -------
    list of Path
        The files written.

    Examples
    --------
    >>> import tempfile
    >>> events = pd.DataFrame([["P01", 0, 120, 1.2, 1.0]], columns=list(COLUMNS))
    >>> events_to_wfdb(events, tempfile.mkdtemp(), sfreq=100)[0].name
    'P01.percdl'
    """
    wfdb = require("wfdb", "Writing WFDB annotations")
    _check(events)
    names = [*events["subject"].astype(str).unique(), extension]
    odd = [name for name in names if not re.fullmatch(r"[-\w]+", name, re.ASCII)]
    last, first = max(events["atom"], default=0), min(events["onset_sample"], default=0)
    if odd or last > 127 or first < 0:
        raise InvalidParameterError(
            "WFDB names consist of letters, digits, - and _, and annotations hold atoms up to 127 "
            f"and onsets from 0 on. Rename or leave out the others {odd[:1]}."
        )
    root = Path(folder).expanduser()
    root.mkdir(parents=True, exist_ok=True)
    written = []
    for subject, rows in _by_subject(events):
        atoms, onsets = (rows[name].to_numpy(np.int64) for name in ("atom", "onset_sample"))
        pairs = zip(atoms, rows["amplitude"], strict=True)
        notes = [f"atom={atom} amplitude={amplitude:.9g}" for atom, amplitude in pairs]
        about = {"symbol": [symbol] * len(rows), "num": atoms, "aux_note": notes}
        with hushed():
            wfdb.wrann(subject, extension, onsets, **about, fs=float(sfreq), write_dir=str(root))
        written.append(root / f"{subject}.{extension}")
    return written


def events_to_annotations(
    events: pd.DataFrame, *, duration: float, subjects: Iterable[Label] | None = None
) -> dict[str, Any]:
    """Return events as one ``mne.Annotations`` per subject.

    Descriptions are ``atom0``, ``atom1``, ...; the amplitude is an extra, if the installed MNE
    supports extras. Onsets count from the first sample of the recording, as
    ``raw.set_annotations(found)`` expects; docs/interop.md shows how to keep the annotations of a
    Raw. Needs mne (``pip install 'percdl[interop]'``). Cost O(E log E) for E events.

    Parameters
    ----------
    events, duration, subjects
        As in `events_to_bids`; subjects without events get empty annotations.

    Returns
    -------
    dict of str to mne.Annotations
        One entry per subject, those of ``subjects`` first.

    Examples
    --------
    >>> events = pd.DataFrame([["P01", 0, 120, 1.2, 1.0]], columns=list(COLUMNS))
    >>> events_to_annotations(events, duration=0.5)["P01"].onset.tolist()
    [1.2]
    """
    mne = require("mne", "Making MNE annotations", "interop")
    _check(events, duration)
    found = {str(subject): mne.Annotations([], [], []) for subject in subjects or ()}
    has_extras = "extras" in signature(mne.Annotations).parameters
    for subject, rows in _by_subject(events):
        amplitudes = [{"amplitude": float(amplitude)} for amplitude in rows["amplitude"]]
        found[subject] = mne.Annotations(
            onset=rows["onset_seconds"].to_numpy(float),
            duration=event_lengths(rows, float(duration), "duration_seconds"),
            description=[f"atom{atom}" for atom in rows["atom"]],
            **({"extras": amplitudes} if has_extras else {}),
        )
    return found


def event_lengths(
    events: pd.DataFrame, usual: float, column: str = "duration_samples"
) -> np.ndarray:
    """Return the length of each event, in the unit of the column: its own, or the usual one."""
    own = events[column] if column in events else np.full(len(events), usual)
    return np.asarray(own, type(usual))


def _by_subject(events: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each subject's events, sorted by time, in order of first appearance."""
    for subject, rows in events.groupby(events["subject"].astype(str), sort=False):
        yield str(subject), rows.sort_values(["onset_sample", "atom"])


def _check(events: pd.DataFrame, duration: float = 0.0) -> None:
    """Raise if a column is missing or a duration is not a number of seconds."""
    check_columns("The events", events, COLUMNS, SUCH_AS)
    if not 0 <= duration < np.inf:
        raise InvalidParameterError(
            f"duration={duration} must be in seconds: `model.atom_length_ / model.sfreq_`."
        )


def _bids_label(text: str) -> str:
    label = re.sub("[^0-9A-Za-z]", "", text)
    if not label:
        raise InvalidParameterError(
            f"{text!r} has no letter or digit, which is all that BIDS allows in names."
        )
    return label


def usual_interval(intervals: np.ndarray) -> float:
    """Return the mean of the middle half of some intervals; NaN without any.

    Missed and additional events, up to a quarter each, do not count. Unlike the median, it is not
    a whole number of samples.
    """
    n = len(intervals)
    cut = min(-(-n // 4), (n - 1) // 2)
    return float(np.sort(intervals)[cut : n - cut].mean()) if n else np.nan
