"""The tests of ``make test`` take few minutes of processor time, also with nothing compiled."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.probe import empty_caches

MOST_MINUTES = 20
ONE_FILE = "TESTS=tests/steps/test_ridge.py"


def claims() -> Iterator[Claim]:
    """Run the tests with an empty cache and add up the time of all processes."""
    command = ["make", f"VENV={sys.prefix}", "test", *([ONE_FILE] if is_quick() else [])]
    before = _seconds_of_children()
    with TemporaryDirectory() as folder:
        environment = {**os.environ, **empty_caches(Path(folder))}
        done = subprocess.run(command, env=environment, stdout=sys.stderr, check=False)
    minutes = (_seconds_of_children() - before) / 60
    status = done.returncode
    yield Claim("the tests pass", "exit status 0", f"exit status {status}", status == 0)
    name = "make test from an empty cache, minutes of processor time"
    if is_quick():
        yield beside(name, f"{minutes:.2f}, one file of tests only")
    else:
        yield at_most(name, minutes, MOST_MINUTES)


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
