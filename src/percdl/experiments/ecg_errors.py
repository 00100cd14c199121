"""ecg:errors: normalized reconstruction errors of the three models and of IndCDL's barycenter."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from percdl.estimators import IndCDL, PopCDL
from percdl.experiments.progress import follow
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.ecg_fits import (
    FILTERED,
    RAW,
    SETTINGS,
    build,
    fit,
    fit_other,
    n_per_class,
    prepare,
)
from percdl.experiments.studies.residuals import error_of_fit
from percdl.plotting.style import COLORS, SHARED, add_legend, label, make_axes

BARYCENTER = "IndCDL barycenter"
PAPER = {"IndCDL": 0.176, "PopCDL": 0.370, "PerCDL": 0.282, BARYCENTER: 0.417}
CASES = (RAW, FILTERED)


def run(study: Study) -> Result:
    """Measure the four errors, and draw them beside the paper's."""
    n_members = n_per_class(study)
    numbers = measure(study, n_members)
    return Result(
        lines=_lines(numbers, f"{5 * n_members} records, {SETTINGS}"),
        tables={"ecg_errors": numbers},
        figures={"ecg_errors": draw(numbers)},
        reading=_read(numbers),
    )


def measure(study: Study, n_members: int) -> pd.DataFrame:
    """Return the errors, one row per processing and model."""
    rows = []
    for processing in follow(CASES, "records"):
        key = {"n_members": n_members, "records": processing}
        errors = study.ledger.row(key, lambda p=processing: _errors(n_members, p))
        rows += [{**key, "model": name, "error": errors[name]} for name in PAPER]
    return pd.DataFrame(rows)


def _errors(n_members: int, processing: str) -> dict[str, float]:
    cohort = prepare(n_members, processing)
    fits = {
        "IndCDL": fit_other(IndCDL, n_members, processing),
        "PopCDL": fit_other(PopCDL, n_members, processing),
        "PerCDL": fit(n_members, processing),
    }
    mean = np.nanmean(fits["IndCDL"].personal_dictionary_, axis=0)
    fits[BARYCENTER] = build(PopCDL, mean, n_init=0, n_perso=0).fit(cohort)
    return {name: error_of_fit(model, cohort) for name, model in fits.items()}


def error(numbers: pd.DataFrame, model: str, processing: str) -> float:
    """Return one of the errors measured."""
    row = (numbers["model"] == model) & (numbers["records"] == processing)
    return float(numbers.loc[row, "error"].item())


def ratio(numbers: pd.DataFrame, processing: str) -> float:
    """Return the error of PerCDL over that of PopCDL."""
    return error(numbers, "PerCDL", processing) / error(numbers, "PopCDL", processing)


def _lines(numbers: pd.DataFrame, settings: str) -> list[Line]:
    lines = [
        Line(name, f"{paper}", f"{error(numbers, name, case):.3f}", f"{settings}, {case}")
        for case in CASES
        for name, paper in PAPER.items()
    ]
    paper = f"{PAPER['PerCDL'] / PAPER['PopCDL']:.3f}"
    lines += [
        Line("PerCDL / PopCDL", paper, f"{ratio(numbers, case):.3f}", f"{settings}, {case}")
        for case in CASES
    ]
    return lines


def _read(numbers: pd.DataFrame) -> str:
    orders = {" < ".join(_by_error(numbers, case)) for case in CASES}
    return (
        f"Errors rise as {' or '.join(sorted(orders))}, in the paper as "
        f"{' < '.join(sorted(PAPER, key=lambda name: PAPER[name]))}. Of PopCDL's error, warps "
        "per lead leave a share of "
        + ", ".join(f"{ratio(numbers, case):.3f} ({case})" for case in CASES)
        + f"; the paper's is {PAPER['PerCDL'] / PAPER['PopCDL']:.3f}. All records count alike, "
        "as their power is one; how the paper scaled them is not known, so its errors compare by "
        "ratio only."
    )


def _by_error(numbers: pd.DataFrame, case: str) -> list[str]:
    return sorted(PAPER, key=lambda name: error(numbers, name, case))


def draw(numbers: pd.DataFrame) -> Figure:
    """Draw the errors of each model as points, the paper's among them."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    ax = make_axes(figure.add_subplot())
    places = np.arange(len(PAPER))
    ax.plot(list(PAPER.values()), places - 0.15, "D", color=SHARED, ms=7, label="paper")
    for index, case in enumerate(CASES):
        found = [error(numbers, name, case) for name in PAPER]
        look = {"color": COLORS[index], "marker": "os"[index], "ms": 7, "ls": ""}
        ax.plot(found, places + 0.15 * index, label=f"ours, {case}", **look)
    ax.set_yticks(places, list(PAPER))
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    ax.grid(axis="x", color="0.9")
    label(ax, "normalized reconstruction error (share of the signals' energy)", "")
    add_legend(ax)
    return figure
