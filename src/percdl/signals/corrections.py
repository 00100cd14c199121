"""Corrections of the events of a recording by a person, as a table and as a file.

A kept event must be found again, a removed one must not. Coding satisfies them exactly, see
`percdl.algorithm.pins`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.files import replace_file
from percdl.signals.formats import file_subject, find_layout, read_text_table
from percdl.signals.recording import Correction, abbreviate
from percdl.signals.tables import MISSING, check_columns, reading

# The columns of a table of corrections; BIDS requires onset and duration first.
CORRECTION_COLUMNS = ("onset", "duration", "trial_type", "action", "tolerance", "subject")
ACTIONS = ("keep", "remove", "only")
_NUMBERS = ("onset", "duration", "tolerance")
_OPTIONAL: dict[str, Any] = {
    "duration": np.nan, "trial_type": "", "action": "keep", "tolerance": np.nan
}  # fmt: skip


def read_corrections(path: str | PathLike[str]) -> pd.DataFrame:
    r"""Read corrections of events from a table, such as a BIDS ``events.tsv`` with actions.

    Columns: ``onset`` and ``duration`` in seconds, ``trial_type`` (an atom: ``atom0`` or its
    name), ``action``, ``tolerance`` in seconds, and ``subject``. Only ``onset`` is required. By
    default, or with ``n/a``, the duration is that of the atom, any atom is allowed, the action is
    ``keep``, the onset has no fixed tolerance, and the subject is ``sub-01`` in the names of BIDS
    files, or the name of the file without its ending. Cost O(E) for E corrections.

    Parameters
    ----------
    path : path
        A TSV or CSV file.

    Returns
    -------
    DataFrame
        For `Cohort.correct`, in the order of the file. Missing numbers are NaN; a missing atom is
        an empty string.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "corrections.tsv")
    >>> _ = path.write_text("onset\tduration\taction\tsubject\n1.5\t0.6\tremove\tP01\n")
    >>> read_corrections(path)[["subject", "onset", "action"]].values.tolist()
    [['P01', 1.5, 'remove']]
    """
    path = Path(path).expanduser()
    with reading(path):
        layout = find_layout(path, CORRECTION_COLUMNS)
        table = read_text_table(path, layout=layout, least_rows=0)
        numbers = {name: table.numbers(name) for name in _NUMBERS if name in table.frame}
        if "onset" not in numbers:
            raise UnreadableFileError(
                f"{path} has no column 'onset', only {abbreviate(table.frame.columns, 10)}. "
                f"Corrections have the columns {', '.join(CORRECTION_COLUMNS)}."
            )
        frame = table.frame.assign(**numbers)
        if "subject" not in frame:
            frame["subject"] = file_subject(path)
        return _complete(frame, table.place)


def write_corrections(corrections: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write corrections to a TSV file that `read_corrections` reads.

    The file is replaced in one step: an interruption leaves the old one. Cost O(E) for E
    corrections.

    Parameters
    ----------
    corrections, path
        A frame as `find_corrections` returns it, and the file.

    Examples
    --------
    >>> import tempfile
    >>> frame = pd.DataFrame({"subject": ["P01"], "onset": [1.5], "action": ["remove"]})
    >>> path = Path(tempfile.mkdtemp(), "corrections.tsv")
    >>> write_corrections(frame, path)
    >>> path.read_text().splitlines()[1].split()
    ['1.5', 'n/a', 'n/a', 'remove', 'n/a', 'P01']
    """
    table = _complete(corrections).replace({"trial_type": {"": "n/a"}})
    text = table.to_csv(sep="\t", na_rep="n/a", index=False, lineterminator="\n")
    replace_file(Path(path).expanduser(), text.encode())


