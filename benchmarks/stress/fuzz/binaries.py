"""Recordings in binary files: NPZ, EDF and WFDB."""

from __future__ import annotations

import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stress.fuzz import junk
from benchmarks.stress.fuzz.choices import happens, mutate
from benchmarks.stress.fuzz.cohorts import check_cohort
from benchmarks.stress.fuzz.engine import OF_FILES
from percdl import Cohort
from percdl.exceptions import PerCDLError
from percdl.signals.extras import require


class Npz:
    """`Cohort.from_npz`."""

    name = "NPZ files"
    documented = (PerCDLError, *OF_FILES)

    def __init__(self, folder: Path) -> None:
        self._file = folder / "walk.npz"
        cohort = Cohort.from_arrays([[0.0, 1.0], [2.0]], sfreq=100, groups=["a", "b"])
        cohort.to_npz(self._file)
        self._cohort = self._file.read_bytes()

    def case(self, draws: random.Random) -> None:
        """Read an archive of odd entries, or one that was written well and then changed."""
        kind = draws.randrange(4)
        if kind == 0:
            content = self._cohort
        elif kind == 1:
            content = _described(draws)
        else:
            content = _archive(draws)
        for _ in range(draws.randrange(3)):
            content = mutate(content, draws, (b"PK\x01\x02", b"\xff" * 4, b"(9999999999,)", b"|O"))
        self._file.write_bytes(content)
        options: dict[str, Any] = {}
        if happens(draws, 0.3):
            options["sfreq"] = draws.choice((100, junk.number(draws)))
        if happens(draws, 0.1):
            options["values"] = junk.text(draws)
        if happens(draws, 0.1):
            options["channels"] = draws.choice(("x", ["x", "y"], [junk.text(draws)]))
        check_cohort(Cohort.from_npz(self._file, **options))


class Edf:
    """`Cohort.from_edf`."""

    name = "EDF files"
    documented = (PerCDLError, *OF_FILES)

    def __init__(self, folder: Path) -> None:
        self._file = folder / "night.edf"
        self._seeds = [_edf(n_signals, plus) for n_signals in (1, 2) for plus in (False, True)]

    def case(self, draws: random.Random) -> None:
        """Read a file that was written well, and then changed, mostly in its header."""
        content = draws.choice(self._seeds)
        for _ in range(draws.randrange(4)):
            content = (
                _change_field(content, draws) if happens(draws, 0.7) else mutate(content, draws)
            )
        self._file.write_bytes(content)
        options: dict[str, Any] = {"channels": ["ECG 0"]} if happens(draws, 0.3) else {}
        check_cohort(Cohort.from_edf(self._file, **options))


class Wfdb:
    """`Cohort.from_wfdb`."""

    name = "WFDB records"
    documented = (PerCDLError, *OF_FILES)
    _seeds = (
        "r 2 100 4\nr.dat 16 200/mV 12 0 0 0 0 I\nr.dat 16 200/mV 12 0 0 0 0 II\n",
        "r 1 100 8\nr.dat 16 200(0)/mV\n",
        "r 1 100 8\nr.dat 212 200\n# a comment\n",
        "r 1 100 4\nr.dat 16x2 200/mV\n",
        "r/2 1 100 16\ns 8\ns 8\n",
    )
    _words = (
        "212", "80", "8", "24", "310", "311", "516", "0", "-1", "99999999999", "1e9", "nan", "/",
        "x3", ":7", "+4", "~", "r", "s.dat", "../r.dat", "http://a/b", "a::b", "I", "#", "\n",
    )  # fmt: skip

    def __init__(self, folder: Path) -> None:
        self._file = folder / "r.hea"
        samples = np.arange(8, dtype="<i2").tobytes()
        for name in ("r.dat", "s.dat"):
            (folder / name).write_bytes(samples)
        (folder / "s.hea").write_text("s 1 100 8\ns.dat 16 200/mV 12 0 0 0 0 I\n")

    def case(self, draws: random.Random) -> None:
        """Read a record whose header was changed."""
        words = list[str](draws.choice(self._seeds).split(" "))
        for _ in range(draws.randrange(3)):
            words[draws.randrange(len(words))] = draws.choice((*self._words, junk.text(draws)))
        content = " ".join(words).encode("utf-8", "replace")
        if happens(draws, 0.4):
            content = mutate(content, draws)
        self._file.write_bytes(content)
        options: dict[str, Any] = {"channels": ["I"]} if happens(draws, 0.3) else {}
        check_cohort(Cohort.from_wfdb(self._file, **options))


def _archive(draws: random.Random) -> bytes:
    """Return an archive of one recording, whose entries may be odd."""
    entries: dict[str, Any] = {
        "values": np.full((4, draws.randint(1, 2)), 0.5),
        "sfreq": np.float64(100),
        "channels": np.array(["x"]),
        "units": np.array(["g"]),
        "processing": np.array(["z-score"]),
    }
    entries = {name: value for name, value in entries.items() if happens(draws, 0.7)}
    for _ in range(draws.randrange(3)):
        entries[draws.choice((*entries, "values", "percdl"))] = junk.array(draws)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", draws.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as z:
        for name, value in entries.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asanyarray(value), allow_pickle=True)
            z.writestr(f"{name}.npy", entry.getvalue())
    return file.getvalue()


def _described(draws: random.Random) -> bytes:
    """Return the archive of a cohort whose description is odd."""
    about: dict[str, Any] = {
        "sfreq": 100.0, "channels": ["ch0"], "units": [""], "subject": "0", "group": None,
    }  # fmt: skip
    for _ in range(draws.randrange(3)):
        about[draws.choice((*about, "values", junk.text(draws)))] = junk.json_value(draws)
    description: Any = {"schema": 1, "recordings": [about]}
    if happens(draws, 0.3):
        description[draws.choice(("schema", "recordings"))] = junk.json_value(draws)
    if happens(draws, 0.1):
        description = junk.json_value(draws)
    file = io.BytesIO()
    np.savez(file, percdl=np.array(json.dumps(description)), recording_0=junk.array(draws, (3, 1)))
    return file.getvalue()


def _edf(n_signals: int, plus: bool) -> bytes:
    edfio = require("edfio", "Reading EDF files")
    signals = [
        edfio.EdfSignal(
            np.linspace(-1, 1, 8), 4, label=f"ECG {i}", physical_dimension="mV",
            physical_range=(-1, 1),
        )
        for i in range(n_signals)
    ]  # fmt: skip
    notes = [edfio.EdfAnnotation(0.5, None, "start")] if plus else []
    return edfio.Edf(signals, annotations=notes).to_bytes()


def _change_field(content: bytes, draws: random.Random) -> bytes:
    """Write a number or a text over a field of the header of an EDF file."""
    start, width = draws.choice(
        ((0, 8), (8, 80), (168, 8), (176, 8), (184, 8), (192, 44), (236, 8), (244, 8), (252, 4))
    )
    if happens(draws, 0.6):  # of a signal: labels, units, ranges, samples
        n_signals = 1 + (len(content) - 256 > 600)
        before, width = draws.choice(((0, 16), (96, 8), (104, 8), (112, 8), (128, 8), (216, 8)))
        start = 256 + before * n_signals + width * draws.randrange(n_signals)
    value = str(draws.choice((junk.number(draws), junk.text(draws), "EDF Annotations", "EDF+D")))
    field = value.encode("ascii", "replace")[:width].ljust(width)
    return content[:start] + field + content[start + width :]
