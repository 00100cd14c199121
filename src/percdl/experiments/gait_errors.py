"""gait:errors: normalized reconstruction errors of the three models and of IndCDL's barycenter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from percdl.estimators.base import BaseCDL
from percdl.experiments.progress import follow
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.gait_fits import (
    FROM_CYCLE,
    FROM_DATA,
    LENGTH,
    MODELS,
    SETTINGS,
    Walks,
    build,
    fit,
    fit_in_place,
    load_walks,
    n_per_group,
)
from percdl.experiments.studies.residuals import error_of_fit
from percdl.plotting.style import COLORS, SHARED, label, make_axes

BARYCENTER, BEST, KEPT = "IndCDL barycenter", "best free atoms", "windows kept"
PAPER = {"IndCDL": 0.055, "PopCDL": 0.109, "PerCDL": 0.063, BARYCENTER: 0.116}
DEFAULT, PRINTED = "default", "as printed"
FROM_POPULATION = "PopCDL's atom"
CASES = [
    *((start, kind) for start in (FROM_DATA, FROM_CYCLE) for kind in (DEFAULT, PRINTED)),
    (FROM_POPULATION, KEPT),
]


def run(study: Study) -> Result:
    """Measure all errors, and draw them beside the paper's."""
    n_members = n_per_group(study)
    numbers = measure(study, n_members)
    settings = f"{3 * n_members} walks, {SETTINGS}"
    return Result(
        lines=_lines(numbers, settings),
        tables={"gait_errors": numbers},
        figures={"gait_errors": draw(numbers)},
        reading=_read(numbers),
    )


def measure(study: Study, n_members: int) -> pd.DataFrame:
    """Return the errors, one row per first dictionary, algorithm and model.

    Beside the paper's four: what the best free atom of each person leaves at PerCDL's own
    onsets. Beside the first dictionaries: all from PopCDL's atom, with windows that stay.
    """
    rows = []
    for start, kind in follow(CASES, "first dictionary and algorithm"):
        key = {"n_members": n_members, "start": start, "algorithm": kind}
        errors = study.ledger.row(key, lambda s=start, k=kind: _errors(n_members, s, k))
        rows += [{**key, "model": m, "error": e} for m, e in errors.items() if m not in key]
    return pd.DataFrame(rows)


def _errors(n_members: int, start: str, kind: str) -> dict[str, float]:
    walks = load_walks(n_members)
    fits = {name: _fit(name, n_members, start, kind) for name in MODELS}
    return {
        **{name: error_of_fit(model, walks.cohort) for name, model in fits.items()},
        BARYCENTER: _barycenter_error(fits["IndCDL"], walks),
        BEST: _best_error(fits["PerCDL"], walks),
    }


def _fit(name: str, n_members: int, start: str, kind: str) -> BaseCDL:
    if kind == KEPT:
        return fit_in_place(name, n_members)
    return fit(name, n_members, start, kind == PRINTED)


def _barycenter_error(model: BaseCDL, walks: Walks) -> float:
    """Return the error when everyone is coded with the Euclidean mean of the personal atoms."""
    mean = np.nanmean(model.personal_dictionary_, axis=0)
    coded = build("PopCDL", mean, n_init=0, n_perso=0).fit(walks.cohort)
    return error_of_fit(coded, walks.cohort)


def _best_error(model: BaseCDL, walks: Walks) -> float:
    """Return what is left when everyone has the best atom for the segments the model found.

    That atom is the first right singular vector of the person's segments.
    """
    onsets = model.events_.groupby("subject")["onset_sample"]
    segments = {
        subject: walks.cohort[str(subject)].values[
            np.add.outer(found.to_numpy(), np.arange(LENGTH)), 0
        ]
        for subject, found in onsets
    }
    explained = sum(np.linalg.norm(part, ord=2) ** 2 for part in segments.values())
    return float(1 - explained / sum(np.sum(r.values**2) for r in walks.cohort))


def error(numbers: pd.DataFrame, model: str, start: str, kind: str) -> float:
    """Return one of the errors measured."""
    wanted = {"start": start, "algorithm": kind, "model": model}
    row = (numbers[list(wanted)] == pd.Series(wanted)).all(axis=1)
    return float(numbers.loc[row, "error"].item())


