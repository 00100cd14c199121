"""theorem:convergence1: the maximum-likelihood atoms are 1 / sqrt(S p) from the truth.

A and Z are given, as in the theorem, so that the estimate is one solve of PerCDU.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from percdl.datasets import SyntheticCohort, make_synthetic
from percdl.experiments.progress import follow
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.known_truth import find_atoms
from percdl.experiments.studies.synthetic_fits import confidence, loglog_slope
from percdl.plotting.style import SHARED, add_legend, color, label, make_axes

NOISE, SAMPLES_PER_REPETITION = 0.1, 170


def run(study: Study) -> Result:
    """Measure the error for several S and p and fit its exponent in S p."""
    sizes, counts, seeds = study.pick(
        ((10, 32, 100), (1, 3, 9), range(5)), ((10, 32, 100, 320, 1000), (1, 3, 9), range(10))
    )
    rows = measure(study, sizes, counts, seeds)
    table = confidence(rows, ["S", "p"], "error")
    table["S p"] = table["S"] * table["p"]
    exponent = loglog_slope(table["S p"].tolist(), table["mean"].tolist())
    settings = f"A and Z given, noise {NOISE:g}, {len(seeds)} seeds"
    return Result(
        lines=[
            Line("exponent of the error in S p", "-1/2", f"{exponent:.3f}", settings),
            *(
                Line(f"exponent in S, p = {p}", "-1/2", _by_size(table, p), settings)
                for p in counts
            ),
        ],
        tables={"theorem_convergence": table, "theorem_convergence_seeds": rows},
        figures={"theorem_convergence": draw(table)},
        reading=_read(table, exponent, counts),
    )


def _read(table: pd.DataFrame, exponent: float, counts: Sequence[int]) -> str:
    most = max(table["S"].tolist())
    part = table[table["S"] == most]
    in_p = loglog_slope(part["p"].tolist(), part["mean"].tolist())
    in_s = float(_by_size(table, max(counts)))
    agrees = all(abs(value + 0.5) < 0.1 for value in (exponent, in_p, in_s))
    return (
        f"The error falls as (S p)^{exponent:.2f}: as S^{in_s:.2f} with p = {max(counts)} and as "
        f"p^{in_p:.2f} with S = {most}. "
        + (
            "More people and more repetitions of each are worth the same, as the theorem says."
            if agrees
            else "The theorem says 1 / sqrt(S p), which is not what is seen here."
        )
    )


def _by_size(table: pd.DataFrame, count: int) -> str:
    part = table[table["p"] == count]
    return f"{loglog_slope(part['S'].tolist(), part['mean'].tolist()):.3f}"


def measure(
    study: Study, sizes: Sequence[int], counts: Sequence[int], seeds: Sequence[int]
) -> pd.DataFrame:
    """Return the error of the estimate, one row per S, p and seed."""
    rows = []
    for n_subjects in follow(sizes, "S"):
        for count in counts:
            for seed in seeds:
                key = {"S": n_subjects, "p": count, "seed": seed}
                rows.append(study.ledger.row(key, lambda k=key: _measure_one(**k)))
    return pd.DataFrame(rows)


def _measure_one(S: int, p: int, seed: int) -> dict[str, float]:
    data = make_synthetic(
        S,
        SAMPLES_PER_REPETITION * p,
        n_repetitions=p,
        noise_std=NOISE,
        random_state=seed,
    )
    return {"error": error_given_truth(data)}


def error_given_truth(data: SyntheticCohort) -> float:
    """Return the mean distance to the true atoms of the estimate of Theorem 1."""
    gaps = find_atoms(data) - data.dictionary
    return float(np.linalg.norm(gaps, axis=(1, 2)).mean())


def draw(table: pd.DataFrame) -> Figure:
    """Draw the error against S p, one colour per p, and the rate of the theorem."""
    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    ax = make_axes(figure.add_subplot())
    reach = np.sort(table["S p"].to_numpy())
    # Through the middle of the points: the theorem gives the rate, not the constant.
    height = np.exp(np.mean(np.log(table["mean"] * np.sqrt(table["S p"]))))
    ax.plot(reach, height / np.sqrt(reach), color=SHARED, ls="--", label="rate 1 / sqrt(S p)")
    for i, (p, part) in enumerate(table.groupby("p")):
        spread = [part["mean"] - part["low"], part["high"] - part["mean"]]
        look = {"color": color(i), "marker": "os^"[i % 3], "ls": "", "capsize": 3}
        ax.errorbar(part["S p"], part["mean"], spread, label=f"p = {p}", **look)
    ax.set_xscale("log")
    ax.set_yscale("log")
    label(ax, "number of repetitions S p", "distance to the true atoms (a.u.)")
    ax.set_title("Maximum likelihood, A and Z given; bars: 95 % confidence")
    add_legend(ax)
    return figure
