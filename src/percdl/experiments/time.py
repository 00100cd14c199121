"""time: how long the fits of the paper take here, beside the paper's laptop (M3 Max)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial

import jax
import numpy as np
import pandas as pd

from percdl.datasets import make_synthetic
from percdl.estimators.base import BaseCDL
from percdl.experiments import synthetic_fits
from percdl.experiments.progress import follow
from percdl.experiments.result import Line, Result, Study

METHODS = ("IndCDL", "PopCDL", "PerCDL")
# Seconds in the paper's appendix, in the order of `METHODS`; its ECG study timed 4,465 records.
PAPER: Mapping[str, tuple[float, float, float]] = {
    "synthetic, S = 2": (0.29, 0.17, 5.86),
    "synthetic, S = 16": (2.20, 0.32, 7.33),
    "synthetic, S = 128": (17.57, 2.79, 21.50),
    "synthetic, S = 1024": (138.57, 18.46, 127.25),
    "gait": (26.86, 5.94, 48.37),
    "ECG": (2465.09, 292.67, 1731.81),
}


def run(study: Study) -> Result:
    """Time every fit twice: with nothing compiled in this process, and again."""
    rows = measure(study)
    where = f"{os.cpu_count()} CPU cores, {jax.devices()[0].device_kind}"
    return Result(
        lines=[
            Line(
                f"{row['case']}, {row['method']}: seconds",
                f"{row['paper']:g}" if np.isfinite(row["paper"]) else "-",
                f"{row['again']:.2f} (the first time {row['first']:.1f})",
                f"{row['subjects']} recordings, {where}",
            )
            for row in rows.to_dict("records")
        ],
        tables={"time": rows},
        figures={"time": draw(rows)},
        reading=_read(rows),
    )


def measure(study: Study) -> pd.DataFrame:
    """Return seconds of each case and method."""
    rows = []
    for case, fit in follow(list(_cases(study).items()), "timing"):
        for method, paper in zip(METHODS, PAPER.get(case, (np.nan,) * 3), strict=True):
            key = {"case": case, "method": method}
            row = study.ledger.row(key, lambda f=fit, m=method: _time(f, m))
            rows.append({**row, "paper": paper})
    return pd.DataFrame(rows)


def _cases(study: Study) -> dict[str, Callable[[str], BaseCDL]]:
    """Return, for each case, a function that fits a method of that name."""
    cases: dict[str, Callable[[str], BaseCDL]] = {}
    for size in study.pick((2, 16), (2, 16, 128, 1024)):
        data = make_synthetic(size, random_state=0)
        cases[f"synthetic, S = {size}"] = partial(synthetic_fits.fit, data=data)
    cases["gait"] = partial(_fit_gait, study)
    cases["ECG"] = partial(_fit_ecg, study)
    return cases
