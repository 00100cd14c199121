"""Motif discovery methods of the package tsmd: ``motifs.py IN.npz OUT.npz``.

This file runs in the environment that ``PERCDL_DETECTORS`` names, with tsmd and numba, and imports
nothing of PerCDL. The input holds signals ``x0, x1, ...``, the arguments of each as JSON, and the
names of the methods; the output holds the masks of each, ``name/0, ...``, and seconds.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from importlib import import_module

import numpy as np

# The methods that take seconds for a minute of ECG, by the names of their study. The others take
# 3 minutes (PanMP) to 5 hours (k-Motiflets) there, and GrammarViz needs Java.
METHODS = {
    "STOMP": ("matrixprofile", "MatrixProfile"),
    "LatentMotif": ("latentmotifs", "LatentMotif"),
    "PEPA": ("persistence", "BasePersistentPattern"),
    "A-PEPA": ("adaptative_persistence", "AdaptativeBasePersistentPattern"),
    "SetFinder": ("setfinder", "Baseline"),
}


def find(name: str, signal: np.ndarray, arguments: dict) -> np.ndarray:
    """Return the mask of each motif that a method finds; no motif where it fails."""
    module, cls = METHODS[name]
    method = getattr(import_module(f"tsmd.competitors.{module}"), cls)
    known = inspect.getfullargspec(method.__init__)[0]
    np.random.seed(0)
    try:
        fitted = method(**{key: value for key, value in arguments.items() if key in known})
        fitted.fit(signal)
        return np.asarray(fitted.prediction_mask_) > 0
    except Exception:  # as their study counts a failure
        return np.zeros((0, len(signal)), bool)


def main(source: str, target: str) -> None:
    """Run every method on every signal."""
    found, seconds = {}, {}
    with np.load(source) as data:
        arguments = json.loads(str(data["arguments"]))
        for name in json.loads(str(data["names"])):
            began = time.perf_counter()
            for i, own in enumerate(arguments):
                found[f"{name}/{i}"] = find(name, data[f"x{i}"], own)
            seconds[name] = time.perf_counter() - began
    np.savez_compressed(target, seconds=json.dumps(seconds), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
