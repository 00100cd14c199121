"""Draw the two dictionary updates side by side: ``python -m docs.make_variants_image``.

Fits for some minutes, unless ``docs/federated/variants.csv`` holds the rows already.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.claims.robust import ALGORITHMS, CLOSED, N_SUBJECTS, ROBUST, measure
from percdl.experiments.fits import confidence
from percdl.plotting.style import COLORS, MARKERS, OBSERVED, SHARED, label, make_axes

FOLDER = Path(__file__).resolve().parent
ROWS, IMAGE = FOLDER / "federated" / "variants.csv", FOLDER / "images" / "federated_variants.png"
LINES = {CLOSED: "-", ROBUST: "--"}
# Titles of the columns.
NAMES = {"default": "PerCDL", "as printed": "PerCDL, the algorithm as printed"}


def main() -> None:
    """Measure if needed, and write the picture."""
    if not ROWS.exists():
        measure().to_csv(ROWS, index=False, float_format="%.6g")
    draw(pd.read_csv(ROWS)).savefig(IMAGE, dpi=130)


def draw(rows: pd.DataFrame) -> Figure:
    """Draw distances to the true atoms, and below them their ratio."""
    figure = Figure(figsize=(9, 6.8), layout="constrained")
    panels = figure.subplots(2, len(ALGORITHMS), sharex=True, sharey="row", height_ratios=(1.3, 1))
    for column, algorithm in enumerate(ALGORITHMS):
        part = rows[rows["algorithm"] == algorithm]
        distances, ratios = (make_axes(ax) for ax in panels[:, column])
        draw_distances(distances, part)
        draw_ratios(ratios, part)
        distances.set_title(NAMES[algorithm])
        for ax in (distances, ratios):
            ax.label_outer()
    panels[0, 0].set_ylim(bottom=0)  # after drawing, because the axis is shared
    n_seeds = rows["seed"].nunique()
    figure.suptitle(f"S = {N_SUBJECTS}, {n_seeds} cohorts; bars: 95 % confidence")
    noises = sorted(rows["noise"].unique())
    figure.legend(handles=_handles(noises), loc="outside lower center", ncols=5, frameon=False)
    return figure


def draw_distances(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw the mean distance of both variants against the cycles of a subject."""
    for index, (_, of_noise) in enumerate(rows.groupby("noise")):
        for update, line in LINES.items():
            mean = of_noise[of_noise["update"] == update].groupby("cycles")["distance"].mean()
            ax.plot(mean, color=COLORS[index], linestyle=line, marker=MARKERS[index], ms=5)
    label(ax, "", "distance to the true atoms\n(unit norm), mean")


def draw_ratios(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw the ratio of the distances in the same cohort, its geometric mean and confidence."""
    by = ["noise", "cycles", "seed"]
    distance = rows.pivot_table(index=by, columns="update", values="distance")
    logs = np.log(distance[ROBUST] / distance[CLOSED]).reset_index(name="log")
    ax.axhline(1, color=OBSERVED, lw=0.8)
    for index, (_, of_noise) in enumerate(logs.groupby("noise")):
        table = np.exp(confidence(of_noise, ["cycles"], "log").set_index("cycles"))
        reach = [table["mean"] - table["low"], table["high"] - table["mean"]]
        apart = table.index * 1.05 ** (index - 1)
        ax.errorbar(
            apart, table["mean"], reach, color=COLORS[index], linestyle="none",
            marker=MARKERS[index], ms=5, capsize=2, elinewidth=1,
        )  # fmt: skip
    cycles = sorted(rows["cycles"].unique())
    ax.set_xscale("log", base=2)
    ax.set_xticks(cycles, [str(n) for n in cycles])
    label(ax, "cycles of each pattern per subject", "robust / closed form\n(below 1: robust wins)")


def _handles(noises: list[float]) -> list[Line2D]:
    """Return the legend: colours for the noise, lines for the variants."""
    levels = [
        Line2D([], [], color=COLORS[i], marker=MARKERS[i], ms=5, label=f"noise s.d. {noise:g}")
        for i, noise in enumerate(noises)
    ]
    variants = [
        Line2D([], [], color=SHARED, linestyle=line, label=name.replace("-", " "))
        for name, line in LINES.items()
    ]
    return levels + variants


if __name__ == "__main__":
    main()
