"""fig:sensitivity_analysis: what the depth and the width of the warp are worth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from percdl.analysis import normalized_reconstruction_error
from percdl.datasets import make_synthetic
from percdl.datasets.warping import personalize
from percdl.experiments.progress import follow
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.known_truth import find_params, rebuild, true_codes
from percdl.plotting.style import COLORS, SHARED
from percdl.transforms import TimeWarp

TRUTH = (3, 10)
PAPER_DEPTHS, PAPER_WIDTHS = (1, 2, 3, 4, 5, 6), (2, 4, 6, 8, 10, 12, 15, 20)
SMALL_DEPTHS, SMALL_WIDTHS = (1, 3, 5), (2, 6, 10, 15)
N_SUBJECTS = 3


def run(study: Study) -> Result:
    """Fit warps of every depth and width to data whose warps are (3, 10)."""
    depths, widths, seeds = study.pick(
        (SMALL_DEPTHS, SMALL_WIDTHS, range(2)), (PAPER_DEPTHS, PAPER_WIDTHS, range(20))
    )
    rows = measure(study, depths, widths, seeds)
    table = summarize(rows)
    spread = spread_over_widths(table)
    settings = (
        f"S = {N_SUBJECTS}, N = 500, true (D, W) = {TRUTH}, true atoms and activations, "
        f"W from {min(widths)} to {max(widths)}, {len(seeds)} seeds"
    )
    lines = [
        Line(
            f"error over W: standard deviation, D = {depth}",
            "falls with D (picture)",
            f"{spread[depth]:.3f} around {_mean(table, depth):.3f}",
            settings,
        )
        for depth in depths
    ]
    return Result(
        lines=lines,
        tables={"fig_sensitivity": table, "fig_sensitivity_seeds": rows},
        figures={"fig_sensitivity": draw(table, len(seeds))},
        reading=_read(table, spread),
    )


def measure(
    study: Study, depths: Sequence[int], widths: Sequence[int], seeds: Sequence[int]
) -> pd.DataFrame:
    """Return the error, one row per depth, width and seed."""
    rows = []
    cohorts = {seed: make_synthetic(N_SUBJECTS, random_state=seed) for seed in seeds}
    for shape in follow([(depth, width) for depth in depths for width in widths], "D, W"):
        for seed, data in cohorts.items():
            key = {"depth": shape[0], "width": shape[1], "seed": seed}
            rows.append(study.ledger.row(key, lambda shape=shape, data=data: _error(shape, data)))
    return pd.DataFrame(rows)


def _error(shape: tuple[int, int], data: Any) -> dict[str, float]:
    """Return the Euclidean distance of recordings and reconstructions, mean over subjects."""
    transform = TimeWarp(*shape)
    personal = personalize(transform, find_params(data, transform), data.dictionary)
    values = np.stack([record.values for record in data.cohort])
    rebuilt = rebuild(true_codes(data), personal, values.shape[1])
    return {
        "error": float(np.linalg.norm(values - rebuilt, axis=(1, 2)).mean()),
        "normalized_error": normalized_reconstruction_error(data.cohort, rebuilt),
    }


def summarize(rows: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds, one row per depth and width."""
    groups = rows.groupby(["depth", "width"], sort=False, as_index=False)
    return groups.agg({"error": "mean", "normalized_error": "mean"})


def spread_over_widths(table: pd.DataFrame) -> dict[int, float]:
    """Return the standard deviation of the error over W, by D."""
    groups = table.groupby("depth")["error"].std(ddof=0)
    return dict(zip(groups.index.tolist(), groups.tolist(), strict=True))


def draw(table: pd.DataFrame, n_seeds: int) -> Figure:
    """Draw the errors as a map with numbers; the true depth and width are boxed."""
    errors = table.pivot(index="depth", columns="width", values="error")
    values = errors.to_numpy()
    figure = Figure(
        figsize=(2 + 0.9 * values.shape[1], 1.6 + 0.6 * len(values)), layout="constrained"
    )
    ax = figure.add_subplot()
    image = ax.imshow(values, cmap="cividis", aspect="auto", vmin=0)
    for (row, column), value in np.ndenumerate(values):
        shade = "white" if value < 0.6 * values.max() else SHARED
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=shade)
    depths, widths = errors.index.tolist(), errors.columns.tolist()
    if TRUTH[0] in depths and TRUTH[1] in widths:
        corner = widths.index(TRUTH[1]) - 0.5, depths.index(TRUTH[0]) - 0.5
        ax.add_patch(
            Rectangle(corner, 1, 1, fill=False, edgecolor=COLORS[1], lw=4, label="true D and W")
        )
        figure.legend(loc="outside upper right", frameon=False)
    ax.set_xticks(range(len(widths)), [str(w) for w in widths])
    ax.set_yticks(range(len(depths)), [str(d) for d in depths])
    ax.set_xlabel("width W (sines per layer)")
    ax.set_ylabel("depth D (layers)")
    ax.set_title(f"Mean of {n_seeds} seeds", loc="left", fontsize="medium")
    figure.colorbar(image, label="reconstruction error\n(Euclidean distance per recording)")
    return figure


def _mean(table: pd.DataFrame, depth: int) -> float:
    return float(table.query("depth == @depth")["error"].to_numpy().mean())


def _read(table: pd.DataFrame, spread: dict[int, float]) -> str:
    depths = list(spread)
    spreads = [spread[depth] for depth in depths]
    steady = all(a >= b for a, b in pairwise(spreads))
    fell = spreads[-1] < spreads[0]
    verdict = "agrees with" if fell else "does not agree with"
    how = "at every step" if steady else "though not at every step"
    trend = f"falls {how}" if fell else "does not fall"
    best = table.loc[table["error"].idxmin()]
    return (
        f"The spread of the error over W {trend} as D grows, from {spreads[0]:.3f} at "
        f"D = {depths[0]} to {spreads[-1]:.3f} at D = {depths[-1]}, which {verdict} the paper's "
        "reading that larger D is less sensitive to W. The mean error over W goes from "
        f"{_mean(table, depths[0]):.3f} to {_mean(table, depths[-1]):.3f}, so that relative to it "
        f"the spread goes from {spreads[0] / _mean(table, depths[0]):.2f} to "
        f"{spreads[-1] / _mean(table, depths[-1]):.2f}. The lowest error is "
        f"{best['error']:.3f}, at D = {best['depth']:.0f}, W = {best['width']:.0f}."
    )
