"""From tables of samples to recordings: which column is what, and whether the clock ticks."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.clock import (
    first_gap,
    has_drifted,
    is_thousandfold,
    mean_rate,
    warn_of_slow_clock,
)
from percdl.signals.labels import as_label, as_names, check_hashable
from percdl.signals.readers.table import Table
from percdl.signals.recording import Recording, as_rate

# None for all columns, names, or column -> channel where the channel is to be called otherwise.
Channels = str | Iterable[str] | Mapping[str, str] | None


@dataclass(frozen=True)
class Columns:
    """What the columns of a table of samples mean.

    Attributes
    ----------
    channels : dict or None
        Name of the channel each column becomes; None takes all columns not named below.
    subject, group, time : str or None
        Columns of the subject ids, of the groups and of the time.
    sfreq : float or None
        Samples per second; read from the time column where None.
    units : str, tuple of str or None
        See `Recording`.
    """

    channels: dict[str, str] | None
    subject: str | None
    group: str | None
    time: str | None
    sfreq: float | None
    units: str | tuple[str, ...] | None

    @classmethod
    def of(
        cls,
        channels: Channels,
        *,
        sfreq: float | None,
        time: str | None,
        units: str | Iterable[str] | None,
        subject: str | None = None,
        group: str | None = None,
    ) -> "Columns":
        """Check the arguments of a reader of tables."""
        if sfreq is None and time is None:
            raise InvalidParameterError(
                "The sampling rate is unknown. Pass sfreq=, in samples per second, or time=, the "
                "name of a column of times."
            )
        return cls(
            channel_map(channels), subject, group, time,
            None if sfreq is None else as_rate(sfreq, "The files"),
            units if units is None or isinstance(units, str) else tuple(units),
        )  # fmt: skip

    @property
    def labels(self) -> list[str]:
        """The columns that are not channels."""
        return [name for name in (self.subject, self.group, self.time) if name is not None]

    @property
    def needed(self) -> list[str]:
        """The columns that must be there; none where all are taken."""
        return [] if self.channels is None else [*self.channels, *self.labels]

    def names(self, table: Table) -> dict[str, str]:
        """Return the channel that each column of a table becomes."""
        if self.channels is not None:
            return self.channels
        return {str(name): str(name) for name in table.frame.columns if name not in self.labels}


def channel_map(channels: Channels) -> dict[str, str] | None:
    """Return column -> channel; None where all columns are channels.

    >>> channel_map(["RRX", "RRY"])
    {'RRX': 'RRX', 'RRY': 'RRY'}
    """
    if channels is None:
        return None
    if isinstance(channels, Mapping):
        return {str(column): str(name) for column, name in channels.items()}
    return {str(name): str(name) for name in as_names(channels)}


def recordings_in(table: Table, columns: Columns, subject: str) -> Iterator[Recording]:
    """Yield the recordings of a table: one per subject, or one in all, of this subject."""
    names = columns.names(table)
    if not names:
        raise UnreadableFileError(
            f"{table.name}: no column is left for a channel, all are named otherwise. Name those "
            "to read with channels=."
        )
    values = np.column_stack([table.numbers(column) for column in names])
    for label, rows in _rows_of(table, columns, subject):
        yield Recording(
            values[rows],
            sfreq=_rate(table, columns, rows),
            channels=tuple(names.values()),
            units=columns.units,
            subject=label,
            group=_group(table, columns.group, rows),
        )


def _rows_of(
    table: Table, columns: Columns, subject: str
) -> Iterator[tuple[str, Int[np.ndarray, " n_times"]]]:
    if columns.subject is None:
        yield subject, np.arange(len(table.frame))
        return
    ids = table.column(columns.subject)
    check_hashable(ids)
    unnamed = np.flatnonzero(ids.isna())
    if unnamed.size:
        raise UnreadableFileError(
            f"{table.name}, {table.place(int(unnamed[0]))}: column {columns.subject!r} is empty. "
            "Every sample needs its subject."
        )
    for label, rows in ids.groupby(ids, sort=False, observed=True).indices.items():
        place = f"{table.name}, {table.place(int(rows[0]))}"
        yield as_label(label, "subject", place), np.sort(rows)


def _group(table: Table, column: str | None, rows: Int[np.ndarray, " n_times"]) -> str | None:
    if column is None:
        return None
    values = table.column(column).iloc[rows]
    check_hashable(values)
    given = values.dropna()
    if given.empty:
        return None
    other = np.flatnonzero((values != given.iloc[0]) & values.notna())
    if other.size:
        at = int(other[0])
        raise UnreadableFileError(
            f"{table.name}, {table.place(int(rows[at]))}: column {column!r} says "
            f"{values.iloc[at]!r}, but {given.iloc[0]!r} before. A recording has one group."
        )
    return as_label(given.iloc[0], "group", table.name)


def _rate(table: Table, columns: Columns, rows: Int[np.ndarray, " n_times"]) -> float:
    """Return the sampling rate, having checked the time column if there is one."""
    if columns.time is None:
        return float(columns.sfreq or 0)
    times = _times(table, columns.time, rows)
    seconds = _seconds(times)
    if len(rows) == 1 and columns.sfreq is None:
        raise UnreadableFileError(
            f"{table.name}, {table.place(int(rows[0]))}: one sample has no sampling rate. "
            "Pass sfreq=."
        )
    gap = first_gap(seconds, columns.sfreq)
    if gap is not None:
        _refuse_gap(table, columns, rows, gap, seconds)
    if columns.sfreq is None:
        rate = mean_rate(seconds)
        if times.dtype.kind not in "mM":  # dates and durations say their unit
            warn_of_slow_clock(columns.time, rate)
        return rate
    if has_drifted(seconds, columns.sfreq):
        raise UnreadableFileError(
            f"{table.name}, {table.place(int(rows[-1]))}: {len(rows)} samples span "
            f"{seconds[-1] - seconds[0]:g} s in column {columns.time!r}, which is "
            f"{mean_rate(seconds):g} Hz, but sfreq={columns.sfreq:g}. Correct sfreq, or leave "
            "time= out."
        )
    return columns.sfreq


# Times may be as far apart as no number tells.
@np.errstate(over="ignore", invalid="ignore")
def _refuse_gap(
    table: Table,
    columns: Columns,
    rows: Int[np.ndarray, " n_times"],
    gap: int,
    seconds: Float[np.ndarray, " n_times"],
) -> None:
    """Say between which two times the clock does not tick as it should."""
    around = table.column(str(columns.time)).iloc[rows[gap : gap + 2]]
    before, after = (str(value) for value in around)
    if columns.sfreq is None:
        usual = f"{np.median(np.diff(seconds)):g} s elsewhere"
        way_out = "pass sfreq= if times are rounded"
    else:
        usual = f"{1 / columns.sfreq:g} s at sfreq={columns.sfreq:g}"
        way_out = "leave time= out to take the rows as they come"
    usual_way = (
        f"Insert rows of NaN where samples were lost, cut the recording there, or {way_out}."
    )
    step = seconds[gap + 1] - seconds[gap]
    kind = "goes back" if step < 0 else "stands still" if step == 0 else "leaps"
    raise UnreadableFileError(
        f"{table.name}, {table.place(int(rows[gap + 1]))}: the clock {kind} from {before} to "
        f"{after} (column {columns.time!r}), a step of {step:g} s against {usual}. "
        + (_other_reading(table, columns, rows, gap, seconds) or usual_way)
    )


def _other_reading(
    table: Table,
    columns: Columns,
    rows: Int[np.ndarray, " n_times"],
    gap: int,
    seconds: Float[np.ndarray, " n_times"],
) -> str | None:
    """Say what else than lost samples a wrong step of the clock may be, if anything."""
    period = float(np.median(np.diff(seconds)))
    if columns.sfreq is not None and period > 0 and is_thousandfold(columns.sfreq, 1 / period):
        return (
            "Times are taken as seconds; if these are milliseconds, divide them by 1000, or leave "
            "time= out."
        )
    if columns.subject is None:
        several = (
            "If the table holds several subjects, pass subject='...', the column of their ids; "
            "otherwise put the rows in order, or cut the recording there."
        )
        return several if seconds[gap + 1] < seconds[gap] else None
    apart = np.diff(rows)
    if apart[gap] > np.median(apart):
        label = str(table.column(columns.subject).iloc[rows[gap]])
        return (
            f"Subject {label!r} comes in blocks: one ends at {table.place(int(rows[gap]))}, the "
            f"next begins at {table.place(int(rows[gap + 1]))}. If they are recordings of their "
            "own, give them ids of their own; otherwise insert rows of NaN for the time between."
        )
    return None


def _times(table: Table, column: str, rows: Int[np.ndarray, " n_times"]) -> pd.Series:
    """Return a column of times: numbers, durations or dates."""
    cells = table.column(column).iloc[rows]
    times = _as_times(cells, table.decimal)
    unknown = np.flatnonzero(times.isna())
    if unknown.size:
        at = int(unknown[0])
        cell = cells.iloc[at]
        found = "is empty" if pd.isna(cell) else f"holds {str(cell)!r}, which is no time"
        raise UnreadableFileError(
            f"{table.name}, {table.place(int(rows[at]))}: column {column!r} {found}. Give "
            "seconds, dates in ISO 8601 such as 2024-03-04T10:00:00, or durations such as "
            "00:00:01.25, the same in all rows."
        )
    return times


def _seconds(times: pd.Series) -> Float[np.ndarray, " n_times"]:
    if times.dtype.kind == "M":
        times = times - times.iloc[0]
    if times.dtype.kind == "m":
        return times.dt.total_seconds().to_numpy(np.float64)
    return times.to_numpy(np.float64)


def _as_times(cells: pd.Series, decimal: str) -> pd.Series:
    """Read a column the way its first cell reads; what does not read so becomes missing."""
    if cells.dtype.kind in "iufmM":
        return cells
    texts = cells.astype("str")
    if decimal != ".":
        texts = texts.str.replace(decimal, ".", regex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # units that pandas will know no more: then missing
        for read in (pd.to_numeric, pd.to_timedelta):
            if pd.Series(read(texts.iloc[:1], errors="coerce")).notna().all():
                return pd.Series(read(texts, errors="coerce"))
        return pd.Series(pd.to_datetime(texts, errors="coerce", format="ISO8601"))
