"""Depth and width of the time warp: fig:transfo_illustration and fig:sensitivity_analysis."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from percdl.analysis import normalized_reconstruction_error
from percdl.datasets.synthetic import common_patterns, draw_warps, personalize
from percdl.experiments.fits import panels
from percdl.experiments.known_truth import find_params, make_cohort
from percdl.experiments.study import Result, Study, lines
from percdl.plotting.style import COLORS, SHARED, color, label
from percdl.signals.reconstruction import rebuild
from percdl.transforms import TimeWarp

SHAPES = ((1, 3), (1, 10), (3, 3), (3, 10))
LENGTH, N_DRAWS = 50, 5
TRUTH = (3, 10)
PAPER_DEPTHS, PAPER_WIDTHS = (1, 2, 3, 4, 5, 6), (2, 4, 6, 8, 10, 12, 15, 20)
SMALL_DEPTHS, SMALL_WIDTHS = (1, 3, 5), (2, 6, 10, 15)


def fig_transfo_illustration(study: Study) -> Result:
    """fig:transfo_illustration: warps psi and personal atoms, the same at both scales."""
    numbers = draw_random_warps()
    found = []
    for depth, width in SHAPES:
        low, high = slope_range(numbers, depth, width)
        quantity = f"slopes of psi, D = {depth}, W = {width}"
        found.append((quantity, "increasing (picture)", f"{low:.2g} to {high:.2g}"))
    return Result(
        lines(f"{N_DRAWS} draws each, rows of a rescaled to l1 norm 0.99", found),
        {"fig_transfo_illustration": numbers},
        {"fig_transfo_illustration": draw_shapes(numbers)},
        "A warp stretches the atom where it is flat and squeezes it where it is steep.",
    )


def slope_range(numbers: pd.DataFrame, depth: int, width: int) -> tuple[float, float]:
    """Return the smallest and the largest slope of the warps of one shape."""
    chosen = numbers.query(f"depth == {depth} and width == {width}")
    slopes = np.diff(chosen["warp"].to_numpy().reshape(N_DRAWS, LENGTH)) * (LENGTH - 1)
    return float(slopes.min()), float(slopes.max())


def draw_random_warps() -> pd.DataFrame:
    """Return warps and warped atoms of random parameters, one row per sample."""
    rng = np.random.default_rng(0)
    atom = common_patterns(LENGTH)[1]
    frames = []
    for depth, width in SHAPES:
        transform = TimeWarp(depth, width)
        for draw in range(N_DRAWS):
            params = jnp.asarray(draw_warps(1, depth, width, rng)[0])
            columns = {
                "time": np.linspace(0, 1, LENGTH),
                "warp": np.asarray(transform.warp(params, LENGTH, 1))[0] / (LENGTH - 1),
                "atom": atom[:, 0],
                "personal_atom": np.asarray(transform.apply(params, jnp.asarray(atom)))[:, 0],
            }
            about = {"depth": depth, "width": width, "draw": draw}
            frames.append(pd.DataFrame({**about, **columns}))
    return pd.concat(frames, ignore_index=True)


def draw_shapes(numbers: pd.DataFrame) -> Figure:
    """Draw one column per depth and width: the warps above, the atoms below."""
    figure, axes = panels((11, 5), 2, len(SHAPES), sharex=True, sharey="row")
    for (depth, width), (top, bottom) in zip(SHAPES, axes.T, strict=True):
        chosen = numbers.query(f"depth == {depth} and width == {width}")
        first = chosen.query("draw == 0")
        top.plot([0, 1], [0, 1], color=SHARED, lw=2, label="identity")
        bottom.plot(first["time"], first["atom"], color=SHARED, lw=2, label="common atom")
        for index, one in chosen.groupby("draw"):
            look = {"color": color(int(str(index))), "lw": 1}
            top.plot(one["time"], one["warp"], label=f"draw {index}", **look)
            bottom.plot(one["time"], one["personal_atom"], **look)
        top.set(title=f"D = {depth}, W = {width}", ylabel="warped time (share)")
        label(bottom, "time (share of the atom)", "amplitude (a.u.)")
    for ax in axes.flat:
        ax.label_outer()
    for ax in axes[:, 0]:
        ax.legend(fontsize="small", frameon=False)
    return figure


def fig_sensitivity(study: Study) -> Result:
    """fig:sensitivity_analysis: warps of every depth and width on data with warps (3, 10)."""
    depths, widths, seeds = study.pick(
        (SMALL_DEPTHS, SMALL_WIDTHS, range(2)), (PAPER_DEPTHS, PAPER_WIDTHS, range(20))
    )
    rows = study.sweep(measure_sensitivity, depth=depths, width=widths, seed=seeds)
    groups = rows.groupby(["depth", "width"], sort=False, as_index=False)
    table = groups.agg({"error": "mean", "normalized_error": "mean"})
    spread = [
        (
            f"error over W: standard deviation, D = {depth}",
            "falls with D (picture)",
            f"{errors.std(ddof=0):.3f} around {errors.mean():.3f}",
        )
        for depth, errors in table.groupby("depth")["error"]
    ]
    settings = (
        f"S = 3, N = 500, true (D, W) = {TRUTH}, true atoms and activations, "
        f"W from {min(widths)} to {max(widths)}, {len(seeds)} seeds"
    )
    return Result(
        lines(settings, spread),
        {"fig_sensitivity": table, "fig_sensitivity_seeds": rows},
        {"fig_sensitivity": draw_sensitivity(table, len(seeds))},
        "In the paper larger D is less sensitive to W. The map shows the mean errors.",
    )


def measure_sensitivity(depth: int, width: int, seed: int) -> dict[str, float]:
    """Return the Euclidean distance of recordings and reconstructions, mean over subjects."""
    data, transform = make_cohort(seed), TimeWarp(depth, width)
    personal = personalize(transform, find_params(data, transform), data.dictionary)
    rebuilt = rebuild(data.cohort, data.events, personal)
    gaps = [record.values - own for record, own in zip(data.cohort, rebuilt, strict=True)]
    return {
        "error": float(np.linalg.norm(gaps, axis=(1, 2)).mean()),
        "normalized_error": normalized_reconstruction_error(data.cohort, rebuilt),
    }


def draw_sensitivity(table: pd.DataFrame, n_seeds: int) -> Figure:
    """Draw the errors as a map with numbers; the true depth and width are boxed."""
    errors = table.pivot(index="depth", columns="width", values="error")
    values, depths, widths = errors.to_numpy(), errors.index.tolist(), errors.columns.tolist()
    figure = Figure(figsize=(2 + 0.9 * len(widths), 1.6 + 0.6 * len(depths)), layout="constrained")
    ax = figure.add_subplot()
    image = ax.imshow(values, cmap="cividis", aspect="auto", vmin=0)
    for (row, column), value in np.ndenumerate(values):
        shade = "white" if value < 0.6 * values.max() else SHARED
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=shade)
    if TRUTH[0] in depths and TRUTH[1] in widths:
        corner = widths.index(TRUTH[1]) - 0.5, depths.index(TRUTH[0]) - 0.5
        look = {"fill": False, "edgecolor": COLORS[1], "lw": 4}
        ax.add_patch(Rectangle(corner, 1, 1, label="true D and W", **look))
        figure.legend(loc="outside upper right", frameon=False)
    ax.set_xticks(range(len(widths)), widths)
    ax.set_yticks(range(len(depths)), depths)
    label(ax, "width W (sines per layer)", "depth D (layers)")
    ax.set_title(f"Mean of {n_seeds} seeds", loc="left", fontsize="medium")
    figure.colorbar(image, label="reconstruction error\n(Euclidean distance per recording)")
    return figure
