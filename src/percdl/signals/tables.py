"""Read CSV, TSV and Parquet tables with pandas; errors name the file and the line."""

import csv
import io
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.extras import require
from percdl.signals.frames import MISSING, Table, missing_column
from percdl.signals.recording import abbreviate

TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt")
PARQUET_SUFFIXES = (".parquet", ".pq")
_DELIMITERS = (",", ";", "\t", "|")
# Number of lines in which a header is searched for the advice in an error.
_PREAMBLE = 50


def usual_delimiter(path: Path) -> str:
    """Return a tab for .tsv and .tab files and a comma otherwise."""
    return "\t" if path.suffix.lower() in (".tsv", ".tab") else ","


def read_text_table(
    path: Path,
    needed: Collection[str] = (),
    texts: Collection[str] | None = None,
    *,
    delimiter: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8-sig",
    skip_lines: int = 0,
    header: bool = True,
) -> Table:
    """Read columns of a text table; all columns if none is named.

    Columns not in ``texts`` are read as numbers; all columns are text if ``texts`` is None. If a
    column of numbers holds text, all are read as text, and `Table.numbers` names the cell.
    """
    for sign in (delimiter, decimal):
        if len(sign) != 1 or not sign.isascii() or sign in '\r\n"' or delimiter == decimal:
            raise InvalidParameterError(
                f"delimiter={delimiter!r} and decimal={decimal!r} must be two different ASCII "
                "characters, e.g. ';' and ','."
            )
    lines, skipped = _read_lines(path, encoding, skip_lines), skip_lines
    names = _cells(path, lines, skipped, delimiter)
    if not header:
        names = [str(index) for index in range(len(names))]
    elif twice := sorted({name for name in names if name and names.count(name) > 1}):
        raise UnreadableFileError(
            f"{path}, line {skipped + 1}: several columns are named "
            f"{abbreviate(map(repr, twice))}. Give them different names."
        )
    if missing := [name for name in needed if name not in names]:
        place = f"{path}, line {skipped + 1}"
        raise UnreadableFileError(
            missing_column(place, missing[0], names) + _header_advice(lines, delimiter, needed)
        )
    first = skipped + header
    if len(lines) <= first:
        raise UnreadableFileError(
            f"{path} has a header but no row. One line per sample is needed."
        )
    _check_rows(path, lines, first, len(names), delimiter)
    kept = [index for index, name in enumerate(names) if not needed or name in needed]
    numbers = [i for i in kept if texts is not None and names[i] not in texts]
    text = "\n".join(lines[first:])
    signs = {"sep": delimiter, "decimal": decimal}
    try:
        frame = _parse(text, signs, len(names), kept, numbers)
    except ValueError:
        frame = _parse(text, signs, len(names), kept, [])
    frame.columns = pd.Index([names[index] for index in kept])
    return Table(str(path), frame, "line", range(first + 1, len(lines) + 1), decimal)


def find_delimiter(path: Path, names: Collection[str]) -> str:
    """Return the delimiter with which the first line of a file has one of these columns."""
    usual = usual_delimiter(path)
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline()
    found = (mark for mark in (usual, *_DELIMITERS) if set(names) & _names_in(header, mark))
    return next(found, usual)


def read_parquet_table(path: Path, needed: Collection[str] = ()) -> Table:
    """Read columns of a Parquet file; all columns if none is named."""
    parquet = require("pyarrow.parquet", "Reading Parquet files")
    known = set(needed) <= set(parquet.read_schema(path).names)
    columns = list(needed) if needed and known else None
    frame = pd.read_parquet(path, engine="pyarrow", columns=columns)
    if frame.empty:
        raise UnreadableFileError(f"{path} has no row. One row per sample is needed.")
    if not set(needed) <= set(frame.columns):  # pandas stores the index as a column
        frame = frame.reset_index()
    return Table(str(path), frame)


def _read_lines(path: Path, encoding: str, skipped: int) -> list[str]:
    """Return the lines of a file without blank lines at the end."""
    try:
        text = path.read_text(encoding=encoding)
        before = text.partition("\0")[0] if "\0" in text else None
    except UnicodeDecodeError as error:
        text, before = "", error.object[: error.start].decode("latin-1")
    except LookupError as error:
        raise InvalidParameterError(f"encoding={encoding!r} is unknown. Try 'utf-8'.") from error
    if before is not None:
        line = before.count("\n") + 1
        raise UnreadableFileError(
            f"{path}, line {line} is not {encoding} text. Pass the encoding of the "
            "file, e.g. encoding='latin-1' or 'utf-16'; save spreadsheets as CSV."
        )
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) <= skipped:
        after = f" after the first {skipped} lines" if skipped else ""
        raise UnreadableFileError(
            f"{path} is empty{after}. A header line and one line per sample are needed."
        )
    return lines


def _cells(path: Path, lines: list[str], at: int, delimiter: str) -> list[str]:
    """Return the cells of a line."""
    reader = csv.reader([lines[at]], delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        return [cell.strip() for cell in next(reader, [])]
    except csv.Error as error:
        raise UnreadableFileError(
            f"{path}, line {at + 1}: {error}. Close every quotation mark in its line, right "
            "before the next delimiter."
        ) from error


def _header_advice(lines: list[str], delimiter: str, needed: Collection[str]) -> str:
    """Return options that would find the columns, if there are some."""
    for mark in (delimiter, *_DELIMITERS):
        for before, line in enumerate(lines[:_PREAMBLE]):
            if set(needed) <= _names_in(line, mark):
                return (
                    f" Line {before + 1} has the columns wanted: pass skip_lines={before} and "
                    f"delimiter={mark!r}."
                )
    return ""


def _names_in(line: str, delimiter: str) -> set[str]:
    return {cell.strip(' "\n') for cell in line.split(delimiter)}


def _check_rows(path: Path, lines: list[str], first: int, expected: int, delimiter: str) -> None:
    """Raise where a row has too many or too few cells.

    pandas fills short rows silently and cannot tell lost cells from empty ones.
    """
    for at in range(first, len(lines)):
        line = lines[at]
        found = line.count(delimiter) + 1 if line.strip(" ") else 0
        if '"' in line:
            found = len(_cells(path, lines, at, delimiter))
        if found != expected:
            what = f"has {found} cell(s), but the first has {expected}" if found else "is blank"
            raise UnreadableFileError(
                f"{path}, line {at + 1} {what}. Complete, shorten or delete the row; write NaN "
                "for a missing sample. If commas are decimal signs, pass decimal=',' and the "
                "delimiter; if lines come before the header, pass skip_lines=."
            )


def _parse(
    text: str, signs: dict[str, Any], n_columns: int, kept: list[int], numbers: list[int]
) -> pd.DataFrame:
    """Return these columns, some as numbers and the others as text."""
    return pd.read_csv(
        io.StringIO(text),
        **signs,
        header=None,
        names=range(n_columns),
        usecols=kept,
        index_col=False,
        dtype={i: "float64" if i in numbers else "str" for i in kept},
        na_values={i: list(MISSING) if i in numbers else [""] for i in kept},
        keep_default_na=False,
        skipinitialspace=True,
        skip_blank_lines=False,
    )
