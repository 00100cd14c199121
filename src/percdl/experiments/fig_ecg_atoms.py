"""fig:app:ecg_atoms: everyone's atom in lead II, by superclass, with IndCDL and with PerCDL."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from percdl.datasets.ptbxl_tables import SUPERCLASSES
from percdl.estimators import IndCDL
from percdl.estimators.base import BaseCDL
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.ecg_fits import (
    FILTERED,
    SETTINGS,
    SFREQ,
    fit,
    fit_other,
    n_per_class,
    prepare,
)
from percdl.plotting.style import COLORS, FAINT, label, make_axes, time_axis
from percdl.signals.extras import require

LEAD = "II"
METHODS = ("IndCDL", "PerCDL")
EUCLIDEAN, DTW = "Euclidean barycenter", "DTW barycenter"
LOOKS: dict[str, dict[str, Any]] = {
    EUCLIDEAN: {"color": COLORS[0]},
    DTW: {"color": COLORS[1], "ls": "--"},
}
# A crowd of more lines is a grey surface.
MOST_DRAWN = 150


def run(study: Study) -> Result:
    """Draw the atoms of each superclass and their two barycenters."""
    n_members = n_per_class(study)
    crowds = {name: atoms_by_class(name, n_members) for name in METHODS}
    curves, spreads = measure(crowds)
    settings = f"{5 * n_members} records, {SETTINGS}, {FILTERED}"
    return Result(
        lines=[_line(spreads, name, settings) for name in METHODS],
        tables={"fig_ecg_atoms": curves, "fig_ecg_atoms_spread": spreads},
        figures={"fig_ecg_atoms": draw(crowds, curves)},
        reading=_read(spreads, curves),
    )


def atoms_by_class(method: str, n_members: int) -> dict[str, Float[np.ndarray, "s L"]]:
    """Return the personal atoms in lead II, all leads together at unit norm."""
    cohort = prepare(n_members, FILTERED)
    model: BaseCDL = (
        fit_other(IndCDL, n_members, FILTERED) if method == "IndCDL" else fit(n_members, FILTERED)
    )
    atoms = model.personal_dictionary_[:, 0]
    atoms = atoms / np.linalg.norm(atoms, axis=(1, 2), keepdims=True)
    lead = atoms[:, :, cohort.channels.index(LEAD)]
    groups = np.array(cohort.groups)
    known = ~np.isnan(lead).any(1)
    return {name: lead[(groups == name) & known] for name in SUPERCLASSES}


def measure(
    crowds: dict[str, dict[str, Float[np.ndarray, "s L"]]],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the barycenters, and the energy of the atoms around the Euclidean one."""
    curves, spreads = [], []
    for method, classes in crowds.items():
        for name, atoms in classes.items():
            about = {"method": method, "superclass": name}
            for kind, curve in barycenters(atoms).items():
                rows = {"kind": kind, "sample": range(len(curve)), "value": curve}
                curves.append(pd.DataFrame({**about, **rows}))
            around = np.sum((atoms - atoms.mean(0)) ** 2) / np.sum(atoms**2)
            spreads.append({**about, "n": len(atoms), "spread": float(around)})
    return pd.concat(curves, ignore_index=True), pd.DataFrame(spreads)


def barycenters(atoms: Float[np.ndarray, "s L"]) -> dict[str, Float[np.ndarray, " L"]]:
    """Return the mean of atoms, and their mean under time warping."""
    mean = atoms.mean(0)
    tslearn = require("tslearn.barycenters", "The DTW barycenter", "reproduce")
    warped = tslearn.dtw_barycenter_averaging(atoms, init_barycenter=mean[:, None], max_iter=10)
    return {EUCLIDEAN: mean, DTW: np.asarray(warped)[:, 0]}


def draw(crowds: dict[str, dict[str, Float[np.ndarray, "s L"]]], curves: pd.DataFrame) -> Figure:
    """Draw a row per method and a column per superclass."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    axes = figure.subplots(len(METHODS), len(SUPERCLASSES), sharex=True, sharey=True)
    for row, method in zip(axes, METHODS, strict=True):
        for ax, name in zip(row, SUPERCLASSES, strict=True):
            part = curves.query("method == @method and superclass == @name")
            _draw_one(make_axes(ax), crowds[method][name], part)
            ax.set_title(f"{name}, {method}", fontsize="medium")
            label(ax, "time (s)" if method == METHODS[-1] else "", "")
        row[0].set_ylabel(f"lead {LEAD} (atom at unit norm)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_one(ax: Axes, atoms: Float[np.ndarray, "s L"], curves: pd.DataFrame) -> None:
    time, _ = time_axis(atoms.shape[1], SFREQ)
    shown = atoms[:MOST_DRAWN]
    name = f"subjects (up to {MOST_DRAWN})"
    ax.plot(time, shown[0], color=FAINT, lw=0.6, label=name)
    ax.plot(time, shown[1:].T, color=FAINT, lw=0.4, rasterized=True)
    for kind, look in LOOKS.items():
        curve = curves.loc[curves["kind"] == kind, "value"]
        ax.plot(time, curve, lw=1.8, label=kind, **look)


def _mean_spread(spreads: pd.DataFrame, method: str) -> float:
    return float(spreads.loc[spreads["method"] == method, "spread"].mean())


def _line(spreads: pd.DataFrame, method: str, settings: str) -> Line:
    said = "volatile (picture)" if method == "IndCDL" else "coherent across subjects (picture)"
    part = spreads[spreads["method"] == method]
    found = ", ".join(
        f"{name} {value:.2f}"
        for name, value in zip(part["superclass"], part["spread"], strict=True)
    )
    return Line(f"{method}: energy around the class mean, lead {LEAD}", said, found, settings)


def compare_peaks(curves: pd.DataFrame) -> pd.Series:
    """Return the largest magnitude of the DTW barycenter over the Euclidean one's, by panel."""
    peaks = curves.assign(peak=curves["value"].abs()).pivot_table(
        values="peak", index=["method", "superclass"], columns="kind", aggfunc="max"
    )
    return pd.Series(peaks[DTW] / peaks[EUCLIDEAN])


def _read(spreads: pd.DataFrame, curves: pd.DataFrame) -> str:
    free, ours = (_mean_spread(spreads, method) for method in METHODS)
    verdict = "hold together more" if ours < free else "do not hold together more"
    peaks = compare_peaks(curves)
    return (
        f"Around the mean of its superclass an atom of IndCDL has a share of {free:.2f} of its "
        f"energy in lead {LEAD}, one of PerCDL {ours:.2f}: PerCDL's atoms {verdict}. The "
        f"DTW barycenter has a higher peak than the Euclidean one in {(peaks > 1).sum()} of "
        f"{len(peaks)} panels ({peaks.min():.2f} to {peaks.max():.2f} times as high)."
    )
