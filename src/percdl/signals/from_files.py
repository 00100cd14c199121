"""Read cohorts from files: paths, patterns and folders, one reader per format."""

import glob
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from percdl.exceptions import InvalidParameterError, InvalidRecordingError, UnreadableFileError
from percdl.signals import edf, npz, wfdb
from percdl.signals.frames import Channels, Columns, channel_map, recordings_in
from percdl.signals.metadata import Metadata
from percdl.signals.recording import Recording, abbreviate
from percdl.signals.tables import (
    PARQUET_SUFFIXES,
    TEXT_SUFFIXES,
    TextFormat,
    read_parquet_table,
    read_text_table,
    usual_delimiter,
)

Paths = str | PathLike[str] | Iterable[str | PathLike[str]]
MetadataSource = str | PathLike[str] | pd.DataFrame | None
SubjectOf = Callable[[Path], str]
# From a path and a subject id to recordings.
Reader = Callable[[Path, str], Iterable[Recording]]
# Run-time type checkers know typing.Self in decorated classes only.
C = TypeVar("C", bound="FromFiles")
FORMATS = {
    "csv": TEXT_SUFFIXES,
    "parquet": PARQUET_SUFFIXES,
    "npz": npz.SUFFIXES,
    "edf": edf.SUFFIXES,
    "wfdb": wfdb.SUFFIXES,
}
# The table of subjects in BIDS datasets.
PARTICIPANTS = "participants.tsv"


