"""The models compared on the paper's synthetic cohorts, and statistics over seeds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from percdl.datasets import SyntheticCohort
from percdl.estimators import IndCDL, PerCDL, PopCDL
from percdl.estimators.base import BaseCDL
from percdl.exceptions import NoActivationWarning
from percdl.experiments.studies.as_printed import PLAIN
from percdl.plotting.style import COLORS, OBSERVED

PENALTY = 1e-2
ROUNDS = {"n_init": 5, "n_perso": 5}
MODELS: dict[str, tuple[type[BaseCDL], dict[str, Any]]] = {
    "PerCDL": (PerCDL, {}),
    "PerCDL, as printed": (PerCDL, PLAIN),
    "PopCDL": (PopCDL, {}),
    "IndCDL": (IndCDL, {}),
}
LOOKS: dict[str, dict[str, Any]] = {
    "PerCDL": {"color": COLORS[0], "marker": "o"},
    "PerCDL, as printed": {"color": COLORS[5], "marker": "v", "linestyle": "--"},
    "PopCDL": {"color": COLORS[1], "marker": "s"},
    "IndCDL": {"color": COLORS[2], "marker": "^"},
    "gauge floor": {"color": OBSERVED, "linestyle": ":"},
}
SETTINGS = "K = 2, L = 50, r = 3, D = 3, W = 10, lambda = 0.01, rounds 5 + 5"


def fit(name: str, data: SyntheticCohort, **changes: Any) -> BaseCDL:
    """Fit one of `MODELS` with the paper's settings, from the atoms of the first subject.

    ``changes`` override the arguments of the model.
    """
    kind, options = MODELS[name]
    start = data.personal_dictionary[0]
    options = {
        "n_atoms": len(start), "atom_length": start.shape[1], "penalty": PENALTY, "init": start,
        "progress": False, **options,
    }  # fmt: skip
    if kind is PerCDL:
        options |= {"transform": data.transform, **ROUNDS}
    with warnings.catch_warnings():
        # A subject that loses an atom is part of what is measured.
        warnings.simplefilter("ignore", NoActivationWarning)
        return kind(**{**options, **changes}).fit(data.cohort)


def confidence(rows: pd.DataFrame, by: list[str], value: str) -> pd.DataFrame:
    """Return mean and 95 % confidence limits (Student) of a value over the seeds of each group.

    >>> rows = pd.DataFrame({"S": [1, 1], "seed": [0, 1], "distance": [1.0, 3.0]})
    >>> confidence(rows, ["S"], "distance")["mean"].tolist()
    [2.0]
    """
    groups = rows.groupby(by, sort=False)[value]
    table = groups.agg(["mean", "sem", "count"]).reset_index()
    reach = table["sem"] * stats.t.ppf(0.975, np.maximum(table["count"] - 1, 1))
    return table.assign(low=table["mean"] - reach, high=table["mean"] + reach)


def loglog_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the exponent of the power law fitted to the points; NaN for a single point.

    >>> round(loglog_slope([1, 4, 16], [1, 0.5, 0.25]), 3)
    -0.5
    """
    if len(x) < 2:
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
