"""Recordings from tables with one row per sample: files and DataFrames."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, SupportsFloat

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from percdl.exceptions import (
    ClockColumnWarning,
    InvalidParameterError,
    InvalidRecordingError,
    PerCDLError,
    UnreadableFileError,
)
from percdl.signals.clock import (
    first_gap,
    has_drifted,
    is_thousandfold,
    mean_rate,
    steps_of,
    warn_of_slow_clock,
)
from percdl.signals.recording import Recording, abbreviate, as_label, as_names, as_rate

# None for all columns, names, or a mapping from columns to channel names.
Channels = str | Iterable[str] | Mapping[str, str] | None
Rows = Int[np.ndarray, " n_times"]
Seconds = Float[np.ndarray, " n_times"]
# Cells that stand for a missing number.
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None")
# Columns with these names that increase by equal steps are clocks or counters, not signals.
_CLOCK_NAMES = {
    "", "t", "time", "times", "timestamp", "timestamps", "seconds", "date", "datetime", "index",
    "sample", "samples", "frame", "unnamed: 0",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A table with one row per sample, or per subject."""

    name: str
    frame: pd.DataFrame  # text columns where the file is text
    unit: str = "row"  # or "line"
    places: Sequence[Any] | np.ndarray | pd.Index | None = None  # line or label of each row
    decimal: str = "."
    error: type[PerCDLError] = UnreadableFileError

    def place(self, row: int) -> str:
        """Return the place of a row, e.g. ``"line 17"``."""
        return f"{self.unit} {row + 1 if self.places is None else self.places[row]}"

    def fail(self, row: int, message: str) -> PerCDLError:
        """Return an error that names the table and the row."""
        return self.error(f"{self.name}, {self.place(row)}: {message}")

    def column(self, name: str) -> pd.Series:
        """Return a column."""
        if name not in self.frame.columns:
            raise self.error(missing_column(self.name, name, self.frame.columns))
        found = self.frame[name]
        if isinstance(found, pd.DataFrame):
            raise self.error(
                f"{self.name}: several columns are named {name!r}. Give them different names."
            )
        return pd.Series(found)

    def labels(self, name: str) -> pd.Series:
        """Return a column of labels or times; its cells must be single values."""
        column = self.column(name)
        try:
            column.unique()
        except TypeError as error:
            raise self.error(
                f"{self.name}: column {name!r} holds collections ({error}). Each cell must hold "
                "one value."
            ) from error
        return column

    def numbers(self, name: str) -> Float[np.ndarray, " n_rows"]:
        """Return a column of real numbers; empty cells are NaN."""
        column = self.column(name)
        if column.dtype.kind in "biuf":
            single = column.dtype == np.float32
            numbers = column.to_numpy(np.float32 if single else np.float64, na_value=np.nan)
        else:
            numbers = self._parse(column, name)
        infinite = np.flatnonzero(np.isinf(numbers))
        if infinite.size:
            raise self._bad_cell(name, int(infinite[0]), "is infinite")
        return numbers

    def _parse(self, column: pd.Series, name: str) -> Float[np.ndarray, " n_rows"]:
        texts = column.astype(object)
        blank = texts.isna() | texts.map(lambda cell: isinstance(cell, str) and _is_missing(cell))
        points = texts.where(~blank, None)
        if self.decimal != ".":
            points = points.str.replace(self.decimal, ".", regex=False)
        if column.dtype.kind == "c":
            numbers = np.full(len(column), np.nan)
        else:
            parsed = pd.Series(pd.to_numeric(points, errors="coerce"))
            numbers = parsed.to_numpy(np.float64, na_value=np.nan)
        wrong = np.flatnonzero(np.isnan(numbers) & ~blank.to_numpy(bool))
        if wrong.size:
            raise self._bad_cell(name, int(wrong[0]), "is not a number")
        return numbers

    def _bad_cell(self, name: str, row: int, problem: str) -> PerCDLError:
        cell = str(self.frame[name].iloc[row])
        between = next((mark for mark in ";\t|" if mark in cell), None)
        if between is not None:
            hint = f"If {between!r} separates cells, pass delimiter={between!r}."
        elif "," in cell and cell.replace(",", "", 1).lstrip("+-").isdigit():
            hint = "If commas are decimal signs, pass decimal=','."
        else:
            hint = "Correct it, or leave the cell empty if the sample is missing."
        return self.fail(row, f"{cell!r} in column {name!r} {problem}. {hint}")


