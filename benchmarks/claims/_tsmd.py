"""The scorer and the methods of the package tsmd (PVLDB 2025), for the claims about kinds."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import Absent, motifs
from benchmarks.claims.detectors import PYTHON

OVERLAP = 0.5


def scorer() -> Any:
    """Return the event score of tsmd; raise `Absent` if the package is missing."""
    try:
        from tsmd.tools.metric import EventScore
    except ImportError as error:
        raise Absent("tsmd is not installed: pip install tsmd") from error
    return EventScore()


def event_f1(truth: np.ndarray, found: np.ndarray) -> float:
    """Return the event F1 at overlap 0.5, a mean over the true motifs, best matching."""
    found = np.asarray(found, float)
    found = found[found.any(1)]
    return float(scorer().score(truth, found, OVERLAP)[2]) if len(found) else 0.0


def draw_mask(
    kind: np.ndarray, starts: np.ndarray, ends: np.ndarray, n_samples: int
) -> np.ndarray:
    """Return a mask for each kind. Events that touch would be one to the scorer."""
    mask = np.zeros((int(kind.max(initial=0)) + 1, n_samples))
    for k, start, end in zip(kind, starts, ends, strict=True):
        mask[k, max(start, 0) : max(end - 1, 0)] = 1
    return mask


def run_methods(
    signals: Sequence[np.ndarray], arguments: Sequence[dict[str, Any]], names: Sequence[str]
) -> tuple[dict[str, list[np.ndarray]], dict[str, float]]:
    """Return the masks that methods of tsmd find in each signal, and their seconds."""
    python = os.environ.get(PYTHON)
    if python is None:
        raise Absent(f"install tsmd and numba in an environment and set {PYTHON} to its python")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        texts: dict[str, Any] = {
            "arguments": json.dumps(list(arguments)),
            "names": json.dumps(list(names)),
        }
        np.savez(source, **texts, **{f"x{i}": x for i, x in enumerate(signals)})
        command = [python, motifs.__file__, str(source), str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Absent(f"tsmd did not run: {(done.stderr.splitlines() or ['?'])[-1]}")
        with np.load(target) as data:
            found = {name: [data[f"{name}/{i}"] for i in range(len(signals))] for name in names}
            return found, json.loads(str(data["seconds"]))
