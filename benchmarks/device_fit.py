"""Fits on the device that JAX finds: ``python -m benchmarks.device_fit OUT.npz``.

Writes the dictionary, the activations per subject and the objective of each fit, so that two
devices can be compared.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.cohorts import beats, synthetic
from percdl.experiments.studies.as_printed import PLAIN

WAYS = {"plain": PLAIN, "default": {}}


def fit_all() -> dict[str, np.ndarray]:
    """Fit small cohorts in both precisions, the plain way and the default way."""
    found = {}
    for problem in (synthetic(64), beats(256)):
        for way, changes in WAYS.items():
            for dtype in ("float32", "float64"):
                model = problem.model(**changes, dtype=dtype).fit(problem.cohort)
                name = f"{problem.name}, {way}, {dtype}"
                found[f"{name}: dictionary"] = model.dictionary_
                found[f"{name}: counts"] = model.n_activations_
    return found


if __name__ == "__main__":
    np.savez(sys.argv[1], **fit_all())
