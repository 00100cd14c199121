"""The table of subjects: ids, groups and other columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.frames import Table, reading
from percdl.signals.recording import abbreviate, as_label
from percdl.signals.tables import (
    PARQUET_SUFFIXES,
    find_delimiter,
    read_parquet_table,
    read_text_table,
)

# Usual names of the column of subject ids; the second is that of BIDS.
_SUBJECT_COLUMNS = ("subject", "participant_id")
_NO_GROUP = ("", "n/a")


@dataclass(frozen=True)
class Metadata:
    """A table with one row per subject: a CSV, TSV or Parquet file, or a DataFrame."""

    source: str | PathLike[str] | pd.DataFrame
    subject: str | None = None  # column of the ids; `subject` or `participant_id` if None
    group: str | None = None  # column of the groups; `group`, if it exists, if None

    def groups_of(self, subjects: Sequence[str]) -> list[str | None] | None:
        """Return the group of each subject of the table; None if it has no groups."""
        table, column, rows = self._read()
        absent = [subject for subject in subjects if subject not in rows]
        extra = [subject for subject in rows if subject not in set(subjects)]
        if absent or extra:
            raise InvalidParameterError(
                f"The subjects of {table.name} must be exactly those of the files. Recorded, but "
                f"not in the table: {abbreviate(map(repr, absent), shown=10) or 'none'}. In the "
                f"table, but not recorded: {abbreviate(map(repr, extra), shown=10) or 'none'}. "
                "Add or remove rows or files."
            )
        if column not in table.frame:
            return None
        groups = [table.column(column).iloc[rows[subject]] for subject in subjects]
        return [
            None if _is_missing(group) else as_label(group, "group", table.name)
            for group in groups
        ]

    def rows_of(self, subjects: Sequence[str]) -> pd.DataFrame:
        """Return the other columns for these subjects, with numbers as numbers."""
        table, column, rows = self._read()
        others = table.frame.drop(columns=[self._subject_column(table), column], errors="ignore")
        chosen = others.iloc[[rows[subject] for subject in subjects]]
        return chosen.apply(_as_numbers).set_axis(list(subjects))

    def _read(self) -> tuple[Table, str, dict[str, int]]:
        """Return the table, its column of groups, and the row of each subject."""
        table = self._read_table()
        if self.group is not None:
            table.column(self.group)  # raises if it does not exist
        column, rows = self._subject_column(table), {}
        for row, value in enumerate(table.column(column)):
            if _is_missing(value):
                raise table.fail(row, f"column {column!r} is empty. Every row needs a subject.")
            subject = as_label(value, "subject", f"{table.name}, {table.place(row)}")
            if subject in rows:
                raise table.fail(
                    row,
                    f"subject {subject!r} is listed again, after {table.place(rows[subject])}. "
                    "Give each subject one row.",
                )
            rows[subject] = row
        return table, self.group or "group", rows

    def _read_table(self) -> Table:
        if isinstance(self.source, pd.DataFrame):
            return Table("metadata", self.source)
        path = Path(self.source).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"There is no metadata table {str(self.source)!r}.")
        with reading(path):
            if path.suffix.lower() in PARQUET_SUFFIXES:
                return read_parquet_table(path)
            ids = _SUBJECT_COLUMNS if self.subject is None else (self.subject,)
            return read_text_table(path, delimiter=find_delimiter(path, ids))

    def _subject_column(self, table: Table) -> str:
        names = _SUBJECT_COLUMNS if self.subject is None else (self.subject,)
        found = [name for name in names if name in table.frame]
        if not found:
            raise UnreadableFileError(
                f"{table.name} has no column {' or '.join(map(repr, names))}, only "
                f"{abbreviate(table.frame.columns, shown=10)}. Name the column of subject ids: "
                "metadata_subject='...'."
            )
        return found[0]


def _is_missing(value: Any) -> bool:
    is_cell = pd.api.types.is_scalar(value)  # not an array
    return bool(is_cell and (pd.isna(value) or value in _NO_GROUP))


def _as_numbers(column: pd.Series) -> pd.Series:
    """Return a column as numbers if all its non-empty cells are numbers."""
    known = column.where(~column.isin(_NO_GROUP))
    numbers = pd.Series(pd.to_numeric(known, errors="coerce"), column.index)
    return numbers if (pd.isna(numbers) == pd.isna(known)).all() else known
