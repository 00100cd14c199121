"""Tables of samples and of subjects: CSV and Parquet files."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.stress.fuzz import junk
from benchmarks.stress.fuzz.choices import happens, mutate
from benchmarks.stress.fuzz.cohorts import check_cohort
from benchmarks.stress.fuzz.engine import OF_FILES
from percdl import Cohort
from percdl.exceptions import PerCDLError

TOKENS = (
    *(text.encode("utf-8", "replace") for text in junk.TEXTS),
    b"\xff\xfe", b"\xef\xbb\xbf", b"\r\n", b'"', b'""', b"\n\n", b";", b"\x80", b"PK\x03\x04",
)  # fmt: skip


class Csv:
    """`Cohort.from_csv`."""

    name = "CSV files"
    documented = (PerCDLError, *OF_FILES)

    def __init__(self, folder: Path) -> None:
        self._file = folder / "walk.csv"

    def case(self, draws: random.Random) -> None:
        """Read a table that was written well, and then changed."""
        delimiter = draws.choice((",", ",", ";", "\t"))
        content = _table(draws, delimiter).encode("utf-8", "replace")
        for _ in range(draws.randrange(4)):
            content = mutate(content, draws, TOKENS)
        self._file.write_bytes(content)
        options = _options(draws)
        if delimiter != "," or happens(draws, 0.05):
            options["delimiter"] = draws.choice((delimiter, delimiter, junk.text(draws)))
        _add_text_options(draws, options)
        check_cohort(Cohort.from_csv(self._file, **options))


class MetadataTable:
    """The table of subjects, beside recordings that are good."""

    name = "metadata tables"
    documented = (PerCDLError, *OF_FILES)

    def __init__(self, folder: Path) -> None:
        self._table = folder / "people.csv"
        self._files = [folder / f"P{i}.npz" for i in range(2)]
        for file in self._files:
            np.savez(file, values=np.arange(4.0), sfreq=100.0)

    def case(self, draws: random.Random) -> None:
        """Read two recordings with a table that was changed."""
        named: dict[str, Any] = {x: junk.text(draws) for x in ("metadata_subject", "group")}
        named = {name: text for name, text in named.items() if happens(draws, 0.2)}
        table: Any = self._table
        rows = [f"P{i},{draws.choice('ab')},{draws.randrange(99)}" for i in range(2)]
        content = "\n".join([draws.choice(("subject,group,age", "participant_id,sex,age")), *rows])
        if happens(draws, 0.3):
            try:
                table = _odd_table(draws)
            except UnicodeEncodeError:
                return  # pandas itself takes no surrogates: there is no such table
        else:
            raw = content.encode()
            for _ in range(draws.randrange(3)):
                raw = mutate(raw, draws, TOKENS)
            self._table.write_bytes(raw)
        check_cohort(Cohort.from_npz(self._files, metadata=table, **named))


class Parquet:
    """`Cohort.from_parquet`."""

    name = "Parquet files"
    documented = (PerCDLError, *OF_FILES)

    def __init__(self, folder: Path) -> None:
        self._file = folder / "walk.parquet"
        self._seeds = [_parquet(frame, way) for frame in _frames() for way in ("snappy", "none")]

    def case(self, draws: random.Random) -> None:
        """Read a file that was written well, and then changed."""
        content = draws.choice(self._seeds)
        for _ in range(draws.randrange(4)):
            content = mutate(content, draws, (b"PAR1", b"\xff\xff\xff\x7f", b"\x00", b"ARROW"))
        self._file.write_bytes(content)
        check_cohort(Cohort.from_parquet(self._file, **_options(draws)))


def _table(draws: random.Random, delimiter: str) -> str:
    """Return a table with columns t, x, y, id and group, some cells of which are odd."""
    names = ["t", "x", "y", "id", "group"][: draws.randint(2, 5)]
    clock = draws.randrange(4)
    lines = [delimiter.join(names)]
    for row in range(draws.randrange(7)):
        cells = [_time(row, clock), str(row / 2), "0.25", "ab"[row // 3], "g"]
        if happens(draws, 0.1):
            cells[draws.randrange(len(names))] = junk.text(draws)
        lines.append(delimiter.join(cells[: len(names)]))
    return draws.choice(("\n", "\n", "\r\n", "\r")).join(lines)


def _time(row: int, clock: int) -> str:
    return (
        f"{row / 100}",
        f"{10 * row}",
        f"00:00:0{row}.5",
        f"2024-03-04T10:00:0{row}",
    )[clock]


def _options(draws: random.Random) -> dict[str, Any]:
    """Return arguments of the readers of tables, most of which make sense."""
    options: dict[str, Any] = {"sfreq": 100.0} if happens(draws, 0.5) else {"time": "t"}
    if happens(draws, 0.1):
        options["time"] = draws.choice(("t", "x", "id", junk.text(draws)))
    if happens(draws, 0.1):
        options["sfreq"] = junk.number(draws)
    if happens(draws, 0.6):
        options["channels"] = draws.choice(("x", ["x"], ["x", "y"], {"x": "a"}, ["t"]))
    if happens(draws, 0.4):
        options["subject"] = draws.choice(("id", "id", "x", junk.text(draws)))
    if happens(draws, 0.3):
        options["group"] = draws.choice(("group", "t", junk.text(draws)))
    if happens(draws, 0.1):
        options["units"] = draws.choice(("g", ["g"], ["g", "m"]))
    return options


def _add_text_options(draws: random.Random, options: dict[str, Any]) -> None:
    if happens(draws, 0.1):
        options["decimal"] = draws.choice((",", ".", junk.text(draws)))
    if happens(draws, 0.1):
        encodings = ("latin-1", "utf-16", "ascii", "utf-8", "no such", "rot13", "idna", "utf-7")
        options["encoding"] = draws.choice((*encodings, junk.text(draws)))
    if happens(draws, 0.1):
        options["skip_lines"] = draws.choice((0, 1, 2, 9, -1))
    if happens(draws, 0.1):
        options["header"] = False
        options["channels"] = draws.choice((None, ["1"], ["0", "1"]))


def _odd_table(draws: random.Random) -> pd.DataFrame:
    columns = {
        draws.choice(("subject", "group", "id", 0)): [junk.anything(draws), junk.anything(draws)]
        for _ in range(draws.randint(1, 2))
    }
    if happens(draws, 0.5):
        columns["subject"] = ["P0", "P1"]
    return pd.DataFrame(columns)


def _frames() -> list[pd.DataFrame]:
    """Return tables of all kinds of columns that Parquet knows."""
    n = 6
    good = pd.DataFrame({"t": np.arange(n) / 100, "x": np.arange(n) / 2, "y": 0.25, "id": "a"})
    return [
        good,
        good.assign(x=good.x.astype("f4"), y=[1, 0] * 3, id=[1, 1, 1, 2, 2, 2]),
        good.assign(t=pd.date_range("2024", periods=n, freq="10ms"), group="g"),
        good.assign(t=pd.to_timedelta(10 * np.arange(n), unit="ms"), x=[None, 1, 2, 3, 4, 5]),
        good.assign(x=["1", "2", "a", "4", "", "nan"], id=pd.Categorical(list("aabbcc"))),
        good.assign(x=[[1.0]] * n, y=[{"a": 1}] * n, id=[b"a"] * n, group=[True, None] * 3),
        good.set_index("id"),
        good.iloc[:0],
        good.assign(t=[True, False] * 3, x=pd.array([1, None] * 3, dtype="Int64")),
    ]


def _parquet(frame: pd.DataFrame, compression: str) -> bytes:
    file = io.BytesIO()
    frame.to_parquet(file, compression=None if compression == "none" else compression)  # pyright: ignore
    return file.getvalue()