def find_corrections(
    before: pd.DataFrame, after: pd.DataFrame, *, duration: float
) -> pd.DataFrame:
    """Return the corrections that turn the events before into the events after.

    A new event must be found, at any onset around its middle; an event whose atom changed must be
    found with the new atom. A moved event must begin at its new onset. A removed event, without a
    new one in its place, must not be found. Events in both frames are not constrained. Cost
    O(E log E) for E events.

    Parameters
    ----------
    before, after : DataFrame
        Frames such as ``model.events_``: those of the fit, and the edited ones.
    duration : float
        Length of an event in seconds, ``model.atom_length_ / model.sfreq_``; events with a
        column duration_seconds have their own.

    Returns
    -------
    DataFrame
        For `Cohort.correct` and `write_corrections`.

    Examples
    --------
    >>> before = pd.DataFrame({"subject": "P01", "atom": 0, "onset_seconds": [1.0, 2.0, 3.0]})
    >>> after = pd.DataFrame({"subject": "P01", "atom": 0, "onset_seconds": [1.0, 2.1, 5.0]})
    >>> found = find_corrections(before, after, duration=0.6)
    >>> found[["onset", "action", "tolerance"]].values.tolist()
    [[2.1, 'keep', 0.0], [3.0, 'remove', nan], [5.0, 'keep', nan]]
    """
    old, new = (_as_rows(events, duration) for events in (before, after))
    in_old, in_new = map(pd.MultiIndex.from_frame, (old, new))
    gone, added = old[~in_old.isin(in_new)], new[~in_new.isin(in_old)]
    rows, changed = [], {*gone["subject"], *added["subject"]}
    for subject in filter(changed.__contains__, dict.fromkeys([*old["subject"], *new["subject"]])):
        own: Any = (frame[frame["subject"] == subject] for frame in (gone, added))
        rows += sorted(((*row, subject) for row in _compare(*own)), key=lambda row: row[0])
    return _complete(pd.DataFrame(rows, columns=list(CORRECTION_COLUMNS)))


def corrections_of(
    durations: Mapping[str, float], corrections: pd.DataFrame, names: Sequence[str]
) -> dict[str, tuple[Correction, ...]]:
    """Return the corrections by subject; ``durations`` are those of all subjects, in seconds."""
    table = _complete(corrections)
    if unknown := [name for name in table["subject"].unique() if name not in durations]:
        raise InvalidParameterError(
            f"Corrections of unknown subject(s) {abbreviate(map(repr, unknown))}; the recordings "
            f"are those of {abbreviate(durations)}. Subjects must have the same names in "
            "both; leave out the rows of other subjects."
        )
    found: dict[str, list[Correction]] = {}
    for row in table.sort_values("onset", kind="stable").to_dict("records"):
        subject, seconds = row["subject"], durations[row["subject"]]
        length = 0.0 if row["action"] == "remove" else np.nan_to_num(row["duration"])
        if not -1e-9 <= row["onset"] <= seconds - length + 1e-9:
            raise InvalidParameterError(
                f"{describe_correction(subject, row['action'], row['onset'])} lies outside the "
                f"recording, which lasts {seconds:g} s. Correct the onset (in seconds from the "
                "first sample) or the duration, or delete the row."
            )
        correction = Correction(
            row["onset"],
            _or_none(row["duration"]),
            _find_atom(row, names),
            row["action"],
            _or_none(row["tolerance"]),
        )
        found.setdefault(subject, []).append(correction)
    return {subject: tuple(own) for subject, own in found.items()}


def describe_correction(subject: object, action: str, onset: float) -> str:
    """Return the subject of a sentence about a correction."""
    return f"The correction {action!r} of subject {subject!r} at {onset:g} s"


def _find_atom(row: dict[str, Any], names: Sequence[str]) -> int | None:
    """Return the atom of a correction: by its name, or else by its number."""
    kind = row["trial_type"]
    if kind == "":
        return None
    if kind in names:
        return [*names].index(kind)
    if (number := re.fullmatch(r"(?:atom)?(\d+)", kind)) is None:
        known = f"Atoms have the names {abbreviate(map(repr, names), 10)}, and" if names else "Use"
        raise InvalidParameterError(
            f"{describe_correction(row['subject'], row['action'], row['onset'])} has the unknown "
            f"trial_type {kind!r}. {known} the numbers atom0, atom1, ...; n/a stands for any atom."
        )
    return int(number.group(1))


def _or_none(number: float) -> float | None:
    return None if np.isnan(number) else float(number)


