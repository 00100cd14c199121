"""Read cohorts from files: paths, patterns and folders, one reader per format."""

import glob
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from percdl.exceptions import (
    InvalidParameterError,
    InvalidRecordingError,
    MixedColumnWarning,
    UnreadableFileError,
)
from percdl.signals import formats
from percdl.signals.formats import FORMAT_OF, FORMATS, STANDARD, TextLayout
from percdl.signals.recording import Recording, Recordings, abbreviate, as_label
from percdl.signals.tables import (
    MISSING,
    Channels,
    Columns,
    Table,
    channel_map,
    reading,
    recordings_in,
)

Paths = str | PathLike[str] | Iterable[str | PathLike[str]]
MetadataSource = str | PathLike[str] | pd.DataFrame | None
SubjectOf = Callable[[Path], str]
C = TypeVar("C", bound="FromFiles")
# Endings of files of corrections, and folders of results: they are no recordings.
CORRECTIONS, RESULTS = ".corrections.tsv", "percdl-results"
# Usual names of the column of subject ids; the second is that of BIDS.
_SUBJECT_COLUMNS = ("subject", "participant_id")


class FromFiles(Recordings):
    """Read recordings: all of them, or an error that names the file and the line or record.

    Common arguments:

    - ``paths`` is a path, a pattern such as ``"walks/*.csv"``, a folder (with its subfolders, but
      without corrections and results of the studio), or a list of these.
    - The subject id is the name of the file without its ending, or ``subject_of(path)``.
    - ``metadata`` is a table (CSV, TSV, Parquet file or DataFrame) with one row per subject: ids
      in ``metadata_subject`` (by default ``subject`` or ``participant_id``), groups in ``group``
      (by default ``group``, if it exists). Its subjects must be those of the files.
    - ``channels`` lists columns or signals to read, or maps them to channel names.
    """

    @classmethod
    def from_csv(
        cls: type[C],
        paths: Paths,
        *,
        channels: Channels = None,
        sfreq: float | None = None,
        time: str | None = None,
        subject: str | None = None,
        group: str | None = None,
        units: str | Iterable[str] | None = None,
        metadata: MetadataSource = None,
        metadata_subject: str | None = None,
        subject_of: SubjectOf | None = None,
        delimiter: str | None = None,
        decimal: str = ".",
        encoding: str = "utf-8-sig",
        skip_lines: int = 0,
        header: bool = True,
    ) -> C:
        """Read text tables, one row per sample.

        Empty cells, NaN, NA and null are missing samples. Rows of unequal length, text among
        numbers, blank lines and gaps of the clock raise an error.

        Parameters
        ----------
        paths, channels, metadata, metadata_subject, subject_of
            See `FromFiles`. By default all columns not named elsewhere are channels, except
            clocks and counters.
        sfreq, time : float, str, optional
            Samples per second, or the column of times: seconds, durations (00:00:01.25) or dates
            (ISO 8601), with equal steps within 0.1 %. With both, times may be rounded.
        subject, group : str, optional
            Columns of subject ids and groups, in files of several subjects.
        units : str or list of str, optional
            See `Recording`.
        delimiter, decimal, encoding, skip_lines, header : optional
            How the text is written: ``header=False`` names the columns ``"0"``, ``"1"``, ...
        """
        own = group if metadata is None else None
        columns = Columns(channel_map(channels), subject, own, time, sfreq, units)
        layout = TextLayout(delimiter, decimal, encoding, skip_lines, header)

        def read(path: Path, subject: str) -> Iterable[Recording]:
            table = formats.read_text_table(path, columns.needed, columns.labels, layout)
            return recordings_in(table, columns, subject)

        people = {"group": group, "metadata": metadata, "metadata_subject": metadata_subject}
        return cls(read_all(paths, "csv", read, subject_of, **people, encoding=encoding))

    @classmethod
    def from_parquet(
        cls: type[C],
        paths: Paths,
        *,
        channels: Channels = None,
        sfreq: float | None = None,
        time: str | None = None,
        subject: str | None = None,
        units: str | Iterable[str] | None = None,
        **people: Any,
    ) -> C:
        """Read Parquet tables, one row per sample; arguments as in `from_csv`."""
        own = people.get("group") if people.get("metadata") is None else None
        columns = Columns(channel_map(channels), subject, own, time, sfreq, units)

        def read(path: Path, subject: str) -> Iterable[Recording]:
            table = formats.read_parquet_table(path, columns.needed)
            return recordings_in(table, columns, subject)

        return cls(read_all(paths, "parquet", read, **people))

    @classmethod
    def from_npz(
        cls: type[C],
        paths: Paths,
        *,
        values: str = "values",
        sfreq: float | None = None,
        channels: str | Iterable[str] | None = None,
        units: str | Iterable[str] | None = None,
        **people: Any,
    ) -> C:
        """Read NPZ archives: cohorts written by `Cohort.to_npz`, or one recording per file.

        ``values`` names the entry of the samples, (n_times, n_channels) or (n_times,), of
        archives with one recording; ``sfreq``, ``channels`` and ``units`` replace the entries of
        these names. Other arguments: see `FromFiles`.
        """
        labels = {"sfreq": sfreq, "channels": channels, "units": units}
        given = {name: value for name, value in labels.items() if value is not None}
        read = partial(formats.read_npz, entry=values, given=given)
        return cls(read_all(paths, "npz", read, **people))

    def to_npz(self, path: str | PathLike[str]) -> None:
        """Write all recordings to one NPZ archive, which `Cohort.from_npz` reads back."""
        formats.write_npz(tuple(self), path)

    @classmethod
    def from_edf(cls: type[C], paths: Paths, *, channels: Channels = None, **people: Any) -> C:
        """Read EDF and EDF+ files, one recording each, in the units of the file.

        Annotations are ignored. Signals must have one sampling rate: choose them with
        ``channels``. Interrupted recordings (EDF+D) are refused. Needs edfio
        (``pip install 'percdl[data]'``). Other arguments: see `FromFiles`.
        """
        read = partial(formats.read_edf, channels=channel_map(channels))
        return cls(read_all(paths, "edf", read, **people))

    @classmethod
    def from_wfdb(cls: type[C], paths: Paths, *, channels: Channels = None, **people: Any) -> C:
        """Read WFDB records (PhysioNet) from their .hea files, in the units of the record.

        Only files in the folder of the header are read; a name or a symbolic link to another
        place raises an error, and so do segments. Signals must have one sampling rate: choose
        them with ``channels``. Needs wfdb (``pip install 'percdl[data]'``). Other arguments: see
        `FromFiles`.
        """
        read = partial(formats.read_wfdb, channels=channel_map(channels))
        return cls(read_all(paths, "wfdb", read, **people))

    @classmethod
    def from_folder(
        cls: type[C],
        folder_path: str | PathLike[str],
        *,
        format: str | None = None,
        metadata: MetadataSource = None,
        **options: Any,
    ) -> C:
        """Read all recordings in a folder and its subfolders.

        The ``format`` ("csv", "parquet", "npz", "edf" or "wfdb") follows from the file endings by
        default, and ``metadata`` is ``participants.tsv`` (BIDS), if it exists. Other options go to
        the reader of the format, e.g. ``sfreq=`` for CSV files.
        """
        table = participants_table(folder_path) if metadata is None else metadata
        chosen, files = find_recordings(folder_path, format, table)
        return getattr(cls, f"from_{chosen}")(files, metadata=table, **options)


