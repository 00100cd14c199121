"""The ECGs of the paper's study and the models fitted on them, once for all labels.

As many records of each of the five diagnostic superclasses, 12 leads at 100 Hz. The first atom
is the loudest beat of the first normal record, its R peak at 0.24 s, so that the T wave lies in
the window of 0.65 s. Fits never see a diagnosis otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float

from percdl.datasets import PTBXL, load_ptbxl_balanced
from percdl.estimators import IndCDL, PerCDL, PopCDL
from percdl.estimators.base import BaseCDL
from percdl.experiments.result import Study
from percdl.signals import Cohort
from percdl.transforms import TimeWarp, Transform

LENGTH, SFREQ, R_PEAK = 65, 100, 24
BAND = (0.5, 40.0)
# Below this, in mV, compressed values are proportional to the voltage; above, to its logarithm.
KNEE = 0.1
# The paper's 20 steps.
ROUNDS = {"n_init": 5, "n_perso": 15}
WARP = TimeWarp(4, 7, per_channel=True)

RAW, FILTERED, COMPRESSED = "unit power", "0.5 to 40 Hz, unit power", "0.5 to 40 Hz, compressed"
# In squared signal units; records have unit power, or values of about one.
PENALTY = 1.0
COMMON_SETTINGS = f"K = 1, L = {LENGTH}, lambda = {PENALTY:g}, 20 rounds"
SETTINGS = f"{COMMON_SETTINGS}, D = 4, W = 7 per lead"
# Windows of all subjects stay where the common atom puts them: then all parameters are read on
# one clock. The alternative is the library's default, which searches for each subject's window
# and for better starts of the warps, and centres them.
KEPT, SEARCHED = "windows kept", "windows, starts and gauge searched"


def n_per_class(study: Study) -> int:
    """Return how many records of each superclass take part."""
    return study.pick(40, 530)


@cache
def load_records(n_members: int) -> PTBXL:
    """Load the balanced records, in mV."""
    return load_ptbxl_balanced(n_per_class=n_members)


@cache
def prepare(n_members: int, processing: str) -> Cohort:
    """Return the records processed in one of the three ways, each step written down."""
    cohort = load_records(n_members).cohort
    if processing == RAW:
        return cohort.apply(_unit_power, "scaled to unit power")
    filtered = cohort.bandpass(*BAND, order=2)
    if processing == FILTERED:
        return filtered.apply(_unit_power, "scaled to unit power")
    return filtered.apply(_compress, f"compressed, arcsinh(x / {KNEE} mV)")


def _unit_power(values: np.ndarray) -> np.ndarray:
    return values / np.sqrt(np.mean(values**2))


def _compress(values: np.ndarray) -> np.ndarray:
    """Return values whose shape depends on the voltage, and in which small waves count."""
    return np.arcsinh(values / KNEE)


def first_beat(cohort: Cohort) -> Float[np.ndarray, "1 L P"]:
    """Return the loudest beat of the first normal record that lies within it."""
    values = cohort[cohort.groups.index("NORM")].values
    within = slice(R_PEAK, len(values) - LENGTH + R_PEAK)
    onset = int(np.square(values).sum(1)[within].argmax())
    return values[None, onset : onset + LENGTH]


def build(kind: Callable[..., BaseCDL], init: Any, **changes: Any) -> BaseCDL:
    """Return a model with the settings of the study, to be fitted."""
    common = {"n_atoms": 1, "atom_length": LENGTH, "penalty": PENALTY, **ROUNDS}
    technical = {"init": init, "realign": False, "random_state": 0, "progress": False}
    return kind(**{**common, **technical, **changes})


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
    centering = "refit" if search else "off"
    options = {"realign": search, "multistart": search, "centering": centering}
    chosen = transform or WARP
    return build(PerCDL, first_beat(cohort), transform=chosen, **options).fit(cohort)


@cache
def fit_other(kind: type[PopCDL] | type[IndCDL], n_members: int, processing: str) -> BaseCDL:
    """Fit PopCDL or IndCDL."""
    cohort = prepare(n_members, processing)
    return build(kind, first_beat(cohort)).fit(cohort)


def mean_amplitudes(model: BaseCDL, cohort: Cohort) -> Float[np.ndarray, " S"]:
    """Return the mean activation of each subject; NaN for one without any."""
    means = model.events_.pivot_table("amplitude", "subject", aggfunc="mean")
    return means.reindex(list(cohort.subjects))["amplitude"].to_numpy(float)
