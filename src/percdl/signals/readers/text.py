"""Text tables (CSV, TSV): strict about their shape, exact about their lines."""

import csv
import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.readers.table import Table, missing_column
from percdl.signals.recording import abbreviate

# Cells that stand for a missing number, besides the empty one.
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None")
_DELIMITERS = (",", ";", "\t", "|", " ")
# How far down a header is looked for, where the first line is none.
_PREAMBLE = 50
# What zip archives (.xlsx among them) and the older .xls begin with.
_SPREADSHEETS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")


@dataclass(frozen=True)
class TextFormat:
    """How a text table is written.

    Attributes
    ----------
    delimiter, decimal : str
        One character each.
    encoding : str
        ``utf-8-sig`` reads UTF-8 with and without byte-order mark.
    skip_lines : int
        Lines before the header.
    header : bool
        Whether the first line after those names the columns, which are called ``"0"``,
        ``"1"``, ... otherwise.
    """

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8-sig"
    skip_lines: int = 0
    header: bool = True

    @classmethod
    def of(cls, path: Path, delimiter: str | None = None, **options: object) -> "TextFormat":
        """Return the format of a file: tabs in .tsv, commas elsewhere, unless told otherwise."""
        usual = "\t" if path.suffix.lower() in (".tsv", ".tab") else ","
        chosen = cls(usual if delimiter is None else delimiter, **options)  # type: ignore[arg-type]
        for name in ("delimiter", "decimal"):
            if len(sign := getattr(chosen, name)) != 1:
                raise InvalidParameterError(f"{name}={sign!r} must be one character, e.g. ';'.")
        if not chosen.delimiter.isascii() or chosen.delimiter in '\r\n"':
            raise InvalidParameterError(
                f"delimiter={chosen.delimiter!r} cannot separate cells. Pass e.g. ';'."
            )
        if not (sign := chosen.decimal).isprintable():
            raise InvalidParameterError(f"decimal={sign!r} cannot be a decimal sign, as ',' can.")
        if chosen.skip_lines < 0:
            raise InvalidParameterError(f"skip_lines={chosen.skip_lines} must be 0 or more.")
        if chosen.delimiter == chosen.decimal:
            raise InvalidParameterError(
                f"delimiter and decimal are both {chosen.decimal!r}. Pass another delimiter."
            )
        return chosen


def read_text_table(
    path: Path,
    text_format: TextFormat,
    needed: Collection[str] = (),
    texts: Collection[str] | None = None,
) -> Table:
    """Read the columns needed of a text table, all where none is named.

    Columns not in ``texts`` are read as numbers, none where ``texts`` is None. Where one of
    them does not hold numbers they are left as text, and `Table.numbers` says which cell is
    at fault.
    """
    text = _Text(path, _decode(path, text_format.encoding), text_format)
    text.check_columns(needed)
    text.check_rectangular()
    kept = [index for index, name in enumerate(text.columns) if not needed or name in needed]
    numbers = [i for i in kept if texts is not None and text.columns[i] not in texts]
    try:
        frame = text.parse(kept, numbers)
    except ValueError:
        frame = text.parse(kept, [])
    frame.columns = pd.Index([text.columns[index] for index in kept])
    return Table(str(path), frame, "line", text.line_of, MISSING, text_format.decimal)


def _decode(path: Path, encoding: str) -> str:
    raw = path.read_bytes()
    if raw.startswith(_SPREADSHEETS):
        raise UnreadableFileError(
            f"{path} is an Excel or zip file, whatever its name. Save it as CSV from the "
            "spreadsheet program, or unpack it."
        )
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) and not encoding.startswith("utf-16"):
        raise UnreadableFileError(f"{path} is written in UTF-16. Pass encoding='utf-16'.")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UnreadableFileError(
            f"{path}, line {line}: byte {raw[error.start]:#04x} is no {encoding} text. "
            "Pass the encoding of the file, e.g. encoding='latin-1'."
        ) from error
    except (LookupError, ValueError) as error:  # no name, or none of an encoding of text
        raise InvalidParameterError(f"encoding={encoding!r} is unknown. Try 'utf-8'.") from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x00" in text:
        line = text[: text.index("\x00")].count("\n") + 1
        raise UnreadableFileError(
            f"{path}, line {line} holds a NUL character: this is no text file, or one in another "
            "encoding, e.g. encoding='utf-16'."
        )
    return text


