"""Distance to the true atoms as the cohort grows: fig:conv, fig:supp:synth_conv, Theorem 1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from percdl.datasets import SyntheticCohort, common_patterns, make_synthetic, match_atoms
from percdl.experiments.fits import (
    FLOOR,
    LOOKS,
    METHODS,
    MODELS,
    SETTINGS,
    confidence,
    draw_band,
    fit,
    loglog_slope,
    panels,
    unit,
)
from percdl.experiments.known_truth import find_atoms
from percdl.experiments.study import Line, Result, Study
from percdl.plotting.style import SHARED, add_legend, color, label

PAPER_SIZES = tuple(2**i for i in range(11))
SMALL_SIZES = (1, 4, 16, 64)
# Trends are fitted from this number of subjects on.
LEAST_SUBJECTS = 16
# Noise of the theorem's recordings, and their length in samples per repetition.
NOISE, SAMPLES_PER_REPETITION = 0.1, 170
_cohort = lru_cache(maxsize=1)(make_synthetic)


def measure_distances(
    study: Study, sizes: Sequence[int], seeds: Sequence[int], n_times: int = 500
) -> pd.DataFrame:
    """Return the distance to the true atoms, one row per size, seed and method."""
    return study.sweep(_distance, N=[n_times], S=sizes, seed=seeds, method=(*MODELS, FLOOR))


def _distance(N: int, S: int, seed: int, method: str) -> dict[str, float]:
    data = _cohort(S, N, random_state=seed)
    if method == FLOOR:
        return {"distance": data.gauge_floor()}
    return {"distance": data.distance_to_truth(fit(method, data).dictionary_)}


def mean_distances(table: pd.DataFrame, method: str) -> dict[int, float]:
    """Return the mean distance of a method, by S."""
    part = table[table["method"] == method]
    return dict(zip(part["S"].tolist(), part["mean"].tolist(), strict=True))


def slope(table: pd.DataFrame, method: str) -> float:
    """Return the exponent of the distance in S, from `LEAST_SUBJECTS` on."""
    found = {s: d for s, d in mean_distances(table, method).items() if s >= LEAST_SUBJECTS}
    return loglog_slope(list(found), list(found.values()))


def fig_conv(study: Study) -> Result:
    """fig:conv: distance of the common atoms to the true ones, N = 500."""
    sizes, seeds = study.pick((SMALL_SIZES, range(3)), (PAPER_SIZES, range(10)))
    rows = measure_distances(study, sizes, seeds)
    table = confidence(rows, ["method", "S"], "distance")
    settings = f"N = 500, {SETTINGS}, {len(seeds)} seeds"
    floor, ours = mean_distances(table, FLOOR), mean_distances(table, "PerCDL")
    lines = [
        Line(
            f"PerCDL, S = {size}",
            "falls with S (picture)",
            f"{distance:.3f} ({distance / floor[size]:.2f} times the gauge floor)",
            settings,
        )
        for size, distance in ours.items()
        if size >= LEAST_SUBJECTS
    ]
    for method in MODELS:
        said = "falls with S" if method.startswith("PerCDL") else "rises with S"
        end = mean_distances(table, method)[max(sizes)]
        found = (
            f"S^{slope(table, method):.2f} from S = {LEAST_SUBJECTS}, {end:.3f} at {max(sizes)}"
        )
        lines.append(Line(f"{method}: trend", said, found, settings))
    return Result(
        lines=lines,
        tables={"fig_conv": table, "fig_conv_seeds": rows},
        figures={"fig_conv": draw_distances(table, len(seeds))},
        reading="The gauge floor is the distance that perfect warps would leave. 1/sqrt(S) is "
        "S^-0.50. In the paper PerCDL falls with S, and PopCDL and IndCDL rise.",
    )


def draw_distances(table: pd.DataFrame, n_seeds: int) -> Figure:
    """Draw the distances on logarithmic axes, with confidence bands."""
    figure, axes = panels((7, 4.5))
    ax = axes[0, 0]
    for method, look in LOOKS.items():
        part = table.query("method == @method")
        ax.plot(part["S"], part["mean"], label=method, ms=5, **look)
        draw_band(ax, part, "S", look["color"], 0.2)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    sizes = sorted(table["S"].unique())
    ax.set_xticks(sizes, [str(size) for size in sizes])
    label(ax, "number of subjects S", "distance to the true atoms (unit norm)")
    ax.set_title(f"Mean of {n_seeds} seeds; bands: 95 % confidence")
    add_legend(ax)
    return figure


def fig_synth_conv(study: Study) -> Result:
    """fig:supp:synth_conv: the common atoms themselves, N = 1000."""
    sizes, seeds = study.pick(((4, 16, 64), range(2)), ((1, 4, 16, 64, 256, 1024), range(5)))
    table = confidence(measure_distances(study, sizes, seeds, 1000), ["method", "S"], "distance")
    atoms = measure_atoms(study, sizes)
    means = {method: mean_distances(table, method) for method in (*METHODS, FLOOR)}
    said = {"PerCDL": "recovers the atoms as S grows", FLOOR: "-"}
    return Result(
        lines=[
            Line(
                f"{method}: distance",
                said.get(method, "does not (picture)"),
                ", ".join(f"{d:.3f} (S = {s})" for s, d in distances.items()),
                f"N = 1000, {SETTINGS}, {len(seeds)} seeds",
            )
            for method, distances in means.items()
        ],
        tables={"fig_synth_conv": table, "fig_synth_conv_atoms": atoms},
        figures={"fig_synth_conv": draw_atoms(atoms, sizes)},
        reading="Averaged timings blunt the corners of an atom.",
    )


def measure_atoms(
    study: Study, sizes: Sequence[int], methods: Sequence[str] = METHODS
) -> pd.DataFrame:
    """Return the atoms of one seed, in the order, sign and norm of the truth, row by sample."""
    rows = study.sweep(_atoms, S=sizes, method=methods, seed=[0])
    return pd.concat(
        [
            pd.DataFrame(
                {"S": S, "method": method, "atom": k, "sample": range(len(atom)), "value": atom}
            )
            for S, method, atoms in rows[["S", "method", "atoms"]].itertuples(index=False)
            for k, atom in enumerate(atoms)
        ],
        ignore_index=True,
    )


def _atoms(S: int, method: str, seed: int) -> dict[str, Any]:
    data = _cohort(S, 1000, random_state=seed)
    found = np.asarray(fit(method, data).dictionary_, float)
    return {"atoms": unit(found[match_atoms(found, data.dictionary)][..., 0])}


def draw_atoms(atoms: pd.DataFrame, sizes: Sequence[int]) -> Figure:
    """Draw one column per size and one row per pattern, the truth in black."""
    truth = unit(common_patterns(len(atoms["sample"].unique()))[..., 0])
    figure, axes = panels(
        (2.3 * len(sizes), 4.2), len(truth), len(sizes), sharex=True, sharey="row"
    )
    for (k, column), ax in np.ndenumerate(axes):
        ax.plot(truth[k], color=SHARED, lw=2.5, alpha=0.35, label="truth")
        part = atoms.query(f"S == {sizes[column]} and atom == {k}")
        for method, one in part.groupby("method", sort=False):
            tint = LOOKS[str(method)]["color"]
            ax.plot(one["sample"], one["value"], color=tint, lw=1.2, label=method)
    for size, ax in zip(sizes, axes[0], strict=True):
        ax.set_title(f"S = {size}")
    for ax in axes[-1]:
        ax.set_xlabel("time (samples)")
    for k, ax in enumerate(axes[:, 0]):
        ax.set_ylabel(f"pattern {k} (unit norm)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def theorem_convergence(study: Study) -> Result:
    """theorem:convergence1: the maximum-likelihood atoms are 1 / sqrt(S p) from the truth.

    A and Z are given, as in the theorem, so that the estimate is one solve of PerCDU.
    """
    sizes, counts, seeds = study.pick(
        ((10, 32, 100), (1, 3, 9), range(5)), ((10, 32, 100, 320, 1000), (1, 3, 9), range(10))
    )
    rows = measure_theorem(study, sizes, counts, seeds)
    table = confidence(rows, ["S", "p"], "error")
    table["S p"] = table["S"] * table["p"]
    exponent = _exponent(table, "S p")
    in_s = {p: _exponent(table.query("p == @p"), "S") for p in counts}
    in_p = _exponent(table.query("S == S.max()"), "p")
    settings = f"A and Z given, noise {NOISE:g}, {len(seeds)} seeds"
    return Result(
        lines=[
            Line("exponent of the error in S p", "-1/2", f"{exponent:.3f}", settings),
            *(
                Line(f"exponent in S, p = {p}", "-1/2", f"{value:.3f}", settings)
                for p, value in in_s.items()
            ),
            Line(f"exponent in p, S = {max(sizes)}", "-1/2", f"{in_p:.3f}", settings),
        ],
        tables={"theorem_convergence": table, "theorem_convergence_seeds": rows},
        figures={"theorem_convergence": draw_theorem(table)},
        reading="By the theorem all exponents are -1/2: more people and more repetitions of each "
        "are worth the same.",
    )


def measure_theorem(
    study: Study, sizes: Sequence[int], counts: Sequence[int], seeds: Sequence[int]
) -> pd.DataFrame:
    """Return the error of the estimate, one row per S, p and seed."""
    return study.sweep(_theorem_error, S=sizes, p=counts, seed=seeds)


def _theorem_error(S: int, p: int, seed: int) -> dict[str, float]:
    n_times = SAMPLES_PER_REPETITION * p
    data = make_synthetic(S, n_times, n_repetitions=p, noise_std=NOISE, random_state=seed)
    return {"error": error_given_truth(data)}


def error_given_truth(data: SyntheticCohort) -> float:
    """Return the mean distance to the true atoms of the estimate of Theorem 1."""
    gaps = find_atoms(data) - data.dictionary
    return float(np.linalg.norm(gaps, axis=(1, 2)).mean())


def _exponent(table: pd.DataFrame, of: str) -> float:
    return loglog_slope(table[of].tolist(), table["mean"].tolist())


def draw_theorem(table: pd.DataFrame) -> Figure:
    """Draw the error against S p, one colour per p, and the rate of the theorem."""
    figure, axes = panels((6.5, 4.2))
    ax = axes[0, 0]
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
