"""Read CSV, TSV and Parquet tables with pandas; errors name the file and the line."""

import csv
import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Int

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.extras import require
from percdl.signals.frames import MISSING, Table, missing_column
from percdl.signals.recording import abbreviate

TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt")
PARQUET_SUFFIXES = (".parquet", ".pq")
_DELIMITERS = (",", ";", "\t", "|", " ")
# Number of lines in which a header is searched for the advice in an error.
_PREAMBLE = 50
# First bytes of zip archives (including .xlsx) and of old .xls files.
_SPREADSHEETS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")


@dataclass(frozen=True)
class TextFormat:
    """The format of a text table."""

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8-sig"  # UTF-8 with or without byte-order mark
    skip_lines: int = 0  # lines before the header
    header: bool = True  # without a header, columns are "0", "1", ...

    def __post_init__(self) -> None:
        sign = self.delimiter
        if len(sign) != 1 or not sign.isascii() or sign in '\r\n"':
            raise InvalidParameterError(
                f"delimiter={sign!r} must be one ASCII character, e.g. ';'."
            )
        if len(self.decimal) != 1 or not self.decimal.isprintable():
            raise InvalidParameterError(f"decimal={self.decimal!r} must be one character, as ','.")
        if sign == self.decimal:
            raise InvalidParameterError(
                f"delimiter and decimal are both {sign!r}. Pass another delimiter."
            )
        if self.skip_lines < 0:
            raise InvalidParameterError(f"skip_lines={self.skip_lines} must be 0 or more.")


def usual_delimiter(path: Path) -> str:
    """Return a tab for .tsv and .tab files and a comma otherwise."""
    return "\t" if path.suffix.lower() in (".tsv", ".tab") else ","


def read_text_table(
    path: Path,
    text_format: TextFormat,
    needed: Collection[str] = (),
    texts: Collection[str] | None = None,
) -> Table:
    """Read columns of a text table; all columns if none is named.

    Columns not in ``texts`` are read as numbers; all columns are text if ``texts`` is None. If a
    column of numbers holds text, all are read as text, and `Table.numbers` names the cell.
    """
    lines = _read_lines(path, text_format)
    names, first = _read_header(path, lines, text_format)
    missing = [name for name in needed if name not in names]
    if missing:
        raise UnreadableFileError(_header_advice(path, lines, names, text_format, needed))
    if len(lines) <= first:
        raise UnreadableFileError(
            f"{path} has a header but no row. One line per sample is needed."
        )
    places = _check_rows(path, lines, first, len(names), text_format)
    kept = [index for index, name in enumerate(names) if not needed or name in needed]
    numbers = [i for i in kept if texts is not None and names[i] not in texts]
    text = "\n".join(lines[first:])
    try:
        frame = _parse(text, text_format, len(names), kept, numbers)
    except ValueError:
        frame = _parse(text, text_format, len(names), kept, [])
    frame.columns = pd.Index([names[index] for index in kept])
    return Table(str(path), frame, "line", places, text_format.decimal)


def find_delimiter(path: Path, names: Collection[str]) -> str:
    """Return the delimiter with which the first line of a file has one of these columns."""
    usual = usual_delimiter(path)
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = file.readline()
    found = (mark for mark in (usual, *_DELIMITERS) if set(names) & set(_split(header, mark)))
    return next(found, usual)


def read_parquet_table(path: Path, needed: Collection[str] = ()) -> Table:
    """Read columns of a Parquet file; all columns if none is named."""
    parquet = require("pyarrow.parquet", "Reading Parquet files")
    try:
        known = parquet.read_schema(path).names
        for name in needed:
            if name not in known:
                raise UnreadableFileError(missing_column(str(path), name, known))
        frame = pd.read_parquet(path, engine="pyarrow", columns=list(needed) or None)
    except UnreadableFileError:
        raise
    except Exception as error:  # damaged metadata of pandas can raise any error
        raise UnreadableFileError(
            f"{path} is not a whole Parquet file: {error}. Write it again."
        ) from error
    if frame.empty:
        raise UnreadableFileError(f"{path} has no row. One row per sample is needed.")
    if not set(needed) <= set(frame.columns):  # pandas stores the index as a column
        frame = frame.reset_index()
    return Table(str(path), frame)


def _read_lines(path: Path, text_format: TextFormat) -> list[str]:
    """Return the lines of a file without blank lines at the end."""
    lines = _decode(path, text_format.encoding).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    skipped = text_format.skip_lines
    if len(lines) <= skipped:
        after = f" after the first {skipped} lines" if lines else ""
        raise UnreadableFileError(
            f"{path} is empty{after}. A header line and one line per sample are needed."
        )
    return lines


