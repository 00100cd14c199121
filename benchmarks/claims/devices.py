"""A GPU gives what a CPU gives: to rounding in double precision, nearly so in single.

Differences are shares of the largest magnitude; they are infinite if only one of two fits has a
parameter. In double precision the largest counts. In single precision rounding moves a few
subjects to another code or another minimum, on any device, so the median subject (or atom)
counts, and the number of subjects with other activations is reported. Rounding affects mostly the
parameters of warps and the residuals of cohorts without noise, so their limits are loose. By
default a GPU multiplies matrices of single precision with ten bits
(``JAX_DEFAULT_MATMUL_PRECISION=highest`` changes this).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import jax
import numpy as np

from benchmarks import Absent
from benchmarks.claims._claim import Claim
from benchmarks.device_fit import fit_all
from benchmarks.timing import say

KINDS = ("dictionary", "parameters", "amplitudes", "objective")
MOST_DOUBLE = (1e-9,) * 4
MOST_SINGLE = (0.05, 1, 0.02, 1)


def claims() -> Iterator[Claim]:
    """Fit the same cohorts here and, meanwhile, in a process without the accelerator."""
    if jax.default_backend() == "cpu":
        raise Absent("JAX finds no GPU here")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.npz"
        command = [sys.executable, "-m", "benchmarks.device_fit", str(path)]
        with subprocess.Popen(command, env={**os.environ, "JAX_PLATFORMS": "cpu"}) as on_cpu:
            say("on the accelerator and on the CPU")
            here = fit_all()
        if on_cpu.returncode:
            raise subprocess.CalledProcessError(on_cpu.returncode, command)
        with np.load(path) as there:
            yield from compare(here, there)


def compare(here: Mapping[str, np.ndarray], there: Mapping[str, np.ndarray]) -> Iterator[Claim]:
    """Say for each fit, of both precisions, how far all it has learned is from the other."""
    for name in dict.fromkeys(key.rpartition(": ")[0] for key in here):
        most = MOST_DOUBLE if "float64" in name else MOST_SINGLE
        across = np.max if "float64" in name else np.median
        pairs = [(here[f"{name}: {kind}"], there[f"{name}: {kind}"]) for kind in KINDS]
        gaps = [float(across(_differences(*pair))) for pair in pairs]
        ours, theirs = pairs[KINDS.index("amplitudes")]
        others = ((ours != 0) != (theirs != 0)).any(axis=(1, 2))
        yield Claim(
            f"{name}: difference of {', '.join(KINDS)}",
            f"<= {', '.join(f'{limit:g}' for limit in most)}",
            f"{', '.join(f'{gap:.2g}' for gap in gaps)} "
            f"({others.sum()} of {len(others)} subjects with other activations)",
            all(gap <= limit for gap, limit in zip(gaps, most, strict=True)),
        )


def _differences(here: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Return the largest difference of each subject or atom, which come first."""
    gaps = np.abs(here - there) / np.nanmax(np.abs(there))
    unknown = np.isnan(here), np.isnan(there)
    gaps = np.where(unknown[0] & unknown[1], 0, np.where(unknown[0] | unknown[1], np.inf, gaps))
    return gaps.reshape(len(gaps), -1).max(axis=1)
