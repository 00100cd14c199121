"""Importing percdl costs next to nothing, does not load JAX, and the command answers at once."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.claims._claim import Claim, at_most, beside, is_quick

BASE, WITH, USED = "import numpy, pandas", ", percdl", "; from percdl import PerCDL"
MOST_SECONDS = 0.3
HELP = "import sys; sys.argv = ['percdl', '--help']; from percdl.cli import main; main()"
MOST_SECONDS_OF_HELP = 0.5


def claims() -> Iterator[Claim]:
    """Time fresh interpreters, with and without percdl in turn."""
    statements = {"base": BASE, "with": BASE + WITH, "used": BASE + USED, "help": HELP}
    times: dict[str, list[float]] = {name: [] for name in statements}
    for index in range(4 if is_quick() else 12):
        for name, statement in statements.items():
            seconds = _run(statement)
            if index:  # the first of each fills the caches of the file system
                times[name].append(seconds)
    base, with_percdl, used, _ = (statistics.median(times[name]) for name in statements)
    yield at_most(
        "import percdl beyond numpy and pandas, seconds",
        with_percdl - base,
        MOST_SECONDS,
        f"median of {len(times['base'])}; {with_percdl:.2f} s against {base:.2f} s",
    )
    loaded = _output("import sys, percdl; print('jax' in sys.modules)")
    yield Claim("import percdl does not import JAX", "False", loaded, loaded == "False")
    # The least: whatever else the machine does only adds to it.
    yield at_most(
        "percdl --help, seconds",
        min(times["help"]),
        MOST_SECONDS_OF_HELP,
        f"least of {len(times['help'])}, interpreter included",
    )
    yield beside("first use of PerCDL beyond numpy and pandas, seconds", f"{used - base:.2f}")


def _run(statement: str) -> float:
    began = time.perf_counter()
    _output(statement)
    return time.perf_counter() - began


def _output(statement: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", statement], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