def ratio(numbers: pd.DataFrame, start: str, kind: str, other: str = "IndCDL") -> float:
    """Return the error of PerCDL over that of another model."""
    return error(numbers, "PerCDL", start, kind) / error(numbers, other, start, kind)


def _lines(numbers: pd.DataFrame, settings: str) -> list[Line]:
    def values(of, digits, *model):
        default, printed = (of(numbers, *model, FROM_DATA, kind) for kind in (DEFAULT, PRINTED))
        kept = of(numbers, *model, FROM_POPULATION, KEPT)
        return f"{default:.{digits}f} ({PRINTED} {printed:.{digits}f}, {KEPT} {kept:.{digits}f})"

    chosen = f"{settings}; first atom {FROM_DATA}, no annotation used"
    lines = [
        Line(name, f"{paper}", values(error, 4, name), chosen) for name, paper in PAPER.items()
    ]
    paper = f"{PAPER['PerCDL'] / PAPER['IndCDL']:.3f}"
    lines.append(Line("PerCDL / IndCDL, same first atom", paper, values(ratio, 3), chosen))
    cycle = [ratio(numbers, FROM_CYCLE, kind) for kind in (DEFAULT, PRINTED)]
    lines.append(
        Line(
            "PerCDL / IndCDL, same first atom",
            paper,
            f"{cycle[0]:.3f} ({PRINTED} {cycle[1]:.3f})",
            f"{settings}; first atom the {FROM_CYCLE}, as the paper's",
        )
    )
    best = f"{ratio(numbers, FROM_DATA, DEFAULT, BEST):.3f}"
    lines.append(Line("PerCDL / best free atoms at its onsets", "-", best, chosen))
    return lines


def _read(numbers: pd.DataFrame) -> str:
    found = {name: error(numbers, name, FROM_DATA, DEFAULT) for name in MODELS}
    order = " < ".join(sorted(found, key=lambda name: found[name]))
    free = error(numbers, BARYCENTER, FROM_DATA, DEFAULT)
    kept, shared = (error(numbers, m, FROM_POPULATION, KEPT) for m in (BARYCENTER, "PopCDL"))
    return (
        f"Errors rise as {order}, in the paper as IndCDL < PerCDL < PopCDL. PerCDL costs "
        f"{ratio(numbers, FROM_DATA, DEFAULT):.3f} times IndCDL's error (paper "
        f"{PAPER['PerCDL'] / PAPER['IndCDL']:.3f}), "
        f"{ratio(numbers, FROM_DATA, PRINTED):.3f} times with the algorithm as printed, "
        f"{ratio(numbers, FROM_POPULATION, KEPT):.3f} times when both personalize PopCDL's atom "
        f"in its window. There the barycenter of IndCDL, {kept:.4f}, is "
        f"{'no better' if kept >= shared else 'better'} than PopCDL's atom, {shared:.4f}. Where "
        f"everyone's window moves freely the barycenter is at {free:.4f}, {free / kept:.2f} times "
        f"as much, and {'no better' if free >= found['PopCDL'] else 'better'} than PopCDL's atom "
        f"there, {found['PopCDL']:.4f}. How the paper scaled its signals and defined the error "
        "is not known; the ratios can be compared, the errors only roughly."
    )


def draw(numbers: pd.DataFrame) -> Figure:
    """Draw the errors of each model as points, the paper's among them."""
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    ax = make_axes(figure.add_subplot())
    places = dict(zip(PAPER, range(len(PAPER)), strict=True))
    ax.plot(list(PAPER.values()), list(places.values()), "D", color=SHARED, ms=7, label="paper")
    for index, (start, kind) in enumerate(CASES):
        looks: dict[str, Any] = {
            "marker": "os^"[index // 2],
            "fillstyle": "none" if kind == PRINTED else "full",
        }
        y = [place + 0.12 * (index + 1) for place in places.values()]
        x = [error(numbers, name, start, kind) for name in places]
        tint = COLORS[index // 2]
        ax.plot(x, y, ls="", color=tint, ms=6, label=f"{kind},\n{start}", **looks)
    ax.set_yticks(list(places.values()), list(places))
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    ax.grid(axis="x", color="0.9")
    label(ax, "normalized reconstruction error (share of the signals' energy)", "")
    figure.legend(loc="outside right center", fontsize="small", frameon=False)
    return figure
