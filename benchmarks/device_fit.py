"""Fits on the device that JAX finds: ``python -m benchmarks.device_fit OUT.npz``.

Writes all that each fit has learned, so that two devices can be compared.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.claims._claim import is_quick
from benchmarks.cohorts import Problem, beats, synthetic
from percdl import Algorithm, Cohort, Huber, L1Coder, make_synthetic
from percdl.estimators.base import BaseCDL
from percdl.experiments.study import as_printed

# Samples of this size are counted in another unit, see `percdl.algorithm.magnitude`.
LARGE = 2.0**40


def cases() -> dict[str, tuple[Problem, dict[str, Any]]]:
    """Return cohorts and the arguments of their fits, by name."""
    n_waves, n_beats = (8, 16) if is_quick() else (64, 256)
    waves, heart = synthetic(n_waves), beats(n_beats)
    impulses = make_synthetic(n_waves, impulse_rate=0.1, random_state=0).cohort
    assert heart.cohort.stacked is not None  # what is stacked goes to the device in pieces
    loud = Cohort.from_arrays(LARGE * heart.cohort.stacked)
    return {
        "synthetic, plain": (waves, as_printed()),
        "synthetic, default": (waves, {}),
        "synthetic, l1 coder": (waves, {"coder": L1Coder(), "penalty": 0.1}),
        "synthetic, Huber's loss": (replace(waves, cohort=impulses), {"loss": Huber()}),
        "synthetic, robust update": (waves, {"algorithm": Algorithm(update="robust")}),
        "beats, plain": (heart, as_printed()),
        "beats, default": (heart, {}),
        "beats times 2^40": (replace(heart, cohort=loud), {"penalty": LARGE**2}),
    }


def fit_all() -> dict[str, np.ndarray]:
    """Fit every case in both precisions; return the results by case, precision and kind."""
    found = {}
    for name, (problem, changes) in cases().items():
        for dtype in ("float32", "float64"):
            model = problem.model(**changes, dtype=dtype).fit(problem.cohort)
            for kind, values in _learned(model, problem.cohort).items():
                found[f"{name}, {dtype}: {kind}"] = values
    return found


def _learned(model: BaseCDL, cohort: Cohort) -> dict[str, np.ndarray]:
    """Return all that a fit has learned; amplitudes (S, K, N) are 0 where nothing begins."""
    events = model.events_
    amplitudes = np.zeros((*model.n_activations_.shape, max(cohort.lengths)))
    subject = [cohort.subjects.index(name) for name in events["subject"]]
    amplitudes[subject, events["atom"], events["onset_sample"]] = events["amplitude"]
    return {
        "dictionary": model.dictionary_,
        "parameters": model.params_,
        "amplitudes": amplitudes,
        "objective": np.array([model.objective_]),
    }


if __name__ == "__main__":
    np.savez(sys.argv[1], **fit_all())