@dataclass(frozen=True)
class _Text:
    """The text of one table, cut into lines."""

    path: Path
    text: str
    format: TextFormat

    @cached_property
    def lines(self) -> list[str]:
        """All lines but the blank ones at the end."""
        lines = self.text.split("\n")
        while lines and not lines[-1].strip():
            lines.pop()
        if len(lines) <= self.format.skip_lines:
            raise UnreadableFileError(
                f"{self.path} is empty"
                + (f" after the first {self.format.skip_lines} lines" if lines else "")
                + ". A header line and one line per sample are needed."
            )
        return lines

    @cached_property
    def _head(self) -> tuple[list[str], int]:
        """The cells of the first record, and how many lines come before the second."""
        records = self._records(self.format.skip_lines)
        cells = next(records)[1]
        return cells, next(records, (len(self.lines) + 1, []))[0] - 1

    @property
    def first(self) -> int:
        """How many lines come before the first row."""
        return self._head[1] if self.format.header else self.format.skip_lines

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns; those of the table itself, or positions."""
        cells, _ = self._head
        if not self.format.header:
            return [str(index) for index in range(len(cells))]
        names = [cell.strip() for cell in cells]
        twice = sorted({name for name in names if name and names.count(name) > 1})
        if twice:
            raise UnreadableFileError(
                f"{self.path}, line {self.format.skip_lines + 1}: several columns are named "
                f"{abbreviate(map(repr, twice))}. A column is read by name: rename them."
            )
        return names

    def check_columns(self, needed: Collection[str]) -> None:
        """Refuse a table without the columns needed."""
        missing = [name for name in needed if name not in self.columns]
        if not missing:
            return
        line = self.format.skip_lines + 1
        place = f"{self.path}, line {line}"
        other = other_delimiter(self.lines[line - 1], self.format.delimiter, needed)
        if other is None:
            self._refuse_preamble(place, missing[0], needed)
            raise missing_column(place, missing[0], self.columns)
        raise UnreadableFileError(
            f"{place}: no column {missing[0]!r} when cells are split at "
            f"{self.format.delimiter!r}, but there is one when they are split at {other!r}. "
            f"Pass delimiter={other!r}."
        )

    def _refuse_preamble(self, place: str, missing: str, needed: Collection[str]) -> None:
        """Say which other line is the header, if one of the first names the columns needed."""
        own = self.format.delimiter
        # No blanks: a sentence may hold any word.
        for delimiter in (own, *(mark for mark in _DELIMITERS if mark not in (own, " "))):
            for before, line in enumerate(self.lines[:_PREAMBLE] if self.format.header else ()):
                if set(needed) <= set(split_header(line, delimiter)):
                    also = "" if delimiter == own else f" and delimiter={delimiter!r}"
                    raise UnreadableFileError(
                        f"{place}: no column {missing!r}, but line {before + 1} has the columns "
                        f"wanted: pass skip_lines={before}{also}."
                    )

    def check_rectangular(self) -> None:
        """Refuse rows with more or fewer cells than the header, and tables without rows."""
        expected = len(self.columns)
        if len(self.lines) <= self.first:
            raise UnreadableFileError(
                f"{self.path} has a header but no row. One line per sample is needed."
            )
        for line, n_cells in self._cell_counts():
            if n_cells != expected:
                self._refuse_row(line, n_cells, expected)

    def _cell_counts(self) -> Iterator[tuple[int, int]]:
        """Yield the line of each row and how many cells it has; a blank line has none."""
        if '"' in self.text:
            for line, cells in self._records(self.first):
                yield line, len(cells)
            return
        delimiter = self.format.delimiter
        for line, text in enumerate(self.lines[self.first :], self.first + 1):
            yield line, text.count(delimiter) + 1 if text.strip(" ") else 0

    def _refuse_row(self, line: int, n_cells: int, expected: int) -> None:
        if n_cells == 0:
            raise UnreadableFileError(
                f"{self.path}, line {line} is blank. Delete the line if there was no sample, or "
                "write NaN if it is missing."
            )
        named = "the header names" if self.format.header else "the first line has"
        hint = "Complete or shorten the row."
        if self.format.delimiter == "," and n_cells > expected:
            hint += " If commas are decimal signs, the delimiter is another: pass both."
        if self.format.header and n_cells > expected:
            hint += " If lines come before the header, pass skip_lines=."
        raise UnreadableFileError(
            f"{self.path}, line {line} has {n_cells} cell(s), but {named} {expected} "
            f"column(s). {hint}"
        )

    def parse(self, kept: list[int], numbers: list[int]) -> pd.DataFrame:
        """Return the rows of these columns, some as numbers and the others as text."""
        n_columns = len(self.columns)
        return pd.read_csv(
            io.StringIO("\n".join(self.lines[self.first :])),
            sep=self.format.delimiter,
            decimal=self.format.decimal,
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

    def line_of(self, row: int) -> int:
        """Return the number of the line on which a row begins, counted from one."""
        if '"' not in self.text:
            return self.first + row + 1
        return next(line for i, (line, _) in enumerate(self._records(self.first)) if i == row)

    def _records(self, start: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the line each record begins on and its cells, from a line on."""
        # Every line with its end, so that a quoted cell may span several.
        source = (f"{line}\n" for line in self.lines[start:])
        reader = csv.reader(
            source, delimiter=self.format.delimiter, skipinitialspace=True, strict=True
        )
        line = start + 1
        try:
            for cells in reader:
                yield line, cells
                line = start + reader.line_num + 1
        except csv.Error as error:
            raise UnreadableFileError(
                f"{self.path}, line {line}: {error}. A quotation mark that is opened must be "
                "closed, right before the next delimiter."
            ) from error


def other_delimiter(header: str, delimiter: str, needed: Collection[str]) -> str | None:
    """Return a delimiter with which a header would name the columns needed, if any does.

    >>> other_delimiter("time;RRY", ",", ["RRY"])
    ';'
    """
    for other in _DELIMITERS:
        if other != delimiter and set(needed) <= set(split_header(header, other)):
            return other
    return None


def split_header(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, without the blanks around them."""
    cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    return [cell.strip() for cell in cells]
