"""The ECGs of the paper's study, the models fitted on them, and ecg:errors.

The study takes the same number of records of each of the five diagnostic superclasses, 12 leads
at 100 Hz. The first atom is the loudest beat of the first normal record, with its R peak at
0.24 s, so that the T wave lies in the window of 0.65 s. Fits use no other diagnosis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.figure import Figure

from percdl.algorithm.settings import Algorithm
from percdl.datasets import PTBXL, load_ptbxl_balanced
from percdl.estimators import IndCDL, PerCDL, PopCDL
from percdl.estimators.base import BaseCDL
from percdl.experiments.fits import draw_errors, error_of_fit, panels, stack_errors
from percdl.experiments.study import Line, Result, Study
from percdl.plotting.style import COLORS, add_legend
from percdl.signals import Cohort
from percdl.transforms import TimeWarp, Transform

LENGTH, SFREQ, R_PEAK = 65, 100, 24
BAND = (0.5, 40.0)
# Compressed values are proportional to voltages below this, in mV, and logarithmic above.
KNEE = 0.1
# The paper's 20 steps.
NO_ROUNDS = Algorithm(population_rounds=0, personal_rounds=0, realign=False)
ALGORITHM = Algorithm(population_rounds=5, personal_rounds=15, realign=False)
WARP = TimeWarp(4, 7, per_channel=True)

RAW, FILTERED, COMPRESSED = "unit power", "0.5 to 40 Hz, unit power", "0.5 to 40 Hz, compressed"
# In squared signal units; records have unit power, or values of about one.
PENALTY = 1.0
COMMON_SETTINGS = f"K = 1, L = {LENGTH}, lambda = {PENALTY:g}, 20 rounds"
SETTINGS = f"{COMMON_SETTINGS}, D = 4, W = 7 per lead"
# Windows stay where the common atom puts them, so that all parameters refer to the same clock.
# The alternative is the library's default: it searches each subject's window and better starts of
# the warps, and centers the warps.
KEPT, SEARCHED = "windows kept", "windows, starts and gauge searched"
# Models and records of ecg:errors.
BARYCENTER = "IndCDL barycenter"
PAPER = {"IndCDL": 0.176, "PopCDL": 0.370, "PerCDL": 0.282, BARYCENTER: 0.417}
CASES = (RAW, FILTERED)


def n_per_class(study: Study) -> int:
    """Return the number of records of each superclass."""
    return study.pick(40, 530)


@cache
def load_records(n_members: int) -> PTBXL:
    """Load the balanced records, in mV."""
    return load_ptbxl_balanced(n_per_class=n_members)


@cache
def prepare(n_members: int, processing: str) -> Cohort:
    """Return the records processed in one of the three ways."""
    cohort = load_records(n_members).cohort
    if processing == RAW:
        return cohort.apply(_unit_power, "scaled to unit power")
    filtered = cohort.bandpass(*BAND, order=2)
    if processing == FILTERED:
        return filtered.apply(_unit_power, "scaled to unit power")
    return filtered.apply(lambda x: np.arcsinh(x / KNEE), f"compressed, arcsinh(x / {KNEE} mV)")


def _unit_power(values: np.ndarray) -> np.ndarray:
    return values / np.sqrt(np.mean(values**2))


def first_beat(cohort: Cohort) -> Float[np.ndarray, "1 L P"]:
    """Return the loudest whole beat of the first normal record."""
    values = cohort[cohort.groups.index("NORM")].values
    within = slice(R_PEAK, len(values) - LENGTH + R_PEAK)
    onset = int(np.square(values).sum(1)[within].argmax())
    return values[None, onset : onset + LENGTH]


def build(kind: Callable[..., BaseCDL], init: Any, **changes: Any) -> BaseCDL:
    """Return a model with the settings of the study, not fitted."""
    common = {"n_atoms": 1, "atom_length": LENGTH, "penalty": PENALTY, "algorithm": ALGORITHM}
    model = kind(**common, init=init, random_state=0, progress=False)
    return model.set_params(**changes)


@cache
def fit(
    n_members: int,
    processing: str,
    transform: Transform | None = None,
    alignment: str = KEPT,
) -> BaseCDL:
    """Fit PerCDL, by default with the paper's warps."""
    cohort = prepare(n_members, processing)
    search = alignment == SEARCHED
    algorithm = replace(
        ALGORITHM, realign=search, multistart=search, centering="refit" if search else "off"
    )
    chosen = {"transformation": transform or WARP, "algorithm": algorithm}
    return build(PerCDL, first_beat(cohort), **chosen).fit(cohort)