@dataclass(frozen=True)
class Columns:
    """The meaning of the columns of a table of samples."""

    channels: dict[str, str] | None  # column -> channel; None for all columns not named below
    subject: str | None = None
    group: str | None = None
    time: str | None = None
    sfreq: float | None = None  # read from the time column if None
    units: str | tuple[str, ...] | None = None
    is_sorted: bool = True  # rows must be in order of time; otherwise they are sorted

    @classmethod
    def of(
        cls,
        channels: Channels,
        *,
        sfreq: SupportsFloat | None,
        time: str | None,
        units: str | Iterable[str] | None,
        **labels: Any,
    ) -> "Columns":
        """Check the arguments of a reader of tables."""
        if sfreq is None and time is None:
            raise InvalidParameterError(
                "The sampling rate is unknown. Pass sfreq=, in samples per second, or time=, the "
                "name of a column of times."
            )
        rate = None if sfreq is None else as_rate(sfreq, "The table")
        scales = units if units is None or isinstance(units, str) else tuple(units)
        return cls(channel_map(channels), time=time, sfreq=rate, units=scales, **labels)

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
        clocks = [name for name in others if _is_clock(table, name)]
        if clocks and len(clocks) < len(others):
            others = [name for name in others if name not in clocks]
            warnings.warn(
                f"Column {clocks[0]!r} counts time or samples, so it is not read as a channel. "
                f"Pass time={clocks[0]!r} to check the clock, or name the channels to read.",
                ClockColumnWarning,
                stacklevel=2,
            )
        return {name: name for name in others}


def channel_map(channels: Channels) -> dict[str, str] | None:
    """Return column -> channel; None if all columns are channels.

    >>> channel_map(["RRX", "RRY"])
    {'RRX': 'RRX', 'RRY': 'RRY'}
    """
    if channels is None:
        return None
    if isinstance(channels, Mapping):
        return {str(column): str(name) for column, name in channels.items()}
    return {str(name): str(name) for name in as_names(channels)}


def missing_column(place: str, name: str, columns: Iterable[object], what: str = "column") -> str:
    """Return the message for a column (or signal) that does not exist, with similar names."""
    known = [str(column) for column in columns]
    near = get_close_matches(name, known, n=3)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "Check its name."
    named = abbreviate(map(repr, known), shown=20)
    return f"{place}: no {what} {name!r}, only {named}. {hint}"


def recordings_from_frame(
    frame: pd.DataFrame,
    *,
    channels: str | Iterable[str],
    subject: str = "subject",
    time: str | None = None,
    sfreq: SupportsFloat | None = None,
    group: str | None = None,
    units: str | Iterable[str] | None = None,
) -> list[Recording]:
    """Return one `Recording` per subject of a long frame; see `Cohort.from_frame`."""
    if sfreq is None and time is None:
        sfreq = 1.0
    columns = Columns.of(
        channels, sfreq=sfreq, time=time, units=units, subject=subject, group=group
    )
    table = Table("The frame", frame, "row", frame.index, error=InvalidRecordingError)
    return list(recordings_in(table, replace(columns, is_sorted=False), ""))


def recordings_in(table: Table, columns: Columns, subject: str) -> Iterator[Recording]:
    """Yield the recordings of a table; ``subject`` is the id if no column holds ids."""
    names = columns.names(table)
    if not names:
        raise table.error(
            f"{table.name}: no column is left for a channel. Name the columns to read with "
            "channels=."
        )
    values = np.column_stack([table.numbers(column) for column in names])
    for label, rows in _rows_of(table, columns, subject):
        rows, rate = _ordered(table, columns, rows)
        yield Recording(
            values[rows],
            sfreq=rate,
            channels=tuple(names.values()),
            units=columns.units,
            subject=label,
            group=_group(table, columns.group, rows),
        )


def _is_missing(cell: str) -> bool:
    return cell.strip() in MISSING


def _is_clock(table: Table, name: str) -> bool:
    """Whether a column has the name of a clock or counter and increases by equal steps."""
    if name.strip().lower() not in _CLOCK_NAMES:
        return False
    numbers = pd.Series(pd.to_numeric(table.column(name), errors="coerce"))
    values = numbers.to_numpy(np.float64, na_value=np.nan)
    if np.isnan(values).all():
        return True  # dates
    return len(values) > 1 and first_gap(values) is None


def _rows_of(table: Table, columns: Columns, subject: str) -> Iterator[tuple[str, Rows]]:
    if columns.subject is None:
        yield subject, np.arange(len(table.frame))
        return
    ids = table.labels(columns.subject).reset_index(drop=True)
    unnamed = np.flatnonzero(ids.isna())
    if unnamed.size:
        raise table.fail(
            int(unnamed[0]),
            f"column {columns.subject!r} is empty. Every sample needs a subject.",
        )
    for label, rows in ids.groupby(ids, sort=False, observed=True).indices.items():
        place = f"{table.name}, {table.place(int(rows[0]))}"
        yield as_label(label, "subject", place), np.sort(rows)


def _group(table: Table, column: str | None, rows: Rows) -> str | None:
    if column is None:
        return None
    values = table.labels(column).iloc[rows]
    given = values.dropna()
    if given.empty:
        return None
    other = np.flatnonzero((values != given.iloc[0]) & values.notna())
    if other.size:
        at = int(other[0])
        raise table.fail(
            int(rows[at]),
            f"column {column!r} is {values.iloc[at]!r}, but {given.iloc[0]!r} before. A recording "
            "has one group.",
        )
    return as_label(given.iloc[0], "group", table.name)


