"""The tests of ``make test`` run nearly every line of the library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from coverage import Coverage

from benchmarks.claims._claim import Claim, at_least, beside, is_quick

SUITE = ("-n", "auto", "--dist", "loadfile", "-m", "not slow")
ONE_FILE = ("tests/steps/test_ridge.py",)
N_WORST = 10


def claims() -> Iterator[Claim]:
    """Run the tests under coverage, child processes included, and count the lines."""
    with TemporaryDirectory() as folder:
        status = _coverage(Path(folder), "run", "-m", "pytest", *_tests())
        yield Claim("the tests pass", "exit status 0", f"exit status {status}", status == 0)
        _coverage(Path(folder), "combine", "--quiet")
        table = Path(folder) / "coverage.json"
        # Copies of the sources that a test has made and changed are gone, and not what is counted.
        options = ("--quiet", "--ignore-errors", "--fail-under=0")
        _coverage(Path(folder), "json", *options, "-o", str(table))
        measured = json.loads(table.read_text())
    yield _total(measured["totals"])
    for path, summary in _worst(measured["files"]):
        missing = f"{summary['missing_lines']} of {summary['num_statements']} lines not run"
        yield beside(path, f"{summary['percent_covered']:.1f} % ({missing})")


def _tests() -> tuple[str, ...]:
    return ONE_FILE if is_quick() else SUITE


def _coverage(folder: Path, *arguments: str) -> int:
    """Run a command of coverage that keeps its data in a folder; return the exit status."""
    environment = {**os.environ, "COVERAGE_FILE": str(folder / "data")}
    command = [sys.executable, "-m", "coverage", *arguments]
    return subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode


def _total(totals: dict[str, float]) -> Claim:
    name = "lines of src/percdl that the tests run, percent"
    percent = totals["percent_covered"]
    detail = f"{totals['covered_lines']} of {totals['num_statements']}"
    if is_quick():
        return beside(name, f"{percent:.1f} ({detail}), one file of tests only")
    least = Coverage().get_option("report:fail_under")
    assert isinstance(least, int | float)
    return at_least(name, percent, least, detail)


def _worst(files: dict[str, dict]) -> list[tuple[str, dict]]:
    """Return the files with most lines that no test runs, worst first."""
    summaries = [(path, file["summary"]) for path, file in files.items()]
    summaries.sort(key=lambda pair: -pair[1]["missing_lines"])
    return summaries[:N_WORST]
