"""Where patterns occur, written for other programs: CSV, BIDS and WFDB annotations.

All three take a frame such as ``model.events_`` or ``model.personalize(X).events``: one row per
event, columns subject, atom, onset_sample (counted from zero), onset_seconds and amplitude.
"""

import json
import re
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd

from percdl.exceptions import InvalidParameterError
from percdl.signals.extras import hushed, require
from percdl.signals.labels import Label
from percdl.signals.writers.files import replace_file

COLUMNS = ("subject", "atom", "onset_sample", "onset_seconds", "amplitude")
_DESCRIPTIONS = {
    "onset": {
        "Description": "Start of the pattern, from the start of the recording",
        "Units": "s",
    },
    "duration": {"Description": "Length of the atom, the same for all events", "Units": "s"},
    "trial_type": {"Description": "Which atom of the dictionary occurs, counted from zero"},
    "sample": {"Description": "Start of the pattern in samples, the first sample being 0"},
    "amplitude": {"Description": "Strength of the pattern, relative to the personal atom"},
    "subject": {"Description": "Subject id as it was in the recordings"},
}


def events_to_csv(events: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write events to one CSV file, which ``pandas.read_csv`` gives back.

    Columns beyond those of ``model.events_``, such as the probability of `judge_events`, follow.
    Cost O(E) for E events.

    Parameters
    ----------
    events : DataFrame
        Such as ``model.events_``.
    path : path
        The file; an old one is replaced.

    Examples
    --------
    >>> import tempfile
    >>> events = pd.DataFrame({"subject": ["P01"], "atom": 0, "onset_sample": 120})
    >>> events = events.assign(onset_seconds=1.2, amplitude=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     events_to_csv(events, f"{folder}/events.csv")
    ...     len(pd.read_csv(f"{folder}/events.csv"))
    1
    """
    checked = checked_events(events)
    table = checked[[*COLUMNS, *(name for name in checked if name not in COLUMNS)]]
    _write(Path(path), table.to_csv(index=False, lineterminator="\n"))


def events_to_bids(
    events: pd.DataFrame,
    folder: str | PathLike[str],
    *,
    duration: float,
    task: str,
    datatype: str = "beh",
    subjects: Iterable[Label] | None = None,
) -> list[Path]:
    """Write events as BIDS: one ``events.tsv`` per subject, and a JSON file on their columns.

    Files are ``sub-<id>/<datatype>/sub-<id>_task-<task>_events.tsv`` and, once for all,
    ``task-<task>_events.json``. BIDS allows letters and digits in ids only: others are left out
    of the names, and the column ``subject`` keeps the id as it was. Cost O(E (S + log E)) for E
    events.

    Parameters
    ----------
    events : DataFrame
        Such as ``model.events_``.
    folder : path
        Root of the BIDS dataset.
    duration : float
        Length of an event in seconds, ``model.atom_length_ / model.sfreq_``.
    task : str
        What subjects did, e.g. ``"walk"``.
    datatype : str, default="beh"
        Folder of the recordings: ``"eeg"``, ``"motion"``, ``"beh"``, ...
    subjects : list, optional
        Everyone who was looked at: who has no event gets a file with a header only.

    Returns
    -------
    list of Path
        The files of events written.

    Examples
    --------
    >>> import tempfile
    >>> events = pd.DataFrame({"subject": ["P01"], "atom": 0, "onset_sample": 120})
    >>> events = events.assign(onset_seconds=1.2, amplitude=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in events_to_bids(events, folder, duration=0.5, task="walk")]
    ['sub-P01_task-walk_events.tsv']
    """
    check_duration(duration)
    label = _bids_label(task, "task")
    checked = checked_events(events)
    everyone = dict.fromkeys([*map(str, subjects or ()), *checked["subject"].astype(str)])
    ids = _bids_ids(everyone)
    root = Path(folder).expanduser()
    written = []
    for subject in everyone:
        own = checked["subject"].astype(str) == subject
        rows = pd.DataFrame(checked[own]).sort_values(["onset_sample", "atom"])
        table = pd.DataFrame(
            {
                "onset": rows["onset_seconds"],
                "duration": float(duration),
                "trial_type": [f"atom{atom}" for atom in rows["atom"]],
                "sample": rows["onset_sample"],
                "amplitude": rows["amplitude"],
                "subject": rows["subject"],
            }
        )
        path = root / f"sub-{ids[subject]}" / datatype
        path.mkdir(parents=True, exist_ok=True)
        path = path / f"sub-{ids[subject]}_task-{label}_events.tsv"
        _write(path, table.to_csv(index=False, sep="\t", na_rep="n/a", lineterminator="\n"))
        written.append(path)
    root.mkdir(parents=True, exist_ok=True)
    _write(root / f"task-{label}_events.json", json.dumps(_DESCRIPTIONS, indent=2) + "\n")
    return written


def events_to_wfdb(
    events: pd.DataFrame,
    folder: str | PathLike[str],
    *,
    sfreq: float,
    extension: str = "percdl",
    symbol: str = "(",
) -> list[Path]:
    """Write events as WFDB annotations: one file per subject, ``<subject>.<extension>``.

    Every annotation stands at the onset; its ``num`` is the atom, and its note says atom and
    amplitude. Needs wfdb (``pip install 'percdl[data]'``). Cost O(E log E) for E events.

    Parameters
    ----------
    events : DataFrame
        Such as ``model.events_``.
    folder : path
        Where the records are, so that viewers find both.
    sfreq : float
        Samples per second, ``model.sfreq_``.
    extension : str, default="percdl"
        Letters only.
    symbol : str, default="("
        Kind of annotation: ``"("`` is the onset of a waveform, ``"N"`` a normal beat.

    Returns
    -------
    list of Path
        The files written.

    Examples
    --------
    >>> import tempfile
    >>> events = pd.DataFrame({"subject": ["P01"], "atom": 0, "onset_sample": 120})
    >>> events = events.assign(onset_seconds=1.2, amplitude=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in events_to_wfdb(events, folder, sfreq=100)]
    ['P01.percdl']
    """
    wfdb = require("wfdb", "Writing WFDB annotations")
    if not re.fullmatch("[A-Za-z]+", extension):
        raise InvalidParameterError(
            f"extension={extension!r} must consist of letters, e.g. 'atr'."
        )
    checked = checked_events(events)
    _check_wfdb(checked, symbol)
    root = Path(folder).expanduser()
    root.mkdir(parents=True, exist_ok=True)
    written = []
    for subject, rows in by_subject(checked):
        with hushed():
            wfdb.wrann(
                subject,
                extension,
                rows["onset_sample"].to_numpy(np.int64),
                symbol=[symbol] * len(rows),
                num=rows["atom"].to_numpy(np.int64),
                aux_note=[
                    f"atom={atom} amplitude={amplitude:.9g}"
                    for atom, amplitude in zip(rows["atom"], rows["amplitude"], strict=True)
                ],
                fs=float(sfreq),
                write_dir=str(root),
            )
        written.append(root / f"{subject}.{extension}")
    return written


def by_subject(events: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each subject's events in order of time, subjects in order of appearance."""
    for subject, rows in events.groupby(events["subject"].astype(str), sort=False):
        yield str(subject), rows.sort_values(["onset_sample", "atom"])


def checked_events(events: pd.DataFrame) -> pd.DataFrame:
    """Return a frame that has the columns of events, or refuse it."""
    missing = [name for name in COLUMNS if name not in events.columns]
    if missing:
        raise InvalidParameterError(
            f"The events have no column {missing[0]!r}, only "
            f"{', '.join(map(str, events.columns))}. Pass `model.events_`, or a frame like it."
        )
    return events


def check_duration(duration: float) -> None:
    """Refuse what is no length of an event in seconds."""
    if not (np.isfinite(duration) and duration >= 0):
        raise InvalidParameterError(
            f"duration={duration} must be a number of seconds. Pass "
            "`model.atom_length_ / model.sfreq_`."
        )


def _check_wfdb(events: pd.DataFrame, symbol: str) -> None:
    """Refuse before anything is written what the format cannot hold."""
    names = events["subject"].astype(str).unique()
    odd = [name for name in names if not re.fullmatch(r"[-\w]+", name, re.ASCII)]
    if odd:
        raise InvalidParameterError(
            f"WFDB records are named with letters, digits, - and _, unlike {odd[0]!r}. Rename "
            "the subjects of the events."
        )
    atoms, onsets = events["atom"].to_numpy(), events["onset_sample"].to_numpy()
    if (atoms > 127).any() or (onsets < 0).any():
        raise InvalidParameterError(
            "WFDB annotations hold atoms up to 127 and onsets from 0 on. Leave the others out."
        )
    if symbol == '"' and (onsets == 0).any():
        raise InvalidParameterError(
            "Comments (symbol='\"') at sample 0 are taken for definitions by whoever reads WFDB "
            "annotations, and lost. Pass another symbol, e.g. '('."
        )


def _bids_ids(subjects: Iterable[str]) -> dict[str, str]:
    ids = {subject: _bids_label(subject.removeprefix("sub-"), "subject") for subject in subjects}
    taken: dict[str, str] = {}
    for subject, label in ids.items():
        if label in taken:
            raise InvalidParameterError(
                f"Subjects {taken[label]!r} and {subject!r} would both be sub-{label}, since BIDS "
                "allows letters and digits only. Rename one of them."
            )
        taken[label] = subject
    return ids


def _bids_label(text: str, what: str) -> str:
    label = re.sub("[^0-9A-Za-z]", "", text)
    if not label:
        raise InvalidParameterError(
            f"{what}={text!r} has no letter or digit, which is all that BIDS allows in names."
        )
    return label


def _write(path: Path, text: str) -> None:
    replace_file(path.expanduser(), text.encode("utf-8"))
