"""Distance to the true atoms as the cohort grows: fig:conv, fig:supp:synth_conv, Theorem 1."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from percdl.datasets import SyntheticCohort, make_synthetic, match_atoms
from percdl.datasets.synthetic import common_patterns
from percdl.experiments import fits
from percdl.experiments.fits import FLOOR, METHODS, MODELS, legend_below, select, unit
from percdl.experiments.known_truth import find_atoms
from percdl.experiments.study import Result, Study, lines
from percdl.plotting.style import SHARED, add_legend, color, label

PAPER_SIZES = tuple(2**i for i in range(11))
# Trends are fitted from this number of subjects on.
LEAST_SUBJECTS = 16
# Noise of the theorem's recordings, and their length in samples per repetition.
NOISE, SAMPLES_PER_REPETITION = 0.1, 170
_cohort = lru_cache(maxsize=1)(make_synthetic)


def measure_distances(
    study: Study, sizes: Sequence[int], seeds: Sequence[int], n_times: int = 500
) -> pd.DataFrame:
    """Return the distance to the true atoms, one row per size, seed and method."""

    def measure(N: int, S: int, seed: int, method: str) -> dict[str, float]:
        data = _cohort(S, N, random_state=seed)
        if method == FLOOR:
            return {"distance": data.gauge_floor()}
        return {"distance": data.distance_to_truth(fits.fit(method, data).dictionary_)}

    return study.sweep(measure, N=[n_times], S=sizes, seed=seeds, method=(*MODELS, FLOOR))


def mean_distances(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, dict[int, float]]]:
    """Return the table of means and confidence limits, and the means by method and S."""
    table = fits.confidence(rows, ["method", "S"], "distance")
    return table, {m: select(table, "S", "mean", method=m) for m in table["method"].unique()}


def slope(means: dict[int, float]) -> float:
    """Return the exponent of mean distances in S, from `LEAST_SUBJECTS` on."""
    sizes = [size for size in means if size >= LEAST_SUBJECTS]
    return fits.loglog_slope(sizes, [means[size] for size in sizes])


def fig_conv(study: Study) -> Result:
    """fig:conv: distance of the common atoms to the true ones, N = 500."""
    sizes, seeds = study.pick(((1, 4, 16, 64), range(3)), (PAPER_SIZES, range(10)))
    rows = measure_distances(study, sizes, seeds)
    table, means = mean_distances(rows)
    floor, last = means.pop(FLOOR), max(sizes)
    found = []
    for size, distance in means["PerCDL"].items():
        if size >= LEAST_SUBJECTS:
            ours = f"{distance:.3f} ({distance / floor[size]:.2f} times the gauge floor)"
            found.append((f"PerCDL, S = {size}", "falls with S (picture)", ours))
    for method, mean in means.items():
        said = "falls with S" if method.startswith("PerCDL") else "rises with S"
        ours = f"S^{slope(mean):.2f} from S = {LEAST_SUBJECTS}, {mean[last]:.3f} at {last}"
        found.append((f"{method}: trend", said, ours))
    settings = f"N = 500, {fits.SETTINGS}, {len(seeds)} seeds"
    figure = draw_distances(table, len(seeds))
    return Result(lines(settings, found), {"": table, "_seeds": rows}, figure)


def draw_distances(table: pd.DataFrame, n_seeds: int) -> Figure:
    """Draw the distances on logarithmic axes, with confidence bands."""
    figure, axes = fits.panels((7, 4.5))
    ax = axes[0, 0]
    for method, look in fits.LOOKS.items():
        part = table.query("method == @method")
        ax.plot(part["S"], part["mean"], label=method, ms=5, **look)
        fits.draw_band(ax, part, "S", look["color"], 0.2)
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
    table, means = mean_distances(measure_distances(study, sizes, seeds, 1000))
    atoms = measure_atoms(study, sizes)
    said = {"PerCDL": "recovers the atoms as S grows", FLOOR: "-"}
    found = []
    for method in (*METHODS, FLOOR):
        ours = ", ".join(f"{d:.3f} (S = {s})" for s, d in means[method].items())
        found.append((f"{method}: distance", said.get(method, "does not (picture)"), ours))
    settings, figure = f"N = 1000, {fits.SETTINGS}, {len(seeds)} seeds", draw_atoms(atoms, sizes)
    return Result(lines(settings, found), {"": table, "_atoms": atoms}, figure)


def measure_atoms(
    study: Study, sizes: Sequence[int], methods: Sequence[str] = METHODS
) -> pd.DataFrame:
    """Return the atoms of one seed, in the order, sign and norm of the truth, row by sample."""

    def measure(S: int, method: str, seed: int) -> dict[str, Any]:
        data = _cohort(S, 1000, random_state=seed)
        found = np.asarray(fits.fit(method, data).dictionary_, float)
        return {"atoms": unit(found[match_atoms(found, data.dictionary)][..., 0])}

    rows = study.sweep(measure, S=sizes, method=methods, seed=[0]).drop(columns="seed")
    atoms = rows.explode("atoms", ignore_index=True)
    atoms["atom"] = atoms.groupby(["S", "method"]).cumcount()
    values = atoms.explode("atoms", ignore_index=True).rename(columns={"atoms": "value"})
    sample = values.groupby(["S", "method", "atom"]).cumcount()
    return values.assign(sample=sample, value=values["value"].astype(float))


def draw_atoms(atoms: pd.DataFrame, sizes: Sequence[int]) -> Figure:
    """Draw one column per size and one row per pattern, the truth in black."""
    truth = unit(common_patterns(len(atoms["sample"].unique()))[..., 0])
    shape = len(truth), len(sizes)
    figure, axes = fits.panels((2.3 * len(sizes), 4.2), *shape, sharex=True, sharey="row")
    for (k, column), ax in np.ndenumerate(axes):
        ax.plot(truth[k], color=SHARED, lw=2.5, alpha=0.35, label="truth")
        part = atoms.query(f"S == {sizes[column]} and atom == {k}")
        for method, one in part.groupby("method", sort=False):
            tint = fits.LOOKS[str(method)]["color"]
            ax.plot(one["sample"], one["value"], color=tint, lw=1.2, label=method)
        ax.set(xlabel="time (samples)", ylabel=f"pattern {k} (unit norm)")
        ax.label_outer()
    for size, ax in zip(sizes, axes[0], strict=True):
        ax.set_title(f"S = {size}")
    legend_below(figure, 4)
    return figure


def theorem_convergence(study: Study) -> Result:
    """theorem:convergence1: given A and Z, the estimate is 1 / sqrt(S p) from the truth."""
    counts = (1, 3, 9)
    sizes, seeds = study.pick(((10, 32, 100), range(5)), ((10, 32, 100, 320, 1000), range(10)))
    rows = study.sweep(measure_theorem, S=sizes, p=counts, seed=seeds)
    table = fits.confidence(rows, ["S", "p"], "error")
    table["S p"] = table["S"] * table["p"]
    laws = [
        ("exponent of the error in S p", table, "S p"),
        *((f"exponent in S, p = {p}", table.query("p == @p"), "S") for p in counts),
        (f"exponent in p, S = {max(sizes)}", table.query("S == S.max()"), "p"),
    ]
    found = [
        (name, "-1/2", f"{fits.loglog_slope(part[of].tolist(), part['mean'].tolist()):.3f}")
        for name, part, of in laws
    ]
    settings = f"A and Z given, noise {NOISE:g}, {len(seeds)} seeds"
    tables = {"": table, "_seeds": rows}
    return Result(lines(settings, found), tables, draw_theorem(table))


def measure_theorem(S: int, p: int, seed: int) -> dict[str, float]:
    """Return the error of the estimate for S subjects with p repetitions each."""
    n_times = SAMPLES_PER_REPETITION * p
    data = make_synthetic(S, n_times, n_repetitions=p, noise_std=NOISE, random_state=seed)
    return {"error": error_given_truth(data)}


def error_given_truth(data: SyntheticCohort) -> float:
    """Return the mean distance to the true atoms of the estimate of Theorem 1."""
    gaps = find_atoms(data) - data.dictionary
    return float(np.linalg.norm(gaps, axis=(1, 2)).mean())


def draw_theorem(table: pd.DataFrame) -> Figure:
    """Draw the error against S p, one colour per p, and the rate of the theorem."""
    figure, axes = fits.panels((6.5, 4.2))
    ax = axes[0, 0]
    reach = np.sort(table["S p"].to_numpy())
    # Through the middle of the points: the theorem gives the rate, not the constant.
    height = np.exp(np.mean(np.log(table["mean"] * np.sqrt(table["S p"]))))
    ax.plot(reach, height / np.sqrt(reach), color=SHARED, ls="--", label="rate 1 / sqrt(S p)")
    for i, (p, part) in enumerate(table.groupby("p")):
        spread = part["mean"] - part["low"]
        look = {"color": color(i), "marker": "os^"[i % 3], "ls": "", "capsize": 3}
        ax.errorbar(part["S p"], part["mean"], spread, label=f"p = {p}", **look)
    ax.set(xscale="log", yscale="log")
    label(ax, "number of repetitions S p", "distance to the true atoms (a.u.)")
    ax.set_title("Maximum likelihood, A and Z given; bars: 95 % confidence")
    add_legend(ax)
    return figure
