"""The table of subjects: ids, groups and other columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import pandas as pd

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.frames import Table
from percdl.signals.recording import abbreviate, as_label
from percdl.signals.tables import (
    PARQUET_SUFFIXES,
    TextFormat,
    find_delimiter,
    read_parquet_table,
    read_text_table,
)

# Usual names of the column of subject ids; the second is that of BIDS.
_SUBJECT_COLUMNS = ("subject", "participant_id")
_GROUP_COLUMN = "group"
_NO_GROUP = ("", "n/a")


@dataclass(frozen=True)
class Metadata:
    """A table with one row per subject: a CSV, TSV or Parquet file, or a DataFrame."""

    source: str | PathLike[str] | pd.DataFrame
    subject: str | None = None  # column of the ids; `subject` or `participant_id` if None
    group: str | None = None  # column of the groups; `group`, if it exists, if None

    def groups_of(self, subjects: Sequence[str]) -> list[str | None] | None:
        """Return the group of each subject; None if the table has no groups.

        The subjects must be those of the table.
        """
        table = self._read()
        rows = self._rows(table)
        absent = [subject for subject in subjects if subject not in rows]
        extra = [subject for subject in rows if subject not in set(subjects)]
        if absent or extra:
            raise InvalidParameterError(
                _mismatch("recorded, but not in the table", absent)
                + _mismatch("in the table, but not recorded", extra)
                + f"The subjects of {table.name} must be exactly those of the files. Add or "
                "remove rows or files."
            )
        column = self._group_column(table)
        if column is None:
            return None
        groups = table.column(column)
        return [_group(table, groups, rows[subject]) for subject in subjects]

    def rows_of(self, subjects: Sequence[str]) -> pd.DataFrame:
        """Return the other columns for these subjects, with numbers as numbers."""
        table = self._read()
        rows = self._rows(table)
        known = [self._subject_column(table), self._group_column(table)]
        others = [name for name in table.frame.columns if name not in known]
        chosen = table.frame[others].iloc[[rows[subject] for subject in subjects]]
        return chosen.apply(_as_numbers).set_axis(list(subjects))

    def _read(self) -> Table:
        if isinstance(self.source, pd.DataFrame):
            return Table("metadata", self.source)
        path = Path(self.source).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"There is no metadata table {str(self.source)!r}.")
        if path.suffix.lower() in PARQUET_SUFFIXES:
            return read_parquet_table(path)
        ids = _SUBJECT_COLUMNS if self.subject is None else (self.subject,)
        return read_text_table(path, TextFormat(find_delimiter(path, ids)))

    def _rows(self, table: Table) -> dict[str, int]:
        """Return the row of each subject."""
        column = self._subject_column(table)
        rows: dict[str, int] = {}
        for row, value in enumerate(table.column(column)):
            if _is_missing(value):
                raise table.fail(row, f"column {column!r} is empty. Every row needs a subject.")
            subject = as_label(value, "subject", f"{table.name}, {table.place(row)}")
            if subject in rows:
                first = table.place(rows[subject])
                raise table.fail(
                    row,
                    f"subject {subject!r} is listed again, after {first}. Give each subject one "
                    "row.",
                )
            rows[subject] = row
        return rows

    def _subject_column(self, table: Table) -> str:
        if self.subject is not None:
            return self.subject
        for name in _SUBJECT_COLUMNS:
            if name in table.frame.columns:
                return name
        raise UnreadableFileError(
            f"{table.name} has no column {' or '.join(map(repr, _SUBJECT_COLUMNS))}, only "
            f"{abbreviate(table.frame.columns, shown=10)}. Name the column of subject ids: "
            "metadata_subject='...'."
        )

    def _group_column(self, table: Table) -> str | None:
        if self.group is not None:
            table.column(self.group)  # raises if it does not exist
            return self.group
        return _GROUP_COLUMN if _GROUP_COLUMN in table.frame.columns else None


def _group(table: Table, groups: pd.Series, row: int) -> str | None:
    value = groups.iloc[row]
    if _is_missing(value) or (isinstance(value, str) and value in _NO_GROUP):
        return None
    return as_label(value, "group", f"{table.name}, {table.place(row)}")


def _is_missing(value: object) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))  # pyright: ignore


def _as_numbers(column: pd.Series) -> pd.Series:
    """Return a column as numbers if all its non-empty cells are numbers."""
    known = column.where(~column.isin(_NO_GROUP))
    numbers = pd.Series(pd.to_numeric(known, errors="coerce"), column.index)
    return numbers if (pd.isna(numbers) == pd.isna(known)).all() else known


def _mismatch(what: str, subjects: list[str]) -> str:
    if not subjects:
        return ""
    return f"{len(subjects)} subject(s) {what}: {abbreviate(map(repr, subjects), shown=10)}. "
