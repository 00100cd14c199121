"""A GPU gives what a CPU gives: to rounding in double precision, nearly so in single."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_most, beside
from benchmarks.device_fit import fit_all
from benchmarks.timing import say

MOST_DOUBLE = 1e-9


def claims() -> Iterator[Claim]:
    """Fit the same cohorts here and in a process without the accelerator."""
    if jax.default_backend() == "cpu":
        raise Absent("JAX finds no GPU here")
    say("on the accelerator")
    here = fit_all()
    say("on the CPU")
    there = _fit_on_cpu()
    for name in here:
        if not name.endswith("dictionary"):
            continue
        distance = float(np.abs(here[name] - there[name]).max())
        counts = name.replace("dictionary", "counts")
        others = int((here[counts] != there[counts]).any(1).sum())
        detail = f"{others} of {len(here[counts])} subjects with other counts"
        title = f"{name}, largest difference"
        if "float64" in name:
            yield at_most(title, distance, MOST_DOUBLE, detail)
        else:
            yield beside(title, f"{distance:.2g} ({detail})")


def _fit_on_cpu() -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.npz"
        subprocess.run(
            [sys.executable, "-m", "benchmarks.device_fit", str(path)],
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            check=True,
        )
        with np.load(path) as found:
            return dict(found)