def _ordered(table: Table, columns: Columns, rows: Rows) -> tuple[Rows, float]:
    """Return the rows in order of time, and the sampling rate; raise where the clock has a gap."""
    if columns.time is None:
        return rows, float(columns.sfreq or 0)
    times = _times(table, columns.time, rows)
    seconds = _seconds(times)
    if not columns.is_sorted:
        order = np.argsort(seconds, kind="stable")
        rows, seconds = rows[order], seconds[order]
    if len(rows) == 1 and columns.sfreq is None:
        raise table.fail(int(rows[0]), "one sample has no sampling rate. Pass sfreq=.")
    gap = first_gap(seconds, columns.sfreq)
    if gap is not None:
        raise _gap_error(table, columns, rows, gap, seconds)
    if columns.sfreq is None:
        rate = mean_rate(seconds)
        if times.dtype.kind not in "mM":  # dates and durations have a unit
            warn_of_slow_clock(columns.time, rate)
        return rows, rate
    if has_drifted(seconds, columns.sfreq):
        raise table.fail(
            int(rows[-1]),
            f"{len(rows)} samples span {seconds[-1] - seconds[0]:g} s in column "
            f"{columns.time!r}, which is {mean_rate(seconds):g} Hz, but sfreq={columns.sfreq:g}. "
            "Correct sfreq, or leave time= out.",
        )
    return rows, columns.sfreq


@np.errstate(over="ignore", invalid="ignore")
def _gap_error(
    table: Table, columns: Columns, rows: Rows, gap: int, seconds: Seconds
) -> PerCDLError:
    """Return the error for a wrong step of the clock, with the two times around it."""
    around = table.column(str(columns.time)).iloc[rows[gap : gap + 2]]
    before, after = (str(value) for value in around)
    if columns.sfreq is None:
        usual = f"{np.median(np.diff(seconds)):g} s elsewhere"
        otherwise = "pass sfreq= if times are rounded"
    else:
        usual = f"{1 / columns.sfreq:g} s at sfreq={columns.sfreq:g}"
        otherwise = "leave time= out to take the rows in their order"
    advice = (
        f"Insert rows of NaN where samples were lost, cut the recording there, or {otherwise}."
    )
    step = seconds[gap + 1] - seconds[gap]
    kind = "goes back" if step < 0 else "stands still" if step == 0 else "leaps"
    return table.fail(
        int(rows[gap + 1]),
        f"the clock {kind} from {before} to {after} (column {columns.time!r}), a step of {step:g} "
        f"s against {usual}. " + (_other_cause(table, columns, rows, gap, seconds) or advice),
    )


def _other_cause(
    table: Table, columns: Columns, rows: Rows, gap: int, seconds: Seconds
) -> str | None:
    """Return advice where the gap has a likely cause other than lost samples."""
    period = float(np.median(steps_of(seconds)))
    if columns.sfreq is not None and period > 0 and is_thousandfold(columns.sfreq, 1 / period):
        return (
            "Times are read as seconds; if these are milliseconds, divide them by 1000, or leave "
            "time= out."
        )
    if columns.subject is None:
        several = (
            "If the table holds several subjects, pass subject='...', the column of their ids; "
            "otherwise sort the rows, or cut the recording there."
        )
        return several if seconds[gap + 1] < seconds[gap] else None
    apart = np.diff(rows)
    if columns.is_sorted and apart[gap] > np.median(apart):
        label = str(table.column(columns.subject).iloc[rows[gap]])
        return (
            f"Subject {label!r} comes in blocks: one ends at {table.place(int(rows[gap]))}, the "
            f"next begins at {table.place(int(rows[gap + 1]))}. If they are separate recordings, "
            "give them separate ids; otherwise insert rows of NaN for the time between."
        )
    return None


def _times(table: Table, column: str, rows: Rows) -> pd.Series:
    """Return a column of times: numbers, durations or dates."""
    cells = table.labels(column).iloc[rows]
    times = _as_times(cells, table.decimal)
    unknown = np.flatnonzero(times.isna())
    if unknown.size:
        at = int(unknown[0])
        cell = cells.iloc[at]
        found = "is empty" if pd.isna(cell) else f"holds {str(cell)!r}, which is not a time"
        raise table.fail(
            int(rows[at]),
            f"column {column!r} {found}. Give seconds, dates in ISO 8601 such as "
            "2024-03-04T10:00:00, or durations such as 00:00:01.25, the same in all rows.",
        )
    return times


def _seconds(times: pd.Series) -> Seconds:
    if times.dtype.kind == "M":
        times = times - times.iloc[0]
    if times.dtype.kind == "m":
        return times.dt.total_seconds().to_numpy(np.float64)
    return times.to_numpy(np.float64)


def _as_times(cells: pd.Series, decimal: str) -> pd.Series:
    """Parse a column of times in the format of its first cell; other cells become missing."""
    if cells.dtype.kind in "iufmM":
        return cells
    texts = cells.astype("str")
    if decimal != ".":
        texts = texts.str.replace(decimal, ".", regex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated units
        for read in (pd.to_numeric, pd.to_timedelta):
            if pd.Series(read(texts.iloc[:1], errors="coerce")).notna().all():
                return pd.Series(read(texts, errors="coerce"))
        return pd.Series(pd.to_datetime(texts, errors="coerce", format="ISO8601"))