class FromFiles(ABC):
    """Read recordings: all of them, or an error that names the file and the line or record.

    Common arguments:

    - ``paths`` is a path, a pattern such as ``"walks/*.csv"``, a folder, or a list of these.
    - The subject id is the name of the file without its ending, or ``subject_of(path)``.
    - ``metadata`` is a table (CSV, TSV, Parquet file or DataFrame) with one row per subject: ids
      in ``metadata_subject`` (by default ``subject`` or ``participant_id``), groups in ``group``
      (by default ``group``, if it exists). Its subjects must be those of the files.
    - ``channels`` lists columns or signals to read, or maps them to channel names.
    """

    @abstractmethod
    def __init__(self, recordings: Iterable[Recording]) -> None: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Recording]: ...

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
        r"""Read text tables, one row per sample.

        Empty cells, NaN, NA and null are missing samples. Rows of unequal length, text among
        numbers, blank lines and gaps of the clock raise an error.

        Parameters
        ----------
        paths : path, pattern, folder or list of these
        channels : list of str, or dict column -> channel, optional
            By default all columns not named elsewhere, except clocks and counters: columns with
            a name such as ``time`` or ``index`` that increase by equal steps.
        sfreq : float, optional
            Samples per second.
        time : str, optional
            Column of times: seconds, durations (00:00:01.25) or dates (ISO 8601). Without
            ``sfreq`` the rate is read from it, and steps must agree within 0.1 %. With
            ``sfreq`` times may be rounded: steps within half a period, the whole within 1 %.
        subject : str, optional
            Column of the subject ids, if a file holds several subjects; otherwise one file is
            one recording.
        group : str, optional
            Column of the groups, in ``metadata`` if given, else in the table.
        units : str or list of str, optional
            See `Recording`.
        metadata, metadata_subject, subject_of
            See `FromFiles`.
        delimiter : str, optional
            By default a comma, or a tab in .tsv and .tab files. Never guessed.
        decimal, encoding : str
            ``utf-8-sig`` reads UTF-8 with or without byte-order mark.
        skip_lines : int
            Lines before the header.
        header : bool
            Whether there is a header; columns are ``"0"``, ``"1"``, ... otherwise.
        """
        columns = Columns.of(
            channels, sfreq=sfreq, time=time, units=units, subject=subject,
            group=group if metadata is None else None,
        )  # fmt: skip

        def read(path: Path, label: str) -> Iterable[Recording]:
            sign = usual_delimiter(path) if delimiter is None else delimiter
            written = TextFormat(sign, decimal, encoding, skip_lines, header)
            table = read_text_table(path, written, columns.needed, texts=columns.labels)
            return recordings_in(table, columns, label)

        people = {"group": group, "metadata": metadata, "metadata_subject": metadata_subject}
        return cls(read_all(find_files(paths, TEXT_SUFFIXES), read, subject_of, **people))

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
        group = people.get("group") if people.get("metadata") is None else None
        columns = Columns.of(
            channels, sfreq=sfreq, time=time, units=units, subject=subject, group=group
        )

        def read(path: Path, label: str) -> Iterable[Recording]:
            return recordings_in(read_parquet_table(path, columns.needed), columns, label)

        return cls(read_all(find_files(paths, PARQUET_SUFFIXES), read, **people))

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

        Parameters
        ----------
        paths : path, pattern, folder or list of these
        values : str, default="values"
            Entry of the samples, (n_times, n_channels) or (n_times,), in archives of one
            recording.
        sfreq, channels, units : optional
            As in `Recording`; by default the entries of these names.
        **people
            ``group``, ``metadata``, ``metadata_subject`` and ``subject_of``, see `FromFiles`.
            Archives of cohorts hold their own subjects and groups.
        """
        entries = npz.Entries(values, sfreq, _listed(channels), _listed(units))

        def read(path: Path, label: str) -> Iterable[Recording]:
            return npz.read_npz(path, entries, label)

        return cls(read_all(find_files(paths, npz.SUFFIXES), read, **people))

    def to_npz(self, path: str | PathLike[str]) -> None:
        """Write all recordings to one NPZ archive, which `Cohort.from_npz` reads back."""
        npz.write_npz(tuple(self), path)

    @classmethod
    def from_edf(cls: type[C], paths: Paths, *, channels: Channels = None, **people: Any) -> C:
        """Read EDF and EDF+ files, one recording each, in the units of the file.

        Annotations are ignored. Signals must have one sampling rate: choose them with
        ``channels``. Interrupted recordings (EDF+D) are refused. Needs edfio
        (``pip install 'percdl[data]'``). Other arguments: see `FromFiles`.
        """
        wanted = channel_map(channels)

        def read(path: Path, label: str) -> Iterable[Recording]:
            return edf.read_edf(path, wanted, label)

        return cls(read_all(find_files(paths, edf.SUFFIXES), read, **people))

    @classmethod
    def from_wfdb(cls: type[C], paths: Paths, *, channels: Channels = None, **people: Any) -> C:
        """Read WFDB records (PhysioNet) from their .hea files, in the units of the record.

        Only files in the folder of the header are read; a name or a symbolic link to another
        place raises `UnreadableFileError`. Signals must have one sampling rate: choose them with
        ``channels``. Needs wfdb (``pip install 'percdl[data]'``). Other arguments: see
        `FromFiles`.
        """
        wanted = channel_map(channels)

        def read(path: Path, label: str) -> Iterable[Recording]:
            return wfdb.read_wfdb(path, wanted, label)

        return cls(read_all(find_files(paths, wfdb.SUFFIXES), read, **people))

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

        Parameters
        ----------
        folder_path : path
        format : {"csv", "parquet", "npz", "edf", "wfdb"}, optional
            By default the format of the file endings, if there is only one.
        metadata : path or DataFrame, optional
            See `FromFiles`; by default ``participants.tsv`` (BIDS), if it exists.
        **options
            Passed to the reader of the format, e.g. ``sfreq=`` for CSV files.
        """
        table = participants_table(folder_path) if metadata is None else metadata
        chosen, files = find_recordings(folder_path, format, table)
        return getattr(cls, f"from_{chosen}")(files, metadata=table, **options)


