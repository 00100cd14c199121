"""Recordings from tables with one row per sample: files and DataFrames."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from percdl.exceptions import (
    ClockColumnWarning,
    ClockUnitWarning,
    InvalidParameterError,
    InvalidRecordingError,
    PerCDLError,
    UnreadableFileError,
)
from percdl.signals.recording import Recording, abbreviate, as_label, as_names, as_rate

# None for all columns, names, or a mapping from columns to channel names.
Channels = str | Iterable[str] | Mapping[str, str] | None
Rows = Int[np.ndarray, " n_times"]
Seconds = Float[np.ndarray, " n_times"]
# Without a known rate, steps may differ from their median by this fraction: far above the
# rounding of floats, far below a lost sample.
UNIFORM = 1e-3
# With a known rate, times may be rounded: a step may be off by this fraction of a period, and the
# whole recording by this fraction of its duration.
ROUNDED, DRIFT = 0.5, 0.01
# Cells that stand for a missing number.
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None")
_NO_THOUSANDS = (
    "The decimal sign is {!r}: correct it, or write numbers without signs for thousands."
)
# Columns whose names begin with these words, and that never go back, are clocks or counters.
_CLOCK_NAMES = {
    "", "t", "time", "times", "timestamp", "timestamps", "seconds", "ms", "msec", "milliseconds",
    "date", "datetime", "clock", "unix", "epoch", "index", "sample", "samples", "frame", "frames",
    "unnamed", "zeit", "uhrzeit", "zeitstempel", "temps", "tiempo",
}  # fmt: skip


@contextmanager
def reading(name: object, error: type[PerCDLError] = UnreadableFileError) -> Iterator[None]:
    """Name the file in every error of a reader; `FileNotFoundError` if it does not exist."""
    try:
        yield
    except PerCDLError as problem:
        if isinstance(problem, InvalidRecordingError) and error is not InvalidRecordingError:
            raise error(f"{name}: {problem}") from problem
        raise
    except Exception as problem:
        if error is UnreadableFileError and isinstance(name, Path) and not name.exists():
            missing = f"There is no file {str(name)!r} (seen from {Path.cwd()}). Check the path."
            raise FileNotFoundError(missing) from problem
        raise error(
            f"{name} cannot be read ({type(problem).__name__}: {problem}). It is damaged, cut "
            "short or in another format: copy or export it again."
        ) from problem


@dataclass(frozen=True)
class Table:
    """A table with one row per sample, or per subject."""

    name: str
    frame: pd.DataFrame  # text columns where the file is text
    unit: str = "row"  # or "line"
    places: Sequence[Any] | pd.Index | None = None  # line or label of each row
    decimal: str = "."
    error: type[PerCDLError] = UnreadableFileError

    def place(self, row: int) -> str:
        """Return the table and the row, e.g. ``"walks.csv, line 17"``."""
        return f"{self.name}, {self.unit} {row + 1 if self.places is None else self.places[row]}"

    def fail(self, row: int, message: str) -> PerCDLError:
        """Return an error that names the table and the row."""
        return self.error(f"{self.place(row)}: {message}")

    def column(self, name: str) -> pd.Series:
        """Return a column."""
        if name not in self.frame.columns:
            raise self.error(missing_column(self.name, name, self.frame.columns))
        found = self.frame[name]
        if isinstance(found, pd.DataFrame):
            raise self.error(f"{self.name}: several columns are named {name!r}. Rename them.")
        return pd.Series(found)

    def numbers(self, name: str) -> Float[np.ndarray, " n_rows"]:
        """Return a column of real numbers; empty cells are NaN."""
        column = self.column(name)
        if column.dtype.kind in "biuf":
            single = column.dtype == np.float32
            numbers = column.to_numpy(np.float32 if single else np.float64, na_value=np.nan)
            missing = np.isnan(numbers)
        else:
            cells = column.astype("string").str.strip()
            missing = (cells.isna() | cells.isin(MISSING)).to_numpy(bool)
            parsed = pd.Series(pd.to_numeric(self.point(cells), errors="coerce"))
            numbers = parsed.to_numpy(np.float64, na_value=np.nan)
        for row in np.flatnonzero(~np.isfinite(numbers) & ~missing)[:1]:
            cell, problem = str(column.iloc[row]), "not a number"
            advice = "Correct it, or leave the cell empty if the sample is missing."
            if np.isinf(numbers[row]):
                problem = "infinite"
            elif marks := [mark for mark in ";\t|" if mark in name]:
                advice = f"If another sign separates cells, pass delimiter={marks[0]!r}."
            elif "." in cell and self.decimal != ".":
                advice = _NO_THOUSANDS.format(self.decimal)
            elif "," in cell:
                advice = "If commas are decimal signs, pass decimal=',' (--decimal)."
            raise self.fail(int(row), f"{cell!r} in column {name!r} is {problem}. {advice}")
        return numbers

    def point(self, cells: pd.Series) -> pd.Series:
        """Return numbers with a decimal point; those with another point are missing."""
        if self.decimal == ".":
            return cells
        known = cells.mask(cells.str.contains(".", regex=False).fillna(False).astype(bool))
        return known.str.replace(self.decimal, ".", regex=False)


@dataclass(frozen=True)
class Columns:
    """The meaning of the columns of a table of samples."""

    channels: dict[str, str] | None  # column -> channel; None for all columns not named below
    subject: str | None = None
    group: str | None = None
    time: str | None = None
    sfreq: Any = None  # read from the time column if None
    units: str | Iterable[str] | None = None
    is_sorted: bool = True  # rows must be in order of time; otherwise they are sorted

    def __post_init__(self) -> None:
        if self.sfreq is not None:
            object.__setattr__(self, "sfreq", as_rate(self.sfreq, "The table"))
        elif self.time is None:
            raise InvalidParameterError(
                "The sampling rate is unknown. Pass sfreq=, in samples per second, or time=, the "
                "name of a column of times; in the shell, --sfreq or --time."
            )

    @property
    def labels(self) -> list[str]:
        """The columns that are not channels."""
        return [name for name in (self.subject, self.group, self.time) if name is not None]

    @property
    def needed(self) -> list[str]:
        """The columns to read; empty for all."""
        return [] if self.channels is None else [*self.channels, *self.labels]

    def names(self, table: Table) -> dict[str, str]:
        """Return the channel name of each column that is a signal."""
        if self.channels is not None:
            return self.channels
        others = [str(name) for name in table.frame.columns if name not in self.labels]
        clocks = [name for name in others if self._is_clock(table, name)]
        if clocks and len(clocks) < len(others):
            others = [name for name in others if name not in clocks]
            warnings.warn(
                f"Column {clocks[0]!r} counts time or samples, so it is not read as a channel. "
                f"Pass time={clocks[0]!r} (in the shell, --time) to check the clock, or name the "
                "channels to read.",
                ClockColumnWarning,
                stacklevel=2,
            )
        return {name: name for name in others}

    def _is_clock(self, table: Table, name: str) -> bool:
        """Whether a column has the name of a clock or counter and never goes back.

        Times may be rounded and have gaps; those of the first subject are looked at.
        """
        plain = name.strip().lower()
        if (re.split(r"[^a-z]", plain)[0] or plain) not in _CLOCK_NAMES:
            return False
        cells: Any = table.column(name)
        if self.subject is not None:
            ids = table.column(self.subject)
            cells = cells[ids == ids.iloc[0]]
        if cells.dtype.kind not in "iuf":
            cells = table.point(cells.astype("string"))
        values = pd.Series(pd.to_numeric(cells, errors="coerce")).to_numpy(float, na_value=np.nan)
        if np.isnan(values).all():  # dates, unless there is nothing
            return bool(cells.notna().any())
        steps = np.diff(values)
        return bool((steps >= 0).all() and (steps > 0).any())


def channel_map(channels: Channels) -> dict[str, str] | None:
    """Return column -> channel; None if all columns are channels."""
    if channels is None:
        return None
    named = channels if isinstance(channels, Mapping) else {x: x for x in as_names(channels)}
    return {str(column): str(name) for column, name in named.items()}


def missing_column(place: str, name: str, columns: Iterable[object], what: str = "column") -> str:
    """Return the message for a column (or signal) that does not exist, with similar names."""
    known = [str(column) for column in columns]
    inside = [column for column in known if name.lower() in column.lower()]
    near = get_close_matches(name, known, n=3) or inside[:3]
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "Check its name."
    return f"{place}: no {what} {name!r}, only {abbreviate(map(repr, known), shown=20)}. {hint}"


def check_columns(what: str, table: pd.DataFrame, needed: Iterable[str], advice: str) -> None:
    """Raise if a table that was passed lacks a column; ``what`` names its rows."""
    if missing := [repr(name) for name in needed if name not in table]:
        known = abbreviate(table.columns, 10) or "none"
        raise InvalidParameterError(
            f"{what} have no column {', '.join(missing)}, only {known}. {advice}"
        )


def pick_signals(
    path: Path, labels: list[str], rates: list[float], channels: dict[str, str] | None
) -> tuple[list[int], list[str]]:
    """Return positions and channel names of the chosen signals of a file, all at one rate."""
    for label in channels or ():
        if label not in labels:
            raise UnreadableFileError(missing_column(str(path), label, labels, "signal"))
        if labels.count(label) > 1:
            raise UnreadableFileError(
                f"{path}: several signals are called {label!r}. Rename them in the file."
            )
    wanted = range(len(labels)) if channels is None else [labels.index(name) for name in channels]
    if len({rates[i] for i in wanted}) != 1:
        listed = abbreviate((f"{labels[i]} {rates[i]:g} Hz" for i in wanted), shown=20)
        raise UnreadableFileError(
            f"{path} must have signals of one sampling rate, but has {listed or 'no signal'}. "
            "Choose signals of one rate with channels=[...]."
        )
    return list(wanted), labels if channels is None else list(channels.values())


def recordings_in(table: Table, columns: Columns, subject: str) -> Iterator[Recording]:
    """Yield the recordings of a table; ``subject`` is the id if no column holds ids."""
    if not (names := columns.names(table)):
        raise table.error(f"{table.name}: no column is left for a channel. Pass channels=.")
    values = np.column_stack([table.numbers(column) for column in names])
    subjects: dict[Any, Rows] = {subject: np.arange(len(table.frame))}
    if columns.subject is not None:
        ids = table.column(columns.subject).reset_index(drop=True)
        for row in np.flatnonzero(ids.isna())[:1]:
            missing = f"column {columns.subject!r} is empty. Every sample needs a subject."
            raise table.fail(int(row), missing)
        subjects = dict(ids.groupby(ids, sort=False, observed=True).indices)
    for label, own in subjects.items():
        rows, rate = _ordered(table, columns, np.sort(own))
        yield Recording(
            values[rows],
            sfreq=rate,
            channels=tuple(names.values()),
            units=columns.units,
            subject=as_label(label, "subject", table.place(int(own[0]))),
            group=_group(table, columns.group, rows),
        )


def _group(table: Table, column: str | None, rows: Rows) -> str | None:
    if column is None:
        return None
    values = table.column(column).iloc[rows]
    given = values[~values.isin(MISSING)].dropna().unique()
    if len(given) > 1:
        other = int(rows[int((values == given[1]).argmax())])
        found = f"column {column!r} is {given[1]!r}, but {given[0]!r} before"
        raise table.fail(other, f"{found}. A recording has one group.")
    return as_label(given[0], "group", table.name) if len(given) else None


def _ordered(table: Table, columns: Columns, rows: Rows) -> tuple[Rows, float]:
    """Return the rows in order of time, and the sampling rate; raise if the clock has a gap."""
    if columns.time is None:
        return rows, columns.sfreq
    times = _times(table, columns.time, rows)
    has_unit = times.dtype.kind in "mM"  # dates and durations
    elapsed = times - times.iloc[0] if times.dtype.kind == "M" else times
    seconds = (elapsed.dt.total_seconds() if has_unit else elapsed).to_numpy(np.float64)
    if not columns.is_sorted:
        order = np.argsort(seconds, kind="stable")
        rows, seconds = rows[order], seconds[order]
    if len(rows) == 1 and columns.sfreq is None:
        raise table.fail(int(rows[0]), "one sample has no sampling rate. Pass sfreq=.")
    if (gap := first_gap(seconds, columns.sfreq)) is not None:
        raise _gap_error(table, columns, rows, gap, seconds)
    n_periods, span = len(seconds) - 1, seconds[-1] - seconds[0]
    if columns.sfreq is None:
        # Seven digits, so that rounded times do not give subjects different rates.
        rate = float(f"{n_periods / span:.7g}")
        if rate < 1 and not has_unit:
            warnings.warn(
                f"Column {columns.time!r} gives {rate:g} samples per second, as times are read as "
                "seconds. If they are milliseconds, divide them by 1000, or leave the column out "
                f"and pass sfreq={1000 * rate:g}.",
                ClockUnitWarning,
                stacklevel=2,
            )
        return rows, rate
    if abs(span * columns.sfreq - n_periods) > max(1.0, DRIFT * n_periods):
        raise table.fail(
            int(rows[-1]),
            f"{len(rows)} samples span {span:g} s in column {columns.time!r}, which is "
            f"{n_periods / span:g} Hz, but sfreq={columns.sfreq:g}. Correct sfreq, or leave time= "
            "out.",
        )
    return rows, columns.sfreq


def first_gap(seconds: Seconds, sfreq: float | None = None) -> int | None:
    """Return the position before the first step that is not one sampling period."""
    if not (steps := np.diff(seconds)).size:
        return None
    period = float(np.median(steps)) if sfreq is None else 1 / sfreq
    tolerance = UNIFORM if sfreq is None else ROUNDED
    uniform = (np.abs(steps - period) <= tolerance * period) & (period > 0)
    return None if uniform.all() else int(uniform.argmin())


def _gap_error(
    table: Table, columns: Columns, rows: Rows, gap: int, seconds: Seconds
) -> PerCDLError:
    """Return the error for a wrong step of the clock, with the two times around it."""
    before, after = table.column(str(columns.time)).iloc[rows[gap : gap + 2]].astype(str)
    period, step = float(np.median(np.diff(seconds))), seconds[gap + 1] - seconds[gap]
    usual = f"{period:g} s elsewhere"
    if columns.sfreq is not None:
        usual = f"{1 / columns.sfreq:g} s at sfreq={columns.sfreq:g}"
    kind = "goes back" if step < 0 else "stands still" if step == 0 else "leaps"
    return table.fail(
        int(rows[gap + 1]),
        f"the clock {kind} from {before} to {after} (column {columns.time!r}), a step of {step:g} "
        f"s against {usual}. Insert rows of NaN for lost samples, or cut the recording there. If "
        "times are rounded, pass sfreq=; if they are milliseconds, divide them by 1000 first; to "
        "take the rows in their order, leave time= out; if the table holds several recordings, "
        "pass subject=, a column of ids.",
    )


# In UTC, as the offset changes with the clocks of summer and winter.
_to_dates = partial(pd.to_datetime, format="ISO8601", utc=True)


def _times(table: Table, column: str, rows: Rows) -> pd.Series:
    """Return a column of times: numbers, durations or dates, as the first cell says."""
    cells = times = table.column(column).iloc[rows]
    if cells.dtype.kind not in "iufmM":
        texts = cells.astype("str").str.replace(table.decimal, ".", regex=False)
        kinds = (pd.to_numeric, pd.to_timedelta, _to_dates)
        first: Any = texts.iloc[:1]
        known = [read for read in kinds if pd.Series(read(first, errors="coerce")).notna().all()]
        is_number = (known or kinds)[0] is pd.to_numeric
        texts = table.point(cells.astype("str")) if is_number else texts
        times = pd.Series((known or kinds)[0](texts, errors="coerce"))
    for at in np.flatnonzero(times.isna())[:1]:
        cell = cells.iloc[at]
        found = "is empty" if pd.isna(cell) else f"holds {str(cell)!r}, which is not a time"
        raise table.fail(
            int(rows[at]),
            f"column {column!r} {found}. Give seconds, dates in ISO 8601 such as "
            "2024-03-04T10:00:00, or durations such as 00:00:01.25, the same in all rows.",
        )
    return times
