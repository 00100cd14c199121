"""fig:supp:synth_conv: the common atoms themselves as the cohort grows, N = 1000."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from percdl.datasets import common_patterns, make_synthetic, match_atoms
from percdl.experiments import fig_conv
from percdl.experiments.progress import follow
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.synthetic_fits import LOOKS, SETTINGS, confidence, fit
from percdl.plotting.style import SHARED, make_axes

N_TIMES, SHOWN_SEED = 1000, 0
METHODS = ("PerCDL", "PopCDL", "IndCDL")


def run(study: Study) -> Result:
    """Measure distances over seeds, and draw the atoms of one of them."""
    sizes, seeds = study.pick(((4, 16, 64), range(2)), ((1, 4, 16, 64, 256, 1024), range(5)))
    rows = fig_conv.measure(study, sizes, seeds, N_TIMES)
    table = confidence(rows, ["method", "S"], "distance")
    atoms = measure_atoms(study, sizes)
    settings = f"N = {N_TIMES}, {SETTINGS}, {len(seeds)} seeds"
    return Result(
        lines=[_line(table, method, settings) for method in METHODS],
        tables={"fig_synth_conv": table, "fig_synth_conv_atoms": atoms},
        figures={"fig_synth_conv": draw(atoms, sizes)},
        reading=_read(table),
    )


def measure_atoms(study: Study, sizes: Sequence[int]) -> pd.DataFrame:
    """Return the atoms of one seed, in the order, sign and norm of the truth, row by sample."""
    frames = []
    for n_subjects in follow(sizes, "atoms, S"):
        for method in METHODS:
            key = {"S": n_subjects, "method": method, "seed": SHOWN_SEED}
            row = study.ledger.row(key, lambda s=n_subjects, m=method: _atoms(m, s))
            for k, atom in enumerate(row["atoms"]):
                about = {"S": n_subjects, "method": method, "atom": k}
                frames.append(pd.DataFrame({**about, "sample": range(len(atom)), "value": atom}))
    return pd.concat(frames, ignore_index=True)


def _atoms(method: str, n_subjects: int) -> dict[str, Any]:
    data = make_synthetic(n_subjects, N_TIMES, random_state=SHOWN_SEED)
    found = np.asarray(fit(method, data).dictionary_, float)
    return {"atoms": _unit(found[match_atoms(found, data.dictionary)])}


def _unit(atoms: np.ndarray) -> np.ndarray:
    """Return the single channel (K, L) of atoms (K, L, 1), at unit norm."""
    return atoms[..., 0] / np.linalg.norm(atoms[..., 0], axis=1, keepdims=True)


def draw(atoms: pd.DataFrame, sizes: Sequence[int]) -> Figure:
    """Draw one column per size and one row per pattern, the truth in black."""
    truth = _unit(common_patterns(len(atoms["sample"].unique())))
    figure = Figure(figsize=(2.3 * len(sizes), 4.2), layout="constrained")
    axes = figure.subplots(len(truth), len(sizes), sharex=True, sharey="row", squeeze=False)
    for column, size in enumerate(sizes):
        for k, pattern in enumerate(truth):
            part = atoms.query(f"S == {size} and atom == {k}")
            _draw_one(make_axes(axes[k, column]), part, pattern)
        axes[0, column].set_title(f"S = {size}")
        axes[-1, column].set_xlabel("time (samples)")
    for k, ax in enumerate(axes[:, 0]):
        ax.set_ylabel(f"pattern {k} (unit norm)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _draw_one(ax: Axes, part: pd.DataFrame, truth: np.ndarray) -> None:
    ax.plot(truth, color=SHARED, lw=2.5, alpha=0.35, label="truth")
    for method in METHODS:
        look = {"color": LOOKS[method]["color"], "lw": 1.2}
        one = part[part["method"] == method]
        ax.plot(one["sample"], one["value"], label=method, **look)


def _line(table: pd.DataFrame, method: str, settings: str) -> Line:
    said = "recovers the atoms as S grows" if method == "PerCDL" else "does not (picture)"
    distances = fig_conv.mean_distances(table, method)
    found = ", ".join(f"{d:.3f} (S = {s})" for s, d in distances.items())
    return Line(f"{method}: distance", said, found, settings)


def _read(table: pd.DataFrame) -> str:
    largest = max(table["S"].tolist())
    at_end = {m: fig_conv.mean_distances(table, m)[largest] for m in (*METHODS, fig_conv.FLOOR)}
    nearest = min(METHODS, key=lambda method: at_end[method])
    return (
        f"With {largest} subjects {nearest} is nearest to the patterns, at "
        f"{at_end[nearest] / at_end[fig_conv.FLOOR]:.2f} gauge floors; the other methods are at "
        + ", ".join(f"{at_end[m]:.3f} ({m})" for m in METHODS if m != nearest)
        + f" against its {at_end[nearest]:.3f}. Blunt corners are the mark of averaged timings."
    )
