"""The table that says who the subjects are."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import pandas as pd

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.labels import as_label
from percdl.signals.readers.parquet import read_parquet_table
from percdl.signals.readers.table import Table
from percdl.signals.readers.text import (
    TextFormat,
    other_delimiter,
    read_text_table,
    split_header,
)
from percdl.signals.recording import abbreviate

# The usual names of the column of subject ids; the second is that of BIDS.
_SUBJECT_COLUMNS = ("subject", "participant_id")
_GROUP_COLUMN = "group"
_NO_GROUP = ("", "n/a")


@dataclass(frozen=True)
class Metadata:
    """A table with one row per subject, and the columns to read.

    Attributes
    ----------
    source : path of a CSV, TSV or Parquet file, or DataFrame
    subject : str or None
        Column of the subject ids; ``subject`` or ``participant_id`` where None.
    group : str or None
        Column of the groups; where None, ``group`` if there is one.
    """

    source: str | PathLike[str] | pd.DataFrame
    subject: str | None = None
    group: str | None = None

    def groups_of(self, subjects: Sequence[str]) -> list[str | None] | None:
        """Return the group of each of these subjects, who must be those of the table.

        None where the table says nothing of groups.
        """
        table = self._read()
        ids = self._ids(table)
        absent = [subject for subject in subjects if subject not in ids]
        extra = [subject for subject in ids if subject not in set(subjects)]
        if absent or extra:
            raise InvalidParameterError(
                _mismatch("recorded, but not in the table", absent)
                + _mismatch("in the table, but not recorded", extra)
                + f"The subjects of {table.name} must be those of the files, letter by letter. "
                "Complete the table or the folder, or leave only the rows that are meant in the "
                "table."
            )
        column = self._group_column(table)
        if column is None:
            return None
        return [self._group(table, column, ids[subject]) for subject in subjects]

    def rows_of(self, subjects: Sequence[str]) -> pd.DataFrame:
        """Return what else the table says of these subjects, numbers as numbers."""
        table = self._read()
        ids = self._ids(table)
        known = [self._subject_column(table), self._group_column(table)]
        others = [name for name in table.frame.columns if name not in known]
        rows = table.frame[others].iloc[[ids[subject] for subject in subjects]]
        return rows.apply(_as_numbers).set_axis(list(subjects))

    def _read(self) -> Table:
        if isinstance(self.source, pd.DataFrame):
            return Table("metadata", self.source, "row")
        path = Path(self.source).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"There is no metadata table {str(self.source)!r}.")
        if path.suffix.lower() in (".parquet", ".pq"):
            return read_parquet_table(path)
        text_format = TextFormat.of(path)
        self._check_delimiter(path, text_format.delimiter)
        return read_text_table(path, text_format)

    def _check_delimiter(self, path: Path, delimiter: str) -> None:
        """Refuse a table whose header names the subjects when split at another character."""
        with path.open(encoding="utf-8-sig", errors="replace") as lines:
            header = lines.readline()
        wanted = _SUBJECT_COLUMNS if self.subject is None else (self.subject,)
        if set(wanted) & set(split_header(header, delimiter)):
            return
        for name in wanted:
            other = other_delimiter(header, delimiter, [name])
            if other is not None:
                raise UnreadableFileError(
                    f"{path}, line 1: no column {name!r} when cells are split at {delimiter!r}, "
                    f"but there is one when they are split at {other!r}. "
                    f"Pass metadata=pd.read_csv({str(path)!r}, sep={other!r}, dtype=str)."
                )

    def _ids(self, table: Table) -> dict[str, int]:
        column = self._subject_column(table)
        ids: dict[str, int] = {}
        for row, value in enumerate(table.column(column)):
            place = f"{table.name}, {table.place(row)}"
            if _is_missing(value):
                raise UnreadableFileError(
                    f"{place}: column {column!r} is empty. Every row needs its subject."
                )
            subject = as_label(value, "subject", place)
            if subject in ids:
                raise UnreadableFileError(
                    f"{place}: subject {subject!r} is listed again, after "
                    f"{table.place(ids[subject])}. Give each subject one row."
                )
            ids[subject] = row
        return ids

    def _subject_column(self, table: Table) -> str:
        if self.subject is not None:
            return self.subject
        for name in _SUBJECT_COLUMNS:
            if name in table.frame.columns:
                return name
        raise UnreadableFileError(
            f"{table.name} has no column {' or '.join(map(repr, _SUBJECT_COLUMNS))}, only "
            f"{abbreviate(table.frame.columns, shown=10)}. Say which one holds the subject ids: "
            "metadata_subject='...'."
        )

    def _group_column(self, table: Table) -> str | None:
        if self.group is not None:
            table.column(self.group)  # raises where there is none
            return self.group
        return _GROUP_COLUMN if _GROUP_COLUMN in table.frame.columns else None

    def _group(self, table: Table, column: str, row: int) -> str | None:
        value = table.column(column).iloc[row]
        if _is_missing(value) or (isinstance(value, str) and value in _NO_GROUP):
            return None
        return as_label(value, "group", f"{table.name}, {table.place(row)}")


def _is_missing(value: object) -> bool:
    """Whether a cell says nothing; one that holds an array says something, if no label."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))  # pyright: ignore


def _as_numbers(column: pd.Series) -> pd.Series:
    """Return a column of numbers as such, one of texts as it is; cells may be empty."""
    known = column.where(~column.isin(_NO_GROUP))
    numbers = pd.Series(pd.to_numeric(known, errors="coerce"), column.index)
    return numbers if (pd.isna(numbers) == pd.isna(known)).all() else known


def _mismatch(what: str, subjects: list[str]) -> str:
    if not subjects:
        return ""
    return f"{len(subjects)} subject(s) {what}: {abbreviate(map(repr, subjects), shown=10)}. "
