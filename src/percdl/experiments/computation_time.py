"""time: how long the fits of the paper take here, beside the paper's laptop (M3 Max)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from percdl.datasets import make_synthetic
from percdl.estimators import IndCDL, PopCDL
from percdl.estimators.base import BaseCDL
from percdl.experiments import ecg_fits, fits, gait_fits
from percdl.experiments.study import Line, Result, Study
from percdl.plotting.style import OBSERVED, SHARED, color

METHODS = ("IndCDL", "PopCDL", "PerCDL")
# Recordings, and seconds in the order of `METHODS`, in the paper's appendix.
PAPER: Mapping[str, tuple[int, tuple[float, float, float]]] = {
    "synthetic, S = 2": (2, (0.29, 0.17, 5.86)),
    "synthetic, S = 16": (16, (2.20, 0.32, 7.33)),
    "synthetic, S = 128": (128, (17.57, 2.79, 21.50)),
    "synthetic, S = 1024": (1024, (138.57, 18.46, 127.25)),
    "gait": (150, (26.86, 5.94, 48.37)),
    "ECG": (4465, (2465.09, 292.67, 1731.81)),
}


def computation_time(study: Study) -> Result:
    """Time every fit twice; the first may have to compile."""
    rows = measure_times(study, _cases(study))
    return Result(
        lines=[
            Line(
                f"{row['case']}, {row['method']}: seconds",
                f"{row['paper']:g} ({row['paper_subjects']} recordings)",
                f"{row['again']:.2f} ({row['subjects']} recordings; first {row['first']:.1f})",
                f"{os.cpu_count()} CPU cores, {jax.devices()[0].device_kind}",
            )
            for row in rows.to_dict("records")
        ],
        tables={"computation_time": rows},
        figures={"computation_time": _draw(rows)},
        reading="Compare times per recording. The machines differ, so that the factors say "
        "little about the algorithms.",
    )


def measure_times(study: Study, cases: Mapping[str, Callable[[str], BaseCDL]]) -> pd.DataFrame:
    """Return the seconds of each case and method, beside the paper's."""

    def measure(case: str, method: str) -> dict[str, float]:
        return _time(cases[case], method)

    rows = study.sweep(measure, case=list(cases), method=METHODS)
    paper = [
        PAPER[c][1][METHODS.index(m)] for c, m in zip(rows["case"], rows["method"], strict=True)
    ]
    return rows.assign(paper=paper, paper_subjects=[PAPER[case][0] for case in rows["case"]])


def _cases(study: Study) -> dict[str, Callable[[str], BaseCDL]]:
    """Return a function for each case that fits a method; the data are loaded."""
    cases: dict[str, Callable[[str], BaseCDL]] = {}
    for size in study.pick((2, 16), (2, 16, 128, 1024)):
        data = make_synthetic(size, random_state=0)
        cases[f"synthetic, S = {size}"] = partial(fits.fit, data=data)
    n_walks, n_ecgs = gait_fits.n_per_group(study), ecg_fits.n_per_class(study)
    start = gait_fits.first_dictionary(n_walks, gait_fits.FROM_DATA)
    walks = gait_fits.load_walks(n_walks).cohort
    ecg_fits.prepare(n_ecgs, ecg_fits.RAW)
    cases["gait"] = lambda name: gait_fits.build(name, start).fit(walks)
    cases["ECG"] = partial(_fit_ecg, n_ecgs)
    return cases


def _fit_ecg(n_members: int, name: str) -> BaseCDL:
    """Fit as the ECG study does, without its cache."""
    others = {"IndCDL": IndCDL, "PopCDL": PopCDL}
    if name in others:
        return ecg_fits.fit_other.__wrapped__(others[name], n_members, ecg_fits.RAW)
    return ecg_fits.fit.__wrapped__(n_members, ecg_fits.RAW)


def _time(fit: Callable[[str], BaseCDL], method: str) -> dict[str, float]:
    """Return the seconds of a first fit, which may have to compile, and of a second."""
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        model = fit(method)
        seconds.append(time.perf_counter() - started)
    return {"subjects": len(model.subjects_), "first": seconds[0], "again": seconds[1]}


def _draw(rows: pd.DataFrame) -> Figure:
    """Draw the seconds of both machines, on a logarithmic axis."""
    figure, axes = fits.panels((9, 4.2), 1, len(METHODS), sharey=True)
    for ax, method in zip(axes[0], METHODS, strict=True):
        part = rows[rows["method"] == method]
        place = np.arange(len(part))
        ours, theirs = 1000 / part["subjects"], 1000 / part["paper_subjects"]
        ax.barh(place + 0.2, part["paper"] * theirs, 0.38, color=OBSERVED, label="paper, M3 Max")
        ax.barh(place - 0.2, part["again"] * ours, 0.38, color=color(0), label="here")
        first = part["first"] * ours
        ax.plot(first, place - 0.2, "|", color=SHARED, ms=9, label="here, the first time")
        ax.set_xscale("log")
        ax.set_yticks(place, part["case"])
        ax.set_title(method)
        ax.set_xlabel("milliseconds per recording")
    axes[0, 0].invert_yaxis()
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