def find_recordings(
    paths: Paths, format: str | None = None, metadata: object = None
) -> tuple[str, list[Path]]:
    """Return the format and the files of paths, patterns and folders, without the metadata."""
    if format is not None and format not in FORMATS:
        raise InvalidParameterError(f"format={format!r} must be one of {', '.join(FORMATS)}.")
    files = find_files(paths, tuple(FORMAT_OF) if format is None else FORMATS[format])
    table = Path(metadata).expanduser() if isinstance(metadata, str | PathLike) else None
    if table is not None and table.is_file():
        files = [file for file in files if not file.samefile(table)]
    found = {format or FORMAT_OF.get(file.suffix.lower()): file for file in reversed(files)}
    if len(found) != 1 or None in found:
        listed = ", ".join(f"{file.name} ({name or 'unknown'})" for name, file in found.items())
        raise UnreadableFileError(
            f"Recordings of one format are needed, but {listed or 'no file'} was found. Pass the "
            "format (format='edf', --input-format edf) or other files; pass the table of subjects "
            "as metadata (metadata=, --metadata)."
        )
    return str(*found), files


def find_files(paths: Paths, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files of paths, patterns and folders, each sorted by name."""
    if not (wanted := list_paths(paths)):
        raise InvalidParameterError("The list of files is empty. Pass at least one path.")
    return [file for path in wanted for file in _expand(path, suffixes)]


def list_paths(paths: Paths) -> list[Path]:
    """Return one or several paths as a list."""
    wanted = [paths] if isinstance(paths, str | PathLike) else paths
    return [Path(path).expanduser() for path in wanted]


def _expand(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return a file, the matches of a pattern, or the visible files in a folder but results."""
    if path.is_file():
        return [path]
    if path.is_dir():
        listed = (file for file in path.rglob("*") if file.suffix.lower() in suffixes)
        found = [
            file
            for file in listed
            if file.is_file()
            and not file.name.startswith(".")
            and not is_result(file.relative_to(path))
        ]
        problem = f"There is no {' or '.join(suffixes)} file in the folder {path}."
    else:
        matches = map(Path, glob.glob(str(path), recursive=True))
        found = [match for match in matches if match.is_file()]
        problem = f"There is no file {str(path)!r} (seen from {Path.cwd()})."
    if not found:
        raise FileNotFoundError(f"{problem} Check the path.")
    return sorted(found)


def is_result(file: Path) -> bool:
    """Return whether a file, seen from a folder of recordings, holds corrections or results."""
    return file.name.endswith(CORRECTIONS) or RESULTS in file.parts


def participants_table(folder: str | PathLike[str]) -> Path | None:
    """Return the table of subjects of a BIDS folder, if it exists."""
    table = Path(folder).expanduser() / "participants.tsv"
    return table if table.is_file() else None


def read_all(
    paths: Paths,
    format: str,
    read: Callable[..., Iterable[Recording]],
    subject_of: SubjectOf | None = None,
    *,
    metadata: MetadataSource = None,
    metadata_subject: str | None = None,
    group: str | None = None,
    encoding: str = STANDARD.encoding,
) -> list[Recording]:
    """Read every file; add the groups of the metadata."""
    found: dict[str, tuple[Path, Recording]] = {}
    for path in find_files(paths, FORMATS[format]):
        own = path.stem if subject_of is None else str(subject_of(path))
        with reading(path):
            for recording in read(path, subject=own):
                subject = str(recording.subject)
                before, first = next(iter(found.values()), (path, recording))
                if recording.channels != first.channels:
                    mine, theirs = (abbreviate(map(repr, r.channels)) for r in (recording, first))
                    raise InvalidRecordingError(
                        f"its channels are {mine}, but those of {before} are {theirs}. All "
                        "recordings of a Cohort need the same; choose them with channels=."
                    )
                if subject in found:
                    raise InvalidRecordingError(
                        f"subject {subject!r} was read before, from {found[subject][0]}. A Cohort "
                        "has one recording per id. Rename one of the files, or in Python give "
                        "each an id with subject_of=, a function of the path."
                    )
                found[subject] = path, recording
    recordings = [recording for _, recording in found.values()]
    if metadata is None:
        return recordings
    groups = Metadata(metadata, metadata_subject, group, encoding).groups_of(tuple(found))
    return [
        replace(r, group=group or r.group) for r, group in zip(recordings, groups, strict=True)
    ]


@dataclass(frozen=True)
class Metadata:
    """A table with one row per subject: a CSV, TSV or Parquet file, or a DataFrame."""

    source: str | PathLike[str] | pd.DataFrame
    subject: str | None = None  # column of the ids; `subject` or `participant_id` if None
    group: str | None = None  # column of the groups; `group`, if it exists, if None
    encoding: str = STANDARD.encoding  # of a text table that is not UTF-8

    def groups_of(self, subjects: Sequence[str]) -> list[str | None]:
        """Return the group of each subject of the table, or None."""
        table, _, index = self._read()
        absent = [subject for subject in subjects if subject not in index]
        extra = [subject for subject in index if subject not in set(subjects)]
        if absent or extra:
            raise InvalidParameterError(
                f"The subjects of {table.name} must be exactly those of the files. Recorded, but "
                f"not in the table: {abbreviate(map(repr, absent), shown=10) or 'none'}. In the "
                f"table, but not recorded: {abbreviate(map(repr, extra), shown=10) or 'none'}. "
                "Write them alike, and add or remove rows or files."
            )
        column = self.group or "group"
        if column not in table.frame:
            return [None] * len(subjects)
        groups = table.column(column).set_axis(index).loc[list(subjects)]
        return [None if _is_missing(x) else as_label(x, "group", table.name) for x in groups]

    def rows_of(self, subjects: Sequence[str]) -> pd.DataFrame:
        """Return the other columns for these subjects, with numbers as numbers."""
        table, ids, index = self._read()
        others = table.frame.drop(columns=[ids, self.group or "group"], errors="ignore")
        return others.set_axis(index).loc[list(subjects)].apply(_as_numbers, table=table)

    def _read(self) -> tuple[Table, str, pd.Index]:
        """Return the table, the name of its column of subjects, and the subjects."""
        names = _SUBJECT_COLUMNS if self.subject is None else (self.subject,)
        table = self._read_table(names)
        table = replace(table, frame=table.frame.apply(_strip))
        if self.group is not None:
            table.column(self.group)  # raises if it does not exist
        ids = next((name for name in names if name in table.frame), None)
        if ids is None:
            raise UnreadableFileError(
                f"{table.name} has no column {' or '.join(map(repr, names))}, only "
                f"{abbreviate(table.frame.columns, shown=10)}. Name the column of subject ids "
                "(metadata_subject=, --metadata-subject)."
            )
        subjects = []
        for row, value in enumerate(table.column(ids)):
            if _is_missing(value):
                raise table.fail(row, f"column {ids!r} is empty. Every row needs a subject.")
            subjects.append(as_label(value, "subject", table.place(row)))
        index = pd.Index(subjects)
        for row in np.flatnonzero(index.duplicated())[:1].tolist():
            first = table.place(subjects.index(subjects[row])).rpartition(", ")[2]
            twice = f"subject {subjects[row]!r} has a row already, {first}. Delete one of them."
            raise table.fail(row, twice)
        return table, ids, index

    def _read_table(self, names: tuple[str, ...]) -> Table:
        if isinstance(self.source, pd.DataFrame):
            return Table("metadata", self.source)
        path = Path(self.source).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"There is no metadata table {str(self.source)!r}.")
        with reading(path):
            if path.suffix.lower() in FORMATS["parquet"]:
                return formats.read_parquet_table(path)
            try:
                path.read_text(encoding=STANDARD.encoding)
                layout = STANDARD
            except UnicodeDecodeError:
                layout = replace(STANDARD, encoding=self.encoding)
            layout = formats.find_layout(path, names, layout)
            if layout.delimiter == ";":  # semicolons stand where commas are decimal signs
                layout = replace(layout, decimal=",")
            return formats.read_text_table(path, layout=layout)


def _is_missing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and (pd.isna(value) or value in MISSING))


def _strip(column: pd.Series) -> pd.Series:
    """Return a column whose texts neither begin nor end with blanks."""
    if column.dtype.kind in "biufcmM":
        return column
    return column.map(lambda x: x.strip() if isinstance(x, str) else x)


def _as_numbers(column: pd.Series, table: Table) -> Any:
    """Return a column as numbers if all its non-empty cells are numbers; warn if only most are."""
    known = column.where(~column.isin(MISSING))
    for cells in (known, table.point(known)):
        numbers: Any = pd.to_numeric(cells, errors="coerce")
        if numbers.isna().equals(known.isna()):
            return numbers
    texts: Any = known[numbers.isna() & known.notna()]
    if len(texts) < numbers.count():
        found = [f"{cell!r} of {subject!r}" for subject, cell in texts.items()]
        warnings.warn(
            f"{table.name}: column {column.name!r} is read as text, because it has numbers for "
            f"{numbers.count()} subjects, but also {abbreviate(found)}. Write NA if a number is "
            "not known.",
            MixedColumnWarning,
            stacklevel=2,
        )
    return known
