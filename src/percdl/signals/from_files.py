"""The doors of a cohort that lead to files."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from os import PathLike
from typing import Any, TypeVar

import pandas as pd

from percdl.signals.readers import csv, edf, folder, npz, parquet, wfdb
from percdl.signals.readers.assemble import SubjectOf, read_all
from percdl.signals.readers.columns import Channels, Columns, channel_map
from percdl.signals.readers.files import Paths, find_files
from percdl.signals.readers.metadata import Metadata
from percdl.signals.readers.text import TextFormat
from percdl.signals.recording import Recording

MetadataSource = str | PathLike[str] | pd.DataFrame | None

# Not typing.Self: run-time type checkers know it in decorated classes only.
C = TypeVar("C", bound="FromFiles")


class FromFiles(ABC):
    """Read recordings: all of them, or an error that names the file and the line or record.

    What the doors have in common:

    - ``paths`` is a path, a pattern such as ``"walks/*.csv"``, a folder, or a list of these.
    - The subject id is the name of the file without its ending, or ``subject_of(path)``.
    - ``metadata`` is a table (CSV, TSV, Parquet file or DataFrame) with one row per subject: ids
      in ``metadata_subject`` (by default ``subject`` or ``participant_id``), groups in ``group``
      (by default ``group``, if it is there). Its subjects must be those of the files.
    - ``channels`` lists columns or signals to read, or maps them to the channels they become.
    """

    @abstractmethod
    def __init__(self, recordings: Iterable[Recording]) -> None: ...

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
        numbers, blank lines and gaps of the clock are errors.

        **What to read**

        Parameters
        ----------
        paths : path, pattern, folder or list of these
        channels : list of str, or dict column -> channel, optional
            All columns not named elsewhere by default.
        subject : str, optional
            Column of the subject ids, where a file holds several subjects; otherwise one file
            is one recording.

        **Time**

        sfreq : float, optional
            Samples per second.
        time : str, optional
            Column of times: seconds, durations (00:00:01.25) or dates (ISO 8601). Without
            ``sfreq`` the rate is read from it, and steps must agree within 0.1 %. With
            ``sfreq`` times may be rounded: steps within half a period, the whole within 1 %.

        **Who and what**

        group : str, optional
            Column of the groups, of ``metadata`` if there is one, else of the table.
        metadata, metadata_subject, subject_of
            See `FromFiles`.
        units : str or list of str, optional
            See `Recording`.

        **How the text is written**

        delimiter : str, optional
            A comma, or a tab in files called .tsv, unless given. Never guessed.
        decimal, encoding : str
            ``utf-8-sig`` reads UTF-8 with or without byte-order mark.
        skip_lines : int
            Lines before the header.
        header : bool
            Whether there is one; columns are called ``"0"``, ``"1"``, ... otherwise.
        """
        columns = Columns.of(
            channels, sfreq=sfreq, time=time, units=units, subject=subject,
            group=group if metadata is None else None,
        )  # fmt: skip
        written = {"decimal": decimal, "encoding": encoding, "header": header}
        recordings = read_all(
            find_files(paths, csv.SUFFIXES),
            lambda path, label: csv.read_csv(
                path,
                columns,
                TextFormat.of(path, delimiter, skip_lines=skip_lines, **written),
                label,
            ),
            subject_of,
            _metadata(metadata, metadata_subject, group),
        )
        return cls(recordings)

    @classmethod
    def from_parquet(
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
    ) -> C:
        """Read Parquet tables, one row per sample; arguments as in `from_csv`."""
        columns = Columns.of(
            channels, sfreq=sfreq, time=time, units=units, subject=subject,
            group=group if metadata is None else None,
        )  # fmt: skip
        recordings = read_all(
            find_files(paths, parquet.SUFFIXES),
            lambda path, label: parquet.read_parquet(path, columns, label),
            subject_of,
            _metadata(metadata, metadata_subject, group),
        )
        return cls(recordings)

    @classmethod
    def from_npz(
        cls: type[C],
        paths: Paths,
        *,
        values: str = "values",
        sfreq: float | None = None,
        channels: str | Iterable[str] | None = None,
        units: str | Iterable[str] | None = None,
        group: str | None = None,
        metadata: MetadataSource = None,
        metadata_subject: str | None = None,
        subject_of: SubjectOf | None = None,
    ) -> C:
        """Read NPZ archives: cohorts written by `Cohort.to_npz`, or one recording per file.

        Parameters
        ----------
        paths : path, pattern, folder or list of these
        values : str, default="values"
            Entry of the samples, (n_times, n_channels) or (n_times,), where an archive holds
            one recording.
        sfreq, channels, units : optional
            As in `Recording`; where not given, the entries of these names.
        group, metadata, metadata_subject, subject_of
            See `FromFiles`. An archive of a cohort knows its subjects and groups itself.
        """
        entries = npz.Entries(values, sfreq, _listed(channels), _listed(units))
        recordings = read_all(
            find_files(paths, npz.SUFFIXES),
            lambda path, label: npz.read_npz(path, entries, label),
            subject_of,
            _metadata(metadata, metadata_subject, group),
        )
        return cls(recordings)

    @classmethod
    def from_edf(
        cls: type[C],
        paths: Paths,
        *,
        channels: Channels = None,
        group: str | None = None,
        metadata: MetadataSource = None,
        metadata_subject: str | None = None,
        subject_of: SubjectOf | None = None,
    ) -> C:
        """Read EDF and EDF+ files, one recording each, in the units they state.

        Annotations are left out. Signals read together must have one sampling rate: choose
        them with ``channels``. Interrupted recordings (EDF+D) are refused. Needs edfio
        (``pip install 'percdl[data]'``). Other arguments: see `FromFiles`.
        """
        wanted = channel_map(channels)
        recordings = read_all(
            find_files(paths, edf.SUFFIXES),
            lambda path, label: edf.read_edf(path, wanted, label),
            subject_of,
            _metadata(metadata, metadata_subject, group),
        )
        return cls(recordings)

    @classmethod
    def from_wfdb(
        cls: type[C],
        paths: Paths,
        *,
        channels: Channels = None,
        group: str | None = None,
        metadata: MetadataSource = None,
        metadata_subject: str | None = None,
        subject_of: SubjectOf | None = None,
    ) -> C:
        """Read WFDB records (PhysioNet) by their .hea files, in the units they state.

        Only files in the folder of the header are read; a name or a symbolic link that leads out
        of it raises `UnreadableFileError`. Signals read together must have one sampling rate:
        choose them with ``channels``. Needs wfdb (``pip install 'percdl[data]'``). Other
        arguments: see `FromFiles`.
        """
        wanted = channel_map(channels)
        recordings = read_all(
            find_files(paths, wfdb.SUFFIXES),
            lambda path, label: wfdb.read_wfdb(path, wanted, label),
            subject_of,
            _metadata(metadata, metadata_subject, group),
        )
        return cls(recordings)

    @classmethod
    def from_folder(
        cls: type[C],
        folder_path: str | PathLike[str],
        *,
        format: str | None = None,
        metadata: MetadataSource = None,
        **options: Any,
    ) -> C:
        """Read all recordings of a folder, folders in it included.

        Parameters
        ----------
        folder_path : path
        format : {"csv", "parquet", "npz", "edf", "wfdb"}, optional
            Told by the endings of the files, where they are all of one format.
        metadata : path or DataFrame, optional
            See `FromFiles`; ``participants.tsv`` (BIDS) where the folder has one.
        **options
            Passed to the reader of the format, e.g. ``sfreq=`` for CSV files.
        """
        table = folder.participants_table(folder_path) if metadata is None else metadata
        chosen, files = folder.find_recordings(folder_path, format, table)
        return getattr(cls, f"from_{chosen}")(files, metadata=table, **options)


def _metadata(source: MetadataSource, subject: str | None, group: str | None) -> Metadata | None:
    return None if source is None else Metadata(source, subject, group)


def _listed(names: str | Iterable[str] | None) -> str | list[str] | None:
    return names if names is None or isinstance(names, str) else list(names)