@cache
def fit_other(kind: type[PopCDL] | type[IndCDL], n_members: int, processing: str) -> BaseCDL:
    """Fit PopCDL or IndCDL."""
    cohort = prepare(n_members, processing)
    return build(kind, first_beat(cohort)).fit(cohort)


def fit_all(n_members: int, processing: str) -> dict[str, BaseCDL]:
    """Return the fits of the three models."""
    return {
        "IndCDL": fit_other(IndCDL, n_members, processing),
        "PopCDL": fit_other(PopCDL, n_members, processing),
        "PerCDL": fit(n_members, processing),
    }


def mean_amplitudes(model: BaseCDL, cohort: Cohort) -> Float[np.ndarray, " S"]:
    """Return the mean activation of each subject; NaN for one without any."""
    means = model.events_.pivot_table("amplitude", "subject", aggfunc="mean")
    return means.reindex(list(cohort.subjects))["amplitude"].to_numpy(float)


def ecg_errors(study: Study) -> Result:
    """ecg:errors: reconstruction errors of the three models and of IndCDL's barycenter."""
    n_members = n_per_class(study)
    numbers = measure_errors(study, n_members)
    settings = f"{5 * n_members} records, {SETTINGS}"
    paper = f"{PAPER['PerCDL'] / PAPER['PopCDL']:.3f}"
    return Result(
        lines=[
            *(
                Line(name, f"{said}", f"{error(numbers, name, case):.3f}", f"{settings}, {case}")
                for case in CASES
                for name, said in PAPER.items()
            ),
            *(
                Line(
                    "PerCDL / PopCDL", paper, f"{ratio(numbers, case):.3f}", f"{settings}, {case}"
                )
                for case in CASES
            ),
        ],
        tables={"ecg_errors": numbers},
        figures={"ecg_errors": _draw(numbers)},
        reading="All records have unit power. How the paper scaled them is not known, so compare "
        "ratios rather than errors.",
    )


def measure_errors(study: Study, n_members: int) -> pd.DataFrame:
    """Return the errors, one row per processing and model."""
    wide = study.sweep(_errors, n_members=[n_members], records=CASES)
    return stack_errors(wide.set_index(["n_members", "records"]))


def _errors(n_members: int, records: str) -> dict[str, float]:
    cohort, fits = prepare(n_members, records), fit_all(n_members, records)
    mean = np.nanmean(fits["IndCDL"].personal_dictionary_, axis=0)
    fits[BARYCENTER] = build(PopCDL, mean, algorithm=NO_ROUNDS).fit(cohort)
    return {name: error_of_fit(model, cohort) for name, model in fits.items()}


def error(numbers: pd.DataFrame, model: str, processing: str) -> float:
    """Return one of the errors measured."""
    row = (numbers["model"] == model) & (numbers["records"] == processing)
    return float(numbers.loc[row, "error"].item())


def ratio(numbers: pd.DataFrame, processing: str) -> float:
    """Return the error of PerCDL over that of PopCDL."""
    return error(numbers, "PerCDL", processing) / error(numbers, "PopCDL", processing)


def _draw(numbers: pd.DataFrame) -> Figure:
    figure, axes = panels((7, 3.2))
    cases = [
        (
            [error(numbers, name, case) for name in PAPER],
            {"color": COLORS[i], "marker": "os"[i], "ms": 7, "label": f"ours, {case}"},
        )
        for i, case in enumerate(CASES)
    ]
    draw_errors(axes[0, 0], PAPER, cases, 0.15, 0.15)
    add_legend(axes[0, 0])
    return figure
