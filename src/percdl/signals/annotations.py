"""Annotations of recordings: beats, waves and steps that a person or another program marked."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.parameters import in_samples
from percdl.signals.extras import hushed, require
from percdl.signals.formats import FORMAT_OF, FORMATS, file_subject, find_layout, read_text_table
from percdl.signals.from_files import Paths, find_files, list_paths
from percdl.signals.recording import abbreviate, as_rate
from percdl.signals.shards import as_any_cohort
from percdl.signals.tables import reading

# Samples that may be counted from one, and rounded.
MOST_OFF = 2

# Columns of text tables, by preference: those of BIDS, of `events_to_csv`, and usual names.
_COLUMNS = {
    "subject": ("subject", "participant_id"),
    "sample": ("sample", "onset_sample"),
    "seconds": ("seconds", "onset_seconds", "onset", "time"),
    "label": ("label", "trial_type", "description", "atom"),
    "symbol": ("symbol",),
    "action": ("action",),
}
# Files of annotations in a folder.
_IN_FOLDERS = ("**/*.atr", "**/*events.tsv")


def read_annotations(
    paths: Paths,
    *,
    labels: str | Iterable[str] | None = None,
    sfreq: float | None = None,
    subject_of: Callable[[Path], str] | None = None,
) -> pd.DataFrame:
    r"""Read annotations: WFDB files, BIDS ``events.tsv``, CSV and TSV tables.

    WFDB files are recognized by their ending, which can be anything but that of a table: ``.atr``
    (beats), or the name of a lead (``1.ii``). Tables have a column of times, ``onset``,
    ``seconds``, ``onset_seconds`` or ``time``, in seconds, or of samples, ``sample`` or
    ``onset_sample``; the columns ``label`` (or ``trial_type``, ``description``, ``atom``),
    ``symbol`` and ``subject`` are optional. Cells may be separated by semicolons, with decimal
    commas. Rows with the ``action`` ``remove`` of
    `read_corrections` are left out. Needs wfdb for WFDB files (``pip install 'percdl[data]'``).
    Cost O(E log E) for E annotations.

    Parameters
    ----------
    paths : path, pattern or list of these
        Such as ``"mitdb/*.atr"`` or ``"ludb/data/*.ii"``. In a folder, all ``.atr`` files are
        read, or else all ``events.tsv``.
    labels : str or list of str, optional
        Labels and symbols to keep; ``"all"`` keeps everything. By default WFDB files give beats
        only: rhythm changes, noise and comments are left out. Files with waves between ``(`` and
        ``)``, and tables, give all annotations.
    sfreq : float, optional
        Sampling rate of the recordings; by default that of the annotations. If they differ,
        samples are converted, e.g. for recordings that were resampled.
    subject_of : callable, optional
        From a path to the subject. By default the column ``subject``, ``sub-01`` in the names of
        BIDS files, or the name of the file without its ending.

    Returns
    -------
    DataFrame
        Sorted by time within subjects: subject, sample, seconds, label and symbol. ``symbol`` is
        that of WFDB, and ``label`` its meaning; the ends of a wave ``p`` are ``p onset`` and
        ``p end``.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "sub-01_task-rest_events.tsv")
    >>> _ = path.write_text("onset\ttrial_type\n0.5\tstep\n1.5\tstep\n")
    >>> read_annotations(path, sfreq=100)[["subject", "sample", "label"]].values.tolist()
    [['sub-01', 50, 'step'], ['sub-01', 150, 'step']]
    """
    if sfreq is not None:
        as_rate(sfreq, "`read_annotations`")
    wanted = None if labels is None else [labels] if isinstance(labels, str) else list(labels)
    found: dict[str, Path] = {}
    frames = []
    for path in find_annotations(paths):
        kind = FORMAT_OF.get(path.suffix.lower())
        if path.suffix.lower() == ".dat" or kind not in ("csv", None):
            raise UnreadableFileError(
                f"{path} is a recording. Pass the file of its annotations, e.g. "
                f"{path.with_suffix('.atr').name}, or a table ({', '.join(FORMATS['csv'])})."
            )
        with reading(path):
            frame = _read_table(path, sfreq) if kind else _read_wfdb(path, sfreq, wanted is None)
        frame = frame.sort_values(["subject", "sample"], kind="stable", ignore_index=True)
        if subject_of is not None:
            frame["subject"] = str(subject_of(path))
        for subject in frame["subject"].unique():
            if found.setdefault(subject, path) != path:
                raise UnreadableFileError(
                    f"{path}: subject {subject!r} was read before, from {found[subject]}. Read "
                    "one file per recording, or pass subject_of=, a function of the path."
                )
        frames.append(frame)
    table = pd.concat(frames, ignore_index=True)
    if wanted is None or wanted == ["all"]:
        return table
    kept = (table["label"].isin(wanted) | table["symbol"].isin(wanted)).to_numpy(bool)
    if not kept.any():
        known = dict.fromkeys([*table["symbol"], *table["label"]])
        raise InvalidParameterError(
            f"labels={labels!r}: no annotation has such a label or symbol. There are "
            f"{abbreviate((repr(name) for name in known if name), 12) or 'none at all'}."
        )
    return table.loc[kept].reset_index(drop=True)


def average_segments(
    cohort: Any,
    annotations: pd.DataFrame,
    window: int | str,
    pre: int | str = 0,
    by: str | None = None,
) -> Float[np.ndarray, "K L P"]:
    """Return the mean segment at annotations: a first atom whose window you choose.

    Each person's segments are averaged and scaled to unit norm; the mean over people is the atom.
    Pass it as ``init=``, with ``Algorithm(realign=False)`` to keep the window where it is. People
    without annotations and segments that are not complete are left out. Cost O(E L P) for E
    annotations.

    Parameters
    ----------
    cohort, annotations
        The recordings, and a frame such as that of `read_annotations`, read with
        ``sfreq=cohort.sfreq``; without a column ``sample``, that of ``onset_sample``.
    window, pre : int or duration
        Length of the window, and the time from its start to the annotated sample, in samples or
        as durations (``"0.6s"``, ``"200ms"``).
    by : str, optional
        A column of the annotations, such as ``"label"``: one atom for each of its values, in
        sorted order. So a few annotated cycles of each kind keep the kinds apart in a fit.

    Returns
    -------
    array (1, L, P) or (K, L, P)

    Examples
    --------
    >>> from percdl import Cohort
    >>> cohort = Cohort.from_arrays([np.eye(1, 9, 4)[0]], sfreq=1)
    >>> marks = pd.DataFrame({"subject": ["0"], "sample": [4]})
    >>> average_segments(cohort, marks, window=3, pre=1)[0, :, 0].tolist()
    [0.0, 1.0, 0.0]
    """
    if by is not None:
        parts = [rows for _, rows in annotations.groupby(by)]
        return np.concatenate([average_segments(cohort, rows, window, pre) for rows in parts])
    cohort = as_any_cohort(cohort)
    length, before = (in_samples(time, cohort.sfreq) for time in (window, pre))
    if not 0 <= before < length:
        raise InvalidParameterError(
            f"`window={window!r}, pre={pre!r}`: the annotated sample must lie in the window. Pass "
            "a longer window, or a shorter time before it."
        )
    atoms = []
    column = "sample" if "sample" in annotations else "onset_sample"
    known: Any = annotations[annotations["subject"].isin(cohort.subjects)]
    check_rate(known, cohort.sfreq)
    for subject, samples in known.groupby("subject")[column]:
        values = cohort[subject].values
        starts = samples.to_numpy(int) - before
        starts = starts[(starts >= 0) & (starts + length <= len(values))]
        segments = values[starts[:, None] + np.arange(length)].astype(float)
        mean = segments[np.isfinite(segments).all((1, 2))].sum(0)
        if (norm := np.linalg.norm(mean)) > 0:
            atoms.append(mean / norm)
    if not atoms:
        raise InvalidParameterError(
            f"No complete segment of {length} samples at the annotations of "
            f"{abbreviate(map(str, annotations['subject'].unique())) or 'none'}; the recordings "
            f"are those of {abbreviate(cohort.subjects)}. Subjects must have the same names in "
            "both; pass subject_of= to `read_annotations`, or a shorter window."
        )
    return np.mean(atoms, axis=0)[None]


def find_annotations(paths: Paths) -> list[Path]:
    """Return the annotation files of paths, patterns and folders."""
    found = []
    for path in list_paths(paths):
        inside = [pattern for pattern in _IN_FOLDERS if path.is_dir() and any(path.glob(pattern))]
        if path.is_dir() and not inside:
            raise FileNotFoundError(
                f"There is no .atr or events.tsv file in the folder {path}. Name the files, e.g. "
                f"{str(path / '*.qrs')!r}."
            )
        found.append(path / inside[0] if inside else path)
    return find_files(found, ())


def _read_wfdb(path: Path, sfreq: float | None, beats_only: bool) -> pd.DataFrame:
    wfdb = require("wfdb", "Reading WFDB annotations")
    is_qrs = require("wfdb.io.annotation", "Reading WFDB annotations").is_qrs

    stem, ending = str(path.absolute().with_suffix("")), path.suffix[1:]
    elements = ["symbol", "description", "label_store"]
    with hushed():
        read = wfdb.rdann(stem, ending, return_label_elements=elements)
    rate = read.fs or sfreq
    if rate is None:
        raise _unknown_rate(path, ", or put the .hea file of the record beside it")
    symbols = np.asarray(read.symbol, object)
    notes = (note.strip("\0 ") for note in read.aux_note)
    names = [note or name for note, name in zip(notes, read.description, strict=True)]
    seconds = read.sample / rate
    frame = pd.DataFrame(
        {
            "subject": path.stem,
            "sample": _samples(read.sample, seconds, sfreq),
            "seconds": seconds,
            "label": _name_ends(symbols, names),
            "symbol": symbols,
        }
    )
    if not beats_only or {"(", ")"} & set(symbols):
        return frame
    store = read.label_store
    return pd.DataFrame(frame[np.append(is_qrs, False)[np.minimum(store, len(is_qrs))]])


def _name_ends(symbols: np.ndarray, names: list[str]) -> list[str]:
    """Return the labels; a bracket next to a wave is the onset or the end of that wave."""
    ends = ("(", ")")
    for i, symbol in enumerate(symbols):
        wave = i + 1 if symbol == "(" else i - 1
        if symbol in ends and 0 <= wave < len(symbols) and symbols[wave] not in ends:
            names[i] = f"{symbols[wave]} {'onset' if symbol == '(' else 'end'}"
    return names


def _read_table(path: Path, sfreq: float | None) -> pd.DataFrame:
    layout = find_layout(path, [name for own in _COLUMNS.values() for name in own])
    table = read_text_table(path, layout=layout, least_rows=0)
    names = {
        name: column
        for name, columns in _COLUMNS.items()
        for column in reversed(columns)
        if column in table.frame
    }
    own = [table.column(names[name]) for name in ("sample", "seconds") if name in names]
    if layout.delimiter == ";" and any(cells.str.contains(",").any() for cells in own):
        table = replace(table, decimal=",")
    times = {name: table.numbers(names[name]) for name in ("sample", "seconds") if name in names}
    empty = {name: np.isnan(numbers) for name, numbers in times.items()}
    if "subject" in names:
        empty["subject"] = table.column(names["subject"]).isna().to_numpy()
    for name, is_empty in empty.items():
        for row in np.flatnonzero(is_empty)[:1]:
            problem = f"column {names[name]!r} is empty. Fill it in, or delete the row."
            raise table.fail(int(row), problem)
    if not times:
        raise UnreadableFileError(
            f"{path} has no column of times, only {abbreviate(table.frame.columns, 10)}. Name a "
            f"column {', '.join(_COLUMNS['seconds'])} (in seconds), or sample."
        )
    if sfreq is None and len(times) == 1 and len(table.frame):
        raise _unknown_rate(path)
    seconds = times["seconds"] if "seconds" in times else times["sample"] / float(sfreq or 1)
    columns: dict[str, Any] = {"subject": file_subject(path)}
    columns |= {"sample": _samples(times.get("sample"), seconds, sfreq), "seconds": seconds}
    columns |= {"label": "", "symbol": "", "action": ""}
    texts = [name for name in columns if name in names and name not in ("sample", "seconds")]
    frame = pd.DataFrame(columns | {name: table.column(names[name]).fillna("") for name in texts})
    return frame.loc[frame["action"] != "remove"].drop(columns="action")


def check_rate(annotations: pd.DataFrame, sfreq: float) -> None:
    """Raise if samples and seconds of annotations, where both are given, have another rate."""
    if not {"sample", "seconds"} <= {*annotations}:
        return
    off = np.abs(annotations["sample"] - annotations["seconds"] * sfreq) > MOST_OFF
    for row in np.flatnonzero(off)[:1]:
        subject, sample, time = annotations[["subject", "sample", "seconds"]].iloc[row]
        raise InvalidParameterError(
            f"Annotations of subject {subject!r} have sample {sample:g} at {time:g} s, but the "
            f"recordings {sfreq:g} samples per second. Pass sfreq={sfreq:g} to `read_annotations`."
        )


def _samples(samples: np.ndarray | None, seconds: np.ndarray, sfreq: float | None) -> np.ndarray:
    """Return positions at the rate of the recordings; unchanged if that is not given."""
    places = samples if sfreq is None else seconds * sfreq
    return np.rint(np.asarray(places, float)).astype(np.int64)


def _unknown_rate(path: Path, more: str = "") -> UnreadableFileError:
    return UnreadableFileError(
        f"{path} does not say the sampling rate. Pass sfreq= (in the shell, --sfreq), in samples "
        f"per second{more}."
    )
