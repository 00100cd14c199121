"""Code as a user writes it: pyright checks it with all rules, and a test runs it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import percdl
from percdl import Algorithm, Cohort, L0Coder, PerCDL, PopCDL, Recording, TimeWarp
from percdl.analysis import measure_regularity


def read(values: Sequence[np.ndarray]) -> Cohort:
    """Make a cohort of arrays."""
    return Cohort(
        Recording(x, sfreq=50.0, subject=f"P{s}", group="ab"[s % 2]) for s, x in enumerate(values)
    )


def fit(cohort: Cohort, folder: Path) -> PerCDL:
    """Fit, save and read a model."""
    model: PerCDL = PerCDL(
        n_atoms=2,
        atom_length="0.32s",
        transformation=TimeWarp(depth=1, width=3),
        penalty=0.3,
        coder=L0Coder(),
        algorithm=Algorithm(
            population_rounds=2, personal_rounds=2, realign=False, multistart=False
        ),
        random_state=np.random.default_rng(0),
        progress=False,
    ).fit(cohort)
    model.save(folder / "model.percdl")
    again = percdl.load(folder / "model.percdl")
    assert isinstance(again, PerCDL)
    return again


def main(values: Sequence[np.ndarray], folder: Path) -> tuple[int, ...]:
    """Go from signals to tables, and return the shape of the parameters."""
    cohort = read(values)
    model = fit(cohort, folder)
    events = model.events_
    assert len(events) == int(model.n_activations_.sum())
    assert model.personalize(cohort[:2]).params.shape == model.params_[:2].shape
    found: PopCDL = PopCDL(init=model.dictionary_, penalty=0.3).find(cohort)
    assert found.score(cohort) <= 1
    assert len(measure_regularity(events, cohort)) > 0
    return model.params_.shape
