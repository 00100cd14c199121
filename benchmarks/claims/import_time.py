"""Importing percdl is quick, JAX is not imported before a fit, and the command answers at once."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory

from benchmarks.claims._claim import Claim, at_most, beside, is_quick

BASE = "import pandas, sklearn.base"
PERCDL = "import percdl; from percdl import PerCDL"
MOST_SECONDS = 0.2
HELP = "import sys; sys.argv = ['percdl', '--help']; from percdl.cli import main; main()"
MOST_SECONDS_OF_HELP = 0.5
BEFORE_A_FIT = {
    "import of PerCDL": PERCDL,
    "import of PerCDL, TimeWarp and make_synthetic": (
        "from percdl import PerCDL, TimeWarp, make_synthetic"
    ),
    "README example before fit": (
        "from percdl import PerCDL, TimeWarp, make_synthetic; "
        "make_synthetic(n_subjects=16, random_state=0).cohort; "
        "PerCDL(2, 50, TimeWarp(depth=3, width=10), penalty=0.01, random_state=0)"
    ),
}


def claims() -> Iterator[Claim]:
    """Time fresh interpreters, with and without percdl in turn."""
    statements = {"base": BASE, "with": f"{BASE}; {PERCDL}", "help": HELP}
    times: dict[str, list[float]] = {name: [] for name in statements}
    with TemporaryDirectory() as folder:
        for index in range(4 if is_quick() else 12):
            for name, statement in statements.items():
                began = time.perf_counter()
                _output(statement, folder)
                if index:  # the first of each compiles the modules
                    times[name].append(time.perf_counter() - began)
        loaded = {
            name: _output(f"import sys; {statement}; print('jax' in sys.modules)", folder)
            for name, statement in BEFORE_A_FIT.items()
        }
    base, with_percdl = (statistics.median(times[name]) for name in ("base", "with"))
    yield at_most(
        "import of PerCDL beyond pandas and sklearn.base, seconds",
        with_percdl - base,
        MOST_SECONDS,
        f"median of {len(times['base'])}; {with_percdl:.2f} s against {base:.2f} s",
    )
    needs_jax = loaded.pop("import of PerCDL")
    yield Claim("import of PerCDL: JAX is imported", "False", needs_jax, needs_jax == "False")
    for name, answer in loaded.items():
        yield beside(f"{name}: JAX is imported", answer)
    # The least: whatever else the machine does only adds to it.
    yield at_most(
        "percdl --help, seconds",
        min(times["help"]),
        MOST_SECONDS_OF_HELP,
        f"least of {len(times['help'])}, interpreter included",
    )


def _output(statement: str, folder: str) -> str:
    """Run a statement in a fresh interpreter that keeps compiled modules in a folder."""
    modules = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [sys.executable, "-c", statement],
        env={**os.environ, **modules},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()
