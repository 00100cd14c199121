"""Malformed files are refused: the message names file and line or record, nothing is loaded."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.claims._claim import Claim, skipped
from percdl import Cohort
from percdl.exceptions import MissingPackageError, PerCDLError

GOOD = "t,RRX,RRY\n0.00,1,2\n0.01,3,4\n0.02,5,6\n"
LONG = "subject,t,RRY\n" + "".join(f"{s},{t},1\n" for s in "AB" for t in (0.0, 0.01, 0.02))


class Case(NamedTuple):
    """Files to be refused, and what the message must contain."""

    name: str
    write: Callable[[Path], Any]
    read: Callable[[Path], Cohort]
    words: tuple[str, ...]


def claims() -> Iterator[Claim]:
    """Write every malformed file beside a good one, read both, and look at the message."""
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of packages that write files
            try:
                case.write(Path(folder))
                outcome, refused = _outcome(case, Path(folder))
            except (ImportError, MissingPackageError) as absent:
                yield skipped(case.name, absent)
                continue
        holds = refused and all(word in outcome for word in case.words)
        target = f"refused whole, with {', '.join(map(repr, case.words))}"
        yield Claim(case.name, target, outcome, holds)


def _outcome(case: Case, folder: Path) -> tuple[str, bool]:
    """Return the message and whether nothing was loaded."""
    try:
        cohort = case.read(folder)
    except MissingPackageError:
        raise
    except PerCDLError as refusal:
        return " ".join(str(refusal).replace(str(folder), "").split()), True
    except Exception as error:
        return f"{type(error).__name__}: {error}", False
    return f"{len(cohort)} recording(s) loaded", False


def _texts(**contents: str | bytes) -> Callable[[Path], None]:
    """Return what writes these texts, as CSV files of these names."""

    def write(folder: Path) -> None:
        for name, content in contents.items():
            raw = content if isinstance(content, bytes) else content.encode()
            (folder / f"{name}.csv").write_bytes(raw)

    return write


def _csv(name: str, text: str | bytes, *words: str, **options: Any) -> Case:
    """Return the case of a file B.csv beside a good A.csv."""
    chosen = {"channels": ["RRY"], "sfreq": 100, **options}
    return Case(
        f"CSV, {name}",
        _texts(A=GOOD, B=text),
        lambda folder: Cohort.from_csv(folder / "*.csv", **chosen),
        ("B.csv", *words),
    )


def _write_edf(
    folder: Path, n_bytes: int | None = None, rates: tuple[int, int] = (50, 50)
) -> None:
    import edfio

    for name in ("A", "B"):
        x = np.random.default_rng(0).standard_normal
        signals = [
            edfio.EdfSignal(x(3 * rate), rate, label=f"x{i}") for i, rate in enumerate(rates)
        ]
        edfio.Edf(signals).write(folder / f"{name}.edf")
    (folder / "B.edf").write_bytes((folder / "B.edf").read_bytes()[:n_bytes])


def _write_wfdb(folder: Path, n_bytes: int | None = None, fmt: str = "16") -> None:
    import wfdb

    for name in ("A", "B"):
        signals = np.random.default_rng(0).standard_normal((200, 2))
        wfdb.wrsamp(
            name, 100, ["mV"] * 2, ["I", "II"], signals, fmt=[fmt] * 2, write_dir=str(folder)
        )
    samples = folder / "B.dat"
    samples.write_bytes(samples.read_bytes()[:n_bytes])


def _without_samples(folder: Path) -> None:
    _write_wfdb(folder)
    (folder / "B.dat").unlink()


def _write_npz(folder: Path) -> None:
    Cohort.from_arrays(np.ones((2, 50)), sfreq=100).to_npz(folder / "B.npz")
    (folder / "B.npz").write_bytes((folder / "B.npz").read_bytes()[:-30])


def _write_parquet(folder: Path) -> None:
    pd.DataFrame({"RRY": ["1", "two"]}).to_parquet(folder / "B.parquet")


def _write_twice(folder: Path) -> None:
    (folder / "day2").mkdir()
    _texts(A=GOOD)(folder)
    _texts(A=GOOD)(folder / "day2")


CASES = (
    _csv("missing column", GOOD.replace("RRY", "RRZ"), "line 1", "'RRY'", "'RRZ'"),
    _csv("wrong delimiter", GOOD.replace(",", ";"), "line 1", "delimiter=';'"),
    _csv("short row", GOOD.replace("0.01,3,4", "0.01,3"), "line 3", "2 cell"),
    _csv("long row", GOOD.replace("0.02,5,6", "0.02,5,6,7"), "line 4", "4 cell"),
    _csv("quoted break", 'n,RRY\n"a\nb",1\nc\n', "line 2", "quotation"),
    _csv("non-numeric cell", GOOD.replace("4", "four"), "line 3", "'four'", "'RRY'"),
    _csv("decimal comma", 'RRX,RRY\n1,"2,5"\n', "line 2", "decimal=','"),
    _csv("infinite cell", GOOD.replace("4", "inf"), "line 3", "infinite"),
    _csv("blank line", GOOD.replace("0.02", "\n0.02"), "line 4", "blank"),
    _csv("empty file", "", "empty"),
    _csv("header only", "RRY\n", "no row"),
    _csv("open quotation mark", 'RRX,RRY\n1,"2\n', "line 2", "quotation"),
    _csv("another encoding", "RRY,Größe\n1,2\n".encode("latin-1"), "line 1", "encoding="),
    _csv("clock gap", GOOD.replace("0.02", "0.05"), "line 4", "from 0.01 to 0.05", time="t"),
    _csv("clock going back", GOOD.replace("0.02", "0.00"), "line 4", "goes back", time="t"),
    _csv(
        "other channels than before", GOOD.replace("RRX", "RRZ"), "'RRZ'", "A.csv",
        channels=None, time="t",
    ),
    Case(
        "CSV, clock gap within one subject of a long table",
        _texts(B=LONG.replace("B,0.02", "B,0.03")),
        lambda folder: Cohort.from_csv(
            folder / "B.csv", channels="RRY", subject="subject", time="t", sfreq=100
        ),
        ("B.csv", "line 7", "from 0.01 to 0.03"),
    ),
    Case(
        "duplicate subject ids",
        _write_twice,
        lambda folder: Cohort.from_csv(folder / "**" / "*.csv", channels="RRY", sfreq=100),
        ("day2/A.csv", "'A'", "read before"),
    ),
    Case(
        "duplicate subject ids in the metadata table",
        _texts(A=GOOD, B=GOOD, who="subject\nA\nB\nA\n"),
        lambda folder: Cohort.from_csv(
            folder / "[AB].csv", channels="RRY", sfreq=100, metadata=folder / "who.csv"
        ),
        ("who.csv", "line 4", "'A'", "line 2"),
    ),
    Case(
        "subjects missing from the metadata table",
        _texts(A=GOOD, B=GOOD, who="subject\nA\nC\n"),
        lambda folder: Cohort.from_csv(
            folder / "[AB].csv", channels="RRY", sfreq=100, metadata=folder / "who.csv"
        ),
        ("who.csv", "'B'", "'C'"),
    ),
    Case(
        "Parquet, non-numeric cell",
        _write_parquet,
        lambda folder: Cohort.from_parquet(folder / "B.parquet", sfreq=100),
        ("B.parquet", "row 2", "'two'"),
    ),
    Case("NPZ, truncated", _write_npz, lambda folder: Cohort.from_npz(folder), ("B.npz",)),
    Case(
        "EDF, truncated within a record",
        lambda folder: _write_edf(folder, -20),
        lambda folder: Cohort.from_edf(folder),
        ("B.edf", "data record 3", "cut short"),
    ),
    Case(
        "EDF, truncated within the header",
        lambda folder: _write_edf(folder, 200),
        lambda folder: Cohort.from_edf(folder),
        ("B.edf", "header"),
    ),
    Case(
        "EDF, several sampling rates",
        lambda folder: _write_edf(folder, rates=(50, 20)),
        lambda folder: Cohort.from_edf(folder),
        ("A.edf", "x0 50 Hz", "x1 20 Hz"),
    ),
    Case(
        "WFDB, truncated",
        lambda folder: _write_wfdb(folder, -3),
        lambda folder: Cohort.from_wfdb(folder),
        ("B.hea", "200 samples", "B.dat has 797 bytes"),
    ),
    Case(
        "WFDB, truncated, samples of 12 bits",
        lambda folder: _write_wfdb(folder, -3, fmt="212"),
        lambda folder: Cohort.from_wfdb(folder),
        ("B.hea", "200 samples", "B.dat has 597 bytes"),
    ),
    Case(
        "WFDB, no file of samples",
        _without_samples,
        lambda folder: Cohort.from_wfdb(folder),
        ("B.hea", "'B.dat'"),
    ),
)  # fmt: skip
