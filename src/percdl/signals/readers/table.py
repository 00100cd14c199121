"""A table read from a file, which knows where in the file its rows stand."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import pandas as pd
from jaxtyping import Float

from percdl.exceptions import UnreadableFileError
from percdl.signals.recording import abbreviate


@dataclass(frozen=True)
class Table:
    """Rows and columns of a file.

    Attributes
    ----------
    name : str
        The file, as it was given.
    frame : DataFrame
        Its columns: text where the file is text.
    unit : {"line", "row"}
        What places are counted in: lines of a text, as an editor counts them, or rows.
    lines : callable, optional
        From the position of a row to the number of its line; rows count from one otherwise.
    missing : tuple of str
        Cells that stand for a missing number.
    decimal : str
        The decimal sign of numbers that are text.
    """

    name: str
    frame: pd.DataFrame
    unit: str
    lines: Callable[[int], int] | None = None
    missing: tuple[str, ...] = ()
    decimal: str = "."

    def place(self, row: int) -> str:
        """Return where a row stands, e.g. ``"line 17"``."""
        return f"{self.unit} {self.lines(row) if self.lines else row + 1}"

    def column(self, name: str) -> pd.Series:
        """Return a column."""
        if name not in self.frame.columns:
            raise missing_column(self.name, name, self.frame.columns)
        found = self.frame[name]
        if isinstance(found, pd.DataFrame):
            raise UnreadableFileError(
                f"{self.name}: several columns are named {name!r}. A column is read by name: "
                "rename them."
            )
        return pd.Series(found)

    def numbers(self, name: str) -> Float[np.ndarray, " n_rows"]:
        """Return a column of real numbers; empty cells are NaN."""
        column = self.column(name)
        if column.dtype.kind in "biuf":
            numbers = column.to_numpy(
                np.float32 if column.dtype == np.float32 else np.float64, na_value=np.nan
            )
        else:
            numbers = self._parse(column, name)
        infinite = np.flatnonzero(np.isinf(numbers))
        if infinite.size:
            self._refuse(name, int(infinite[0]), "is infinite")
        return numbers

    def _parse(self, column: pd.Series, name: str) -> Float[np.ndarray, " n_rows"]:
        texts = column.astype(object)
        blank = np.array([_is_blank(text, self.missing) for text in texts], bool)
        points = texts.where(~blank, None)
        if self.decimal != ".":
            points = points.str.replace(self.decimal, ".", regex=False)
        parsed = pd.Series(pd.to_numeric(points, errors="coerce"))
        numbers = parsed.to_numpy(np.float64, na_value=np.nan)
        wrong = np.flatnonzero(np.isnan(numbers) & ~blank)
        if wrong.size:
            self._refuse(name, int(wrong[0]), "is not a number")
        return numbers

    def _refuse(self, name: str, row: int, what: str) -> None:
        cell = str(self.frame[name].iloc[row])
        between = next((mark for mark in ";\t|" if mark in cell), None)
        if between is not None:
            hint = f"If {between!r} separates cells, pass delimiter={between!r}."
        elif "," in cell and cell.replace(",", "", 1).lstrip("+-").isdigit():
            hint = "If commas are decimal signs, pass decimal=','."
        else:
            hint = "Correct it, or leave the cell empty where the sample is missing."
        raise UnreadableFileError(
            f"{self.name}, {self.place(row)}: {cell!r} in column {name!r} {what}. {hint}"
        )


def missing_column(
    place: str, name: str, columns: Iterable[object], what: str = "column"
) -> UnreadableFileError:
    """Say that a column (or signal) is absent, with those that look like it."""
    known = [str(column) for column in columns]
    near = get_close_matches(name, known, n=3)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "Check its name."
    named = abbreviate(map(repr, known), shown=20)
    return UnreadableFileError(f"{place}: no {what} {name!r}, only {named}. {hint}")


def _is_blank(value: object, missing: tuple[str, ...]) -> bool:
    return value is None or value != value or (isinstance(value, str) and value.strip() in missing)