def _complete(
    corrections: pd.DataFrame, place: Any = lambda row: f"Row {row} of the corrections"
) -> pd.DataFrame:
    """Return a checked table with all columns; ``place`` names a row in errors."""
    advice = f"They need subject and onset, and may have {', '.join(_OPTIONAL)}."
    check_columns("The corrections", corrections, ("subject", "onset"), advice)
    missing = {name: value for name, value in _OPTIONAL.items() if name not in corrections}
    table: Any = corrections.assign(**missing)[list(CORRECTION_COLUMNS)].reset_index(drop=True)
    for name in _NUMBERS:
        table[name] = table[name].to_numpy(float)
    for name in ("subject", "trial_type", "action"):
        text = table[name].map(lambda cell: "" if pd.isna(cell) else str(cell).strip())
        table[name] = text.where(~text.isin(MISSING), _OPTIONAL.get(name, "")).astype(str)
    problems: dict[str, tuple[Any, str]] = {
        "subject": (table["subject"] == "", "there is no subject. Fill it in"),
        "onset": (~np.isfinite(table["onset"]), "the onset must be a time in seconds"),
        "action": (~table["action"].isin(ACTIONS), f"it must be one of {', '.join(ACTIONS)}"),
        "duration": (
            (table["duration"] <= 0) | np.isinf(table["duration"]),
            "the duration must be a number of seconds above 0, or n/a",
        ),
        "tolerance": (
            (table["tolerance"] < 0) | np.isinf(table["tolerance"]),
            "the tolerance must be a number of seconds, at least 0, or n/a",
        ),
    }
    for name, (wrong, advice) in problems.items():
        for row in np.flatnonzero(wrong)[:1].tolist():
            found = table.iloc[row]
            raise InvalidParameterError(
                f"{place(row)} (subject {found['subject']!r}, onset {found['onset']:g} s) has "
                f"{name} {found[name]!r}: {advice}, or delete the row."
            )
    return table


def _as_rows(events: pd.DataFrame, duration: float) -> pd.DataFrame:
    """Return subject, atom, onset and duration in seconds of each event."""
    missing = [name for name in ("subject", "atom", "onset_seconds") if name not in events]
    if missing or not 0 < duration < np.inf:
        raise InvalidParameterError(
            f"`find_corrections(duration={duration!r})` needs events with subject, atom and "
            f"onset_seconds ({abbreviate(missing) or 'none'} missing), and their length in "
            "seconds. Pass `model.events_` and `model.atom_length_ / model.sfreq_`."
        )
    own = events["duration_seconds"] if "duration_seconds" in events else float(duration)
    table = events[["subject", "atom", "onset_seconds"]].assign(duration=own)
    return table.astype({"subject": str, "atom": int, "onset_seconds": float, "duration": float})


def _compare(gone: pd.DataFrame, added: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Yield the corrections of one subject, without the subject."""
    start, end = added["onset_seconds"], added["onset_seconds"] + added["duration"]
    partners = _pair(gone, added)
    for i, (_, atom, onset, duration) in enumerate(added.itertuples(index=False)):
        tolerance = 0.0 if partners.get(i, onset) != onset else np.nan
        yield onset, duration, f"atom{atom}", "keep", tolerance
    for _, _, onset, duration in gone.itertuples(index=False):
        middle = onset + duration / 2
        if not ((start <= middle) & (middle < end)).any():
            yield onset, duration, "", "remove", np.nan


def _pair(gone: pd.DataFrame, added: pd.DataFrame) -> dict[int, float]:
    """Return the earlier onset of each moved event, by its position in ``added``.

    An added event is a moved one if it overlaps one that is gone; the closest pairs come first.
    """
    now, then = (table["onset_seconds"].to_numpy() for table in (added, gone))
    distance = np.abs(now[:, None] - then)
    near = distance < gone["duration"].to_numpy()
    found: dict[int, float] = {}
    for i, j in sorted(np.argwhere(near).tolist(), key=lambda pair: distance[tuple(pair)]):
        if near[i, j]:
            found[i] = float(then[j])
            near[i], near[:, j] = False, False
    return found