def find_files(paths: Paths, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files of a path, a pattern, a folder or a list of these, sorted by name.

    Parameters
    ----------
    paths : path, pattern such as ``"walks/*.csv"``, folder, or list of these
        ``**`` in a pattern matches subfolders.
    suffixes : tuple of str
        File endings to read in a folder.
    """
    wanted = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not wanted:
        raise InvalidParameterError("The list of files is empty. Pass at least one path.")
    return [file for path in wanted for file in _expand(Path(path).expanduser(), suffixes)]


def find_recordings(
    folder: str | PathLike[str], format: str | None, metadata: object
) -> tuple[str, list[Path]]:
    """Return the format and the files of a folder and its subfolders, sorted by name."""
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r} (seen from {Path.cwd()}).")
    if format is not None and format not in FORMATS:
        raise InvalidParameterError(f"format={format!r} must be one of {', '.join(FORMATS)}.")
    files = [file for file in sorted(root.rglob("*")) if not _is_same(file, metadata)]
    found = {
        name: [file for file in files if _has_suffix(file, suffixes)]
        for name, suffixes in FORMATS.items()
        if format in (None, name)
    }
    present = {name: matches for name, matches in found.items() if matches}
    if not present:
        endings = ", ".join(ending for name in found for ending in FORMATS[name])
        raise FileNotFoundError(f"No recording ({endings}) is in the folder {root}.")
    if len(present) > 1:
        examples = ", ".join(f"{name} ({files[0].name})" for name, files in present.items())
        raise UnreadableFileError(
            f"The folder {root} holds files of several formats: {examples}. Choose one, e.g. "
            "format='edf', and pass the table of subjects as metadata=."
        )
    return next(iter(present.items()))


def participants_table(folder: str | PathLike[str]) -> Path | None:
    """Return the table of subjects of a BIDS folder, if it exists."""
    table = Path(folder).expanduser() / PARTICIPANTS
    return table if table.is_file() else None


def read_all(
    files: Iterable[Path],
    read: Reader,
    subject_of: SubjectOf | None = None,
    *,
    metadata: MetadataSource = None,
    metadata_subject: str | None = None,
    group: str | None = None,
) -> list[Recording]:
    """Read every file; add the groups of the metadata."""
    found: dict[str, tuple[Path, Recording]] = {}
    listed = list(files)
    with _each_warning_once():
        for path in listed:
            subject = path.stem if subject_of is None else str(subject_of(path))
            try:
                for recording in read(path, subject):
                    _check_new(found, path, recording)
                    found[str(recording.subject)] = path, recording
            except InvalidRecordingError as error:
                raise UnreadableFileError(f"{path}: {error}{_stray(path, listed)}") from error
            except UnreadableFileError as error:
                raise UnreadableFileError(f"{error}{_stray(path, listed)}") from error
    recordings = [recording for _, recording in found.values()]
    if metadata is None:
        return recordings
    groups = Metadata(metadata, metadata_subject, group).groups_of(tuple(found))
    if groups is None:
        return recordings
    return [replace(r, group=group) for r, group in zip(recordings, groups, strict=True)]


@contextmanager
def _each_warning_once() -> Iterator[None]:
    """Issue each warning once for all files together."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in {str(one.message): one for one in caught}.values():
        warnings.warn(str(warning.message), warning.category, stacklevel=5)


def _stray(path: Path, files: list[Path]) -> str:
    """Return advice if a file may not be a recording, because most others end differently."""
    endings = Counter(file.suffix.lower() for file in files)
    own = path.suffix.lower()
    usual = max(endings, key=lambda ending: (endings[ending], ending != own))
    if usual == own:
        return ""
    return (
        f" {own} files are read as recordings. If {path.name} is not one, pass a pattern without "
        f"it, such as {str(path.parent / f'*{usual}')!r}."
    )


def _check_new(found: dict[str, tuple[Path, Recording]], path: Path, recording: Recording) -> None:
    """Raise where a subject was read before, or channels or units differ from earlier files."""
    subject = str(recording.subject)
    if subject in found:
        raise UnreadableFileError(
            f"{path}: subject {subject!r} was read before, from {found[subject][0]}. A Cohort has "
            "one recording per id; give each trial an id with subject_of=, a function of the path."
        )
    first_path, first = next(iter(found.values()), (path, recording))
    for what, mine, theirs in (
        ("channels", first.channels, recording.channels),
        ("units", first.units, recording.units),
    ):
        if mine != theirs:
            raise UnreadableFileError(
                f"{path}: the {what} are {abbreviate(map(repr, theirs), shown=20)}, but those of "
                f"{first_path} are {abbreviate(map(repr, mine), shown=20)}. All recordings need "
                "the same; choose them with channels=."
            )


def _expand(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    if path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if _has_suffix(file, suffixes))
        nothing = f"There is no {' or '.join(suffixes)} file in the folder {path}."
    elif glob.has_magic(str(path)):
        matches = map(Path, glob.glob(str(path), recursive=True))
        found = sorted(match for match in matches if match.is_file())
        nothing = f"No file matches {str(path)!r} (seen from {Path.cwd()})."
    else:
        found, nothing = [], f"There is no file {str(path)!r} (seen from {Path.cwd()})."
    if not found:
        raise FileNotFoundError(f"{nothing} Check the path.")
    return found


def _has_suffix(file: Path, suffixes: tuple[str, ...]) -> bool:
    """Whether a visible file has one of these endings, in lower or upper case."""
    return file.is_file() and file.suffix.lower() in suffixes and not file.name.startswith(".")


def _is_same(file: Path, metadata: object) -> bool:
    if not isinstance(metadata, str | PathLike):
        return False
    table = Path(metadata).expanduser()
    return table.is_file() and file.samefile(table)


def _listed(names: str | Iterable[str] | None) -> str | list[str] | None:
    return names if names is None or isinstance(names, str) else list(names)
