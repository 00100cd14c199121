"""Cohorts made of arrays and frames."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.stress.fuzz import junk
from benchmarks.stress.fuzz.choices import happens
from benchmarks.stress.fuzz.engine import WrongResultError
from percdl import Cohort
from percdl.exceptions import PerCDLError
from percdl.signals import as_cohort


def check_cohort(cohort: Cohort) -> None:
    """Raise where a cohort is not what its documentation says."""
    for recording in cohort:
        values = recording.values
        good = values.ndim == 2 and values.size and values.dtype in (np.float32, np.float64)
        if not good or np.isinf(values).any() or values.flags.writeable:
            raise WrongResultError(f"values of {recording.subject!r}: {values!r}")
        if not (0 < recording.sfreq < float("inf")):
            raise WrongResultError(f"sfreq={recording.sfreq!r}")
        if len(recording.channels) != values.shape[1] or recording.channels != cohort.channels:
            raise WrongResultError(f"channels={recording.channels!r}")
    names = (*cohort.subjects, *cohort.channels, *cohort.units)
    if not all(type(name) is str for name in names) or "" in cohort.subjects:
        raise WrongResultError(f"names {names!r}")
    if len(set(cohort.subjects)) != len(cohort) or len(set(cohort.channels)) != cohort.n_channels:
        raise WrongResultError("ids are not unique")
    if cohort.n_masks not in (0, 1, cohort.n_channels) or not repr(cohort):
        raise WrongResultError(f"n_masks={cohort.n_masks}")
    if Cohort(list(cohort)) != cohort or cohort[cohort.subjects[-1]] != cohort[-1]:
        raise WrongResultError("a copy differs")
    _ = cohort.power, cohort.flat, cohort.empty


class FromArrays:
    """`Cohort.from_arrays` and `as_cohort`."""

    name = "cohort from arrays"
    documented = (PerCDLError,)

    def __init__(self, folder: Path) -> None:
        self._file = folder / "cohort.npz"

    def case(self, draws: random.Random) -> None:
        """Make a cohort of something, described somehow."""
        signals, count = _signals(draws)
        described = _description(draws, count)
        make = as_cohort if happens(draws, 0.3) else Cohort.from_arrays
        cohort = make(signals, **described)
        check_cohort(cohort)
        if happens(draws, 0.05):
            cohort.to_npz(self._file)
            if Cohort.from_npz(self._file) != cohort:
                raise WrongResultError("another cohort is read than was written")


class FromFrame:
    """`Cohort.from_frame`."""

    name = "cohort from a frame"
    documented = (PerCDLError,)

    def __init__(self, folder: Path) -> None:
        pass

    def case(self, draws: random.Random) -> None:
        """Make a cohort of a frame, some of whose columns are odd."""
        try:
            frame = _frame(draws)
        except UnicodeEncodeError:
            return  # pandas itself takes no surrogates: there is no such frame
        named: dict[str, Any] = {"subject": "id", "channels": ["x", "y"][: draws.randint(1, 2)]}
        if happens(draws, 0.6):
            named["time"] = "t"
        if happens(draws, 0.4):
            named["sfreq"] = draws.choice((100, 100.0, junk.number(draws)))
        if happens(draws, 0.3):
            named["group"] = "group"
        if happens(draws, 0.1):
            named["units"] = draws.choice(("g", ["g", "g"], ["g"]))
        if happens(draws, 0.1):
            named[draws.choice(("subject", "time", "group", "channels"))] = junk.text(draws)
        check_cohort(Cohort.from_frame(frame, **named))


def _signals(draws: random.Random) -> tuple[Any, int]:
    """Return what stands for signals, and how many recordings it may be."""
    kind, count = draws.randrange(8), draws.randint(1, 3)
    shape = draws.randint(1, 6), draws.randint(1, 2)
    if kind < 3:  # mostly good ones
        arrays: list[Any] = [np.full((n, shape[1]), 0.5) for n in range(1, count + 1)]
        if happens(draws, 0.6):
            arrays[draws.randrange(count)] = junk.array(draws, shape)
        if happens(draws, 0.1):
            arrays[draws.randrange(count)] = junk.anything(draws)
        return arrays, count
    if kind == 3:
        return junk.array(draws, (count, *shape)), count
    if kind == 4:
        return junk.array(draws), count
    if kind == 5:
        return [[junk.number(draws) for _ in range(shape[0])] for _ in range(count)], count
    if kind == 6:
        wrap: Any = draws.choice((tuple, iter, pd.Series, pd.DataFrame))
        return wrap([[0.0, 1.0]]), 1
    return junk.anything(draws), count


def _description(draws: random.Random, count: int) -> dict[str, Any]:
    """Return arguments: left out, good ones, odd ones."""
    good: dict[str, Any] = {
        "sfreq": 100.0,
        "subjects": [f"P{i}" for i in range(count)],
        "groups": ["a"] * count,
        "channels": ["x", "y"][: draws.randint(1, 2)],
        "units": "g",
    }
    described = {name: value for name, value in good.items() if happens(draws, 0.3)}
    if happens(draws, 0.3):
        described["sfreq"] = draws.choice((junk.number(draws), [junk.number(draws)] * count))
    if happens(draws, 0.3):
        described["subjects"] = [junk.anything(draws) for _ in range(count)]
    if happens(draws, 0.15):
        described[draws.choice(tuple(good))] = junk.anything(draws)
    return described


def _frame(draws: random.Random) -> pd.DataFrame:
    n_rows = draws.randint(1, 8)
    halves = ["a"] * (n_rows // 2) + ["b"] * (n_rows - n_rows // 2)
    columns: dict[str, Any] = {
        "id": halves,
        "t": [halves[:i].count(half) / 100 for i, half in enumerate(halves)],
        "x": [float(i) for i in range(n_rows)],
        "y": [0.25] * n_rows,
        "group": ["g"] * n_rows,
    }
    for name in list(columns):
        if happens(draws, 0.25):
            columns[name] = _odd_column(draws, n_rows)
    frame: Any = pd.DataFrame(columns)
    if happens(draws, 0.1):
        frame = frame[draws.sample(list(columns), draws.randrange(6))]
    if happens(draws, 0.05):
        frame.columns = [draws.choice(("x", 0, None, "id")) for _ in frame.columns]
    if happens(draws, 0.1):
        frame.index = pd.Index([0] * len(frame), name=draws.choice((None, "id", "t")))
    return frame


def _odd_column(draws: random.Random, n_rows: int) -> Any:
    kind = draws.randrange(10)
    if kind == 0:
        return [junk.anything(draws) for _ in range(n_rows)]
    if kind == 1:
        return pd.array([draws.choice((1, 2, None)) for _ in range(n_rows)], dtype="Int64")
    if kind == 2:
        return pd.Categorical([draws.choice("ab") for _ in range(n_rows)], categories=list("abc"))
    if kind == 3:
        start = draws.choice(("1677-09-22", "2024-01-01", "2262-04-11"))
        zone = draws.choice((None, "UTC"))
        return pd.date_range(start, periods=n_rows, freq=draws.choice(("10ms", "1s")), tz=zone)
    if kind == 4:
        return pd.to_timedelta(range(n_rows), unit=draws.choice(("s", "ms", "D")))
    if kind == 5:
        return pd.array([draws.choice(junk.NAMES) for _ in range(n_rows)], dtype="string")
    if kind == 6:
        return [draws.choice(junk.NUMBERS[:20]) for _ in range(n_rows)]
    if kind == 7:
        return [draws.choice((1e308, -1e308, 5e-324, 0.0, 1e-300)) for _ in range(n_rows)]
    if kind == 8:
        return pd.arrays.SparseArray([0.0] * n_rows)
    return np.arange(n_rows, dtype=draws.choice(("f4", "u1", "i8", "f8")))