def _decode(path: Path, encoding: str) -> str:
    raw = path.read_bytes()
    if raw.startswith(_SPREADSHEETS):
        raise UnreadableFileError(
            f"{path} is an Excel or zip file. Save it as CSV from the spreadsheet program, or "
            "unpack it."
        )
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        utf_16 = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
        raise UnreadableFileError(
            f"{path}, line {line}: byte {raw[error.start]:#04x} is not {encoding} text. Pass the "
            f"encoding of the file, e.g. encoding={'utf-16' if utf_16 else 'latin-1'!r}."
        ) from error
    except (LookupError, ValueError) as error:
        raise InvalidParameterError(f"encoding={encoding!r} is unknown. Try 'utf-8'.") from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x00" in text:
        line = text[: text.index("\x00")].count("\n") + 1
        raise UnreadableFileError(
            f"{path}, line {line} holds a NUL character: the file is not text, or has another "
            "encoding, e.g. encoding='utf-16'."
        )
    return text


def _read_header(path: Path, lines: list[str], text_format: TextFormat) -> tuple[list[str], int]:
    """Return the names of the columns, and the number of lines before the first row."""
    skipped = text_format.skip_lines
    records = _records(path, lines, skipped, text_format.delimiter)
    _, cells = next(records)
    if not text_format.header:
        return [str(index) for index in range(len(cells))], skipped
    names = [cell.strip() for cell in cells]
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise UnreadableFileError(
            f"{path}, line {skipped + 1}: several columns are named "
            f"{abbreviate(map(repr, twice))}. Give them different names."
        )
    return names, next(records, (len(lines) + 1, []))[0] - 1


def _header_advice(
    path: Path,
    lines: list[str],
    names: list[str],
    text_format: TextFormat,
    needed: Collection[str],
) -> str:
    """Return the message for missing columns, with options that would find them."""
    skipped, own = text_format.skip_lines, text_format.delimiter
    place = f"{path}, line {skipped + 1}"
    missing = next(name for name in needed if name not in names)
    candidates = lines[:_PREAMBLE] if text_format.header else []
    order = [own, *(mark for mark in _DELIMITERS if mark != own)]
    for mark in order:
        for before, line in enumerate(candidates):
            # Any sentence, split at blanks, may hold a column name.
            if (mark == " " and before != skipped) or not set(needed) <= set(_split(line, mark)):
                continue
            options = [] if before == skipped else [f"skip_lines={before}"]
            options += [] if mark == own else [f"delimiter={mark!r}"]
            return (
                f"{place}: no column {missing!r} when cells are split at {own!r}, but line "
                f"{before + 1} has the columns wanted. Pass {' and '.join(options)}."
            )
    return missing_column(place, missing, names)


def _check_rows(
    path: Path, lines: list[str], first: int, expected: int, text_format: TextFormat
) -> Int[np.ndarray, " n_rows"]:
    """Return the line of each row; raise where a row has too many or too few cells.

    pandas fills short rows silently and cannot tell lost cells from empty ones.
    """
    delimiter = text_format.delimiter
    if any('"' in line for line in lines[first:]):
        counts = [(n, len(cells)) for n, cells in _records(path, lines, first, delimiter)]
    else:
        counts = [
            (n, line.count(delimiter) + 1 if line.strip(" ") else 0)
            for n, line in enumerate(lines[first:], first + 1)
        ]
    places, n_cells = np.array(counts).T
    wrong = np.flatnonzero(n_cells != expected)
    if wrong.size:
        line, found = int(places[wrong[0]]), int(n_cells[wrong[0]])
        raise UnreadableFileError(_row_advice(path, line, found, expected, text_format))
    return places


def _row_advice(
    path: Path, line: int, n_cells: int, expected: int, text_format: TextFormat
) -> str:
    if n_cells == 0:
        return (
            f"{path}, line {line} is blank. Delete the line if there was no sample, or write NaN "
            "if it is missing."
        )
    named = "the header names" if text_format.header else "the first line has"
    hint = "Complete or shorten the row."
    if text_format.delimiter == "," and n_cells > expected:
        hint += " If commas are decimal signs, pass decimal=',' and the delimiter."
    if text_format.header and n_cells > expected:
        hint += " If lines come before the header, pass skip_lines=."
    return f"{path}, line {line} has {n_cells} cell(s), but {named} {expected} column(s). {hint}"


def _parse(
    text: str, text_format: TextFormat, n_columns: int, kept: list[int], numbers: list[int]
) -> pd.DataFrame:
    """Return these columns, some as numbers and the others as text."""
    return pd.read_csv(
        io.StringIO(text),
        sep=text_format.delimiter,
        decimal=text_format.decimal,
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


def _records(
    path: Path, lines: list[str], start: int, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of each record; quoted cells may span several lines."""
    source = (f"{line}\n" for line in lines[start:])
    reader = csv.reader(source, delimiter=delimiter, skipinitialspace=True, strict=True)
    line = start + 1
    try:
        for cells in reader:
            yield line, cells
            line = start + reader.line_num + 1
    except csv.Error as error:
        raise UnreadableFileError(
            f"{path}, line {line}: {error}. Close every quotation mark, right before the next "
            "delimiter."
        ) from error


def _split(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, stripped."""
    cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    return [cell.strip() for cell in cells]
