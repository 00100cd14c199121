"""fig:transfo_illustration: warps psi and personal atoms f(phi, a) for several D and W."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from percdl.datasets.synthetic import common_patterns, draw_warps
from percdl.experiments.result import Line, Result, Study
from percdl.plotting.style import SHARED, color, make_axes
from percdl.transforms import TimeWarp

SHAPES = ((1, 3), (1, 10), (3, 3), (3, 10))
LENGTH, N_DRAWS, SEED = 50, 5, 0


def run(study: Study) -> Result:
    """Draw warps of several depths and widths; the picture is the same at both scales."""
    numbers = measure()
    settings = f"{N_DRAWS} draws each, rows of a rescaled to l1 norm 0.99"
    return Result(
        lines=[
            Line(
                f"slopes of psi, D = {depth}, W = {width}",
                "increasing (picture)",
                "{:.2g} to {:.2g}".format(*_range(numbers, depth, width)),
                settings,
            )
            for depth, width in SHAPES
        ],
        tables={"fig_transfo_illustration": numbers},
        figures={"fig_transfo_illustration": draw(numbers)},
        reading=_read(numbers),
    )


def _read(numbers: pd.DataFrame) -> str:
    ranges = {shape: _range(numbers, *shape) for shape in SHAPES}
    least = min(low for low, _ in ranges.values())
    increase = "Every warp increases" if least > 0 else "Not every warp increases"
    return (
        f"{increase} (least slope {least:.2g}). The steepest slope is {_by_depth(ranges)}. An "
        "atom is stretched where its warp is flat and squeezed where it is steep."
    )


def _by_depth(ranges: dict[tuple[int, int], tuple[float, float]]) -> str:
    """Say how steep warps of one width are at most, depth by depth."""
    widths = dict.fromkeys(width for _, width in ranges)
    return "; ".join(
        " and ".join(f"{ranges[d, w][1]:.2g} with D = {d}" for d, w in ranges if w == width)
        + f" at W = {width}"
        for width in widths
    )


def _range(numbers: pd.DataFrame, depth: int, width: int) -> tuple[float, float]:
    """Return the smallest and the largest slope of the warps of one shape."""
    chosen = numbers.query(f"depth == {depth} and width == {width}")
    slopes = np.diff(chosen["warp"].to_numpy().reshape(N_DRAWS, LENGTH)) * (LENGTH - 1)
    return slopes.min(), slopes.max()


def measure() -> pd.DataFrame:
    """Return warps and warped atoms of random parameters, one row per sample."""
    rng = np.random.default_rng(SEED)
    atom = common_patterns(LENGTH)[1]
    frames = [_one(shape, draw, atom, rng) for shape in SHAPES for draw in range(N_DRAWS)]
    return pd.concat(frames, ignore_index=True)


def _one(
    shape: tuple[int, int], draw: int, atom: np.ndarray, rng: np.random.Generator
) -> pd.DataFrame:
    transform = TimeWarp(*shape)
    params = jnp.asarray(draw_warps(1, *shape, rng)[0])
    return pd.DataFrame(
        {
            "depth": shape[0],
            "width": shape[1],
            "draw": draw,
            "time": np.linspace(0, 1, LENGTH),
            "warp": np.asarray(transform.warp(params, LENGTH, 1))[0] / (LENGTH - 1),
            "atom": atom[:, 0],
            "personal_atom": np.asarray(transform.apply(params, jnp.asarray(atom)))[:, 0],
        }
    )


def draw(numbers: pd.DataFrame) -> Figure:
    """Draw one column per depth and width: the warps above, the atoms below."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.subplots(2, len(SHAPES), sharex=True, sharey="row")
    for column, (depth, width) in enumerate(SHAPES):
        chosen = numbers.query(f"depth == {depth} and width == {width}")
        _draw_shape(make_axes(axes[0, column]), make_axes(axes[1, column]), chosen)
        axes[0, column].set_title(f"D = {depth}, W = {width}")
        axes[1, column].set_xlabel("time (share of the atom)")
    axes[0, 0].set_ylabel("warped time (share)")
    axes[1, 0].set_ylabel("amplitude (a.u.)")
    for ax in axes[:, 0]:
        ax.legend(fontsize="small", frameon=False)
    return figure


def _draw_shape(top: Axes, bottom: Axes, numbers: pd.DataFrame) -> None:
    first = numbers.query("draw == 0")
    top.plot([0, 1], [0, 1], color=SHARED, lw=2, label="identity")
    bottom.plot(first["time"], first["atom"], color=SHARED, lw=2, label="common atom")
    for index in range(N_DRAWS):
        one, look = numbers.query(f"draw == {index}"), {"color": color(index), "lw": 1}
        top.plot(one["time"], one["warp"], label=f"draw {index}", **look)
        bottom.plot(one["time"], one["personal_atom"], **look)
