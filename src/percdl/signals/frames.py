"""From a long DataFrame, one row per sample, to recordings."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import SupportsFloat

import numpy as np
import pandas as pd
from jaxtyping import Float

from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals.clock import first_gap, has_drifted, mean_rate, steps_of, warn_of_slow_clock
from percdl.signals.labels import as_label, as_names, check_hashable
from percdl.signals.recording import Recording, as_rate


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
    names = list(as_names(channels))
    scales = units if units is None or isinstance(units, str) else tuple(units)
    _check_columns(
        frame, names, [subject, *names, *(name for name in (time, group) if name is not None)]
    )
    single = all(frame[name].dtype == np.float32 for name in names)
    recordings = []
    # By the column itself: its name may be that of the index, too.
    for key, rows in frame.groupby(pd.Series(frame[subject]), sort=False, observed=True):
        label = as_label(key, "subject", f"Column {subject!r}")
        rate = 1.0 if sfreq is None else as_rate(sfreq, f"Subject {label!r}")
        if time is not None:
            rows, seconds = _in_time_order(rows, time, label)
            if sfreq is not None:
                rate = _agree(seconds, rate, label)
            else:
                rate = _rate(seconds, label)
                if frame[time].dtype.kind not in "mM":  # dates and durations say their unit
                    warn_of_slow_clock(time, rate)
        values = rows[names].to_numpy(np.float32 if single else np.float64, na_value=np.nan)
        recordings.append(
            Recording(
                values,
                sfreq=rate,
                channels=names,
                units=scales,
                subject=label,
                group=None if group is None else _only_value(pd.Series(rows[group]), label),
            )
        )
    return recordings


def _check_columns(frame: pd.DataFrame, channels: list[str], needed: list[str]) -> None:
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()].unique().tolist()
        raise InvalidParameterError(
            f"The frame has several columns named {twice}. Rename them: a column is read by name."
        )
    columns = [str(column) for column in frame.columns]
    for name in needed:
        if name not in frame.columns:
            near = get_close_matches(name, columns, n=3) or columns
            raise InvalidParameterError(
                f"The frame has no column {name!r}. Near or known columns: {near}."
            )
    for name in channels:
        if frame[name].dtype.kind not in "biuf":
            raise InvalidRecordingError(
                f"Column {name!r} has dtype {frame[name].dtype}, but a channel holds real "
                "numbers. Convert it, e.g. with pandas.to_numeric."
            )
    for name in needed:
        check_hashable(pd.Series(frame[name]))
    unnamed = int(frame[needed[0]].isna().to_numpy().sum())
    if unnamed:
        raise InvalidRecordingError(
            f"Column {needed[0]!r} is empty in {unnamed} row(s). Every sample needs its subject; "
            "fill those rows or drop them."
        )


def _only_value(column: pd.Series, subject: str) -> str | None:
    """Return the group of a subject, the same in all its rows."""
    values = column.dropna().unique()
    if len(values) > 1:
        raise InvalidRecordingError(
            f"Subject {subject!r} is in several groups: {list(values)}. "
            "A recording has one group; give each trial its own subject id."
        )
    if len(values) == 0:
        return None
    return as_label(values[0], "group", f"Subject {subject!r}")


def _in_time_order(
    rows: pd.DataFrame, time: str, subject: str
) -> tuple[pd.DataFrame, Float[np.ndarray, " n_times"]]:
    """Sort the rows of one subject by time, and return their times in seconds."""
    seconds = _seconds(pd.Series(rows[time]), subject)
    if np.isnan(seconds).any():
        raise InvalidRecordingError(
            f"Subject {subject!r}: time column {time!r} has missing entries. "
            "Fill them, or drop those rows."
        )
    order = np.argsort(seconds, kind="stable")
    seconds = seconds[order]
    still = steps_of(seconds) == 0
    if still.any():
        raise InvalidRecordingError(
            f"Subject {subject!r} has two rows at time {seconds[1:][still][0]:g}. "
            "Give each trial its own subject id, or drop the repeated rows."
        )
    return rows.iloc[order], seconds


def _seconds(column: pd.Series, subject: str) -> Float[np.ndarray, " n_times"]:
    kind = column.dtype.kind
    if kind == "M":
        return (column - column.min()).dt.total_seconds().to_numpy()
    if kind == "m":
        return column.dt.total_seconds().to_numpy()
    if kind in "iuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    raise InvalidRecordingError(
        f"Subject {subject!r}: time column {column.name!r} has dtype {column.dtype}. "
        "Pass seconds, or convert it with pandas.to_datetime."
    )


def _rate(seconds: Float[np.ndarray, " n_times"], subject: str) -> float:
    """Return the sampling rate of a uniform time column."""
    steps = steps_of(seconds)
    if steps.size == 0:
        raise InvalidRecordingError(
            f"Subject {subject!r} has one sample, so its sampling rate cannot be read from time. "
            "Pass sfreq, or drop that subject."
        )
    if first_gap(seconds) is not None:
        raise InvalidRecordingError(
            f"Subject {subject!r}: time is not uniform, steps range from {steps.min():g} to "
            f"{steps.max():g} s. Resample, insert rows of NaN where samples were lost, or pass "
            "sfreq if the times are only rounded."
        )
    return mean_rate(seconds)


def _agree(seconds: Float[np.ndarray, " n_times"], sfreq: float, subject: str) -> float:
    """Check that consecutive rows are about one sampling period apart."""
    at = first_gap(seconds, sfreq)
    if at is not None:
        apart = float(seconds[at + 1]) - float(seconds[at])
        raise InvalidRecordingError(
            f"Subject {subject!r}: rows {at} and {at + 1} are {apart:g} s "
            f"apart, but sfreq={sfreq:g} means {1 / sfreq:g} s. Insert rows of NaN where samples "
            "were lost, give time in seconds, or leave time out to take the rows as they come."
        )
    if has_drifted(seconds, sfreq):
        raise InvalidRecordingError(
            f"Subject {subject!r}: {len(seconds)} rows span {seconds[-1] - seconds[0]:g} s, which "
            f"is {mean_rate(seconds):g} Hz, but sfreq={sfreq:g}. Leave sfreq out to read it from "
            "time, or leave time out to take the rows as they come."
        )
    return sfreq
