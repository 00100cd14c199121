"""ECG atoms and reconstructions in lead II: fig:app:ecg_atoms and fig:app:ecg_recon."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from percdl.datasets.ptbxl import SUPERCLASSES
from percdl.estimators.base import BaseCDL
from percdl.experiments.ecg_fits import (
    FILTERED,
    LENGTH,
    SETTINGS,
    SFREQ,
    fit_all,
    n_per_class,
    prepare,
)
from percdl.experiments.fits import panels, rebuild_fit
from percdl.experiments.study import Line, Result, Study
from percdl.plotting import plot_reconstruction
from percdl.plotting.style import COLORS, FAINT
from percdl.signals.extras import require

LEAD = "II"
EUCLIDEAN, DTW = "Euclidean barycenter", "DTW barycenter"
LOOKS: dict[str, dict[str, Any]] = {
    EUCLIDEAN: {"color": COLORS[0]},
    DTW: {"color": COLORS[1], "ls": "--"},
}
# More lines would merge into a grey surface.
MOST_DRAWN = 150
# What the paper's pictures show.
SAID_OF_ATOMS = {"IndCDL": "volatile", "PerCDL": "coherent across subjects"}
SAID_OF_RECORDS = {"IndCDL": "fits noise", "PopCDL": "poor", "PerCDL": "between, smoother"}
GROUP, N_SHOWN, SECONDS = "MI", 3, 5
N_TIMES = SECONDS * SFREQ

Crowds = dict[str, dict[str, Float[np.ndarray, "s L"]]]


def fig_ecg_atoms(study: Study) -> Result:
    """fig:app:ecg_atoms: the atoms in lead II, by superclass, with IndCDL and with PerCDL."""
    n_members = n_per_class(study)
    fits = fit_all(n_members, FILTERED)
    crowds = {name: atoms_by_class(fits[name], n_members) for name in SAID_OF_ATOMS}
    curves, spreads = measure_crowds(crowds)
    lines = []
    for method, part in spreads.groupby("method", sort=False):
        found = ", ".join(f"{c} {s:.2f}" for c, s in part[["superclass", "spread"]].to_numpy())
        quantity = f"{method}: energy around the class mean, lead {LEAD}"
        settings = f"{5 * n_members} records, {SETTINGS}, {FILTERED}"
        lines.append(Line(quantity, f"{SAID_OF_ATOMS[str(method)]} (picture)", found, settings))
    return Result(
        lines=lines,
        tables={"fig_ecg_atoms": curves, "fig_ecg_atoms_spread": spreads},
        figures={"fig_ecg_atoms": _draw_crowds(crowds, curves)},
        reading="The energy of the atoms around the mean of their superclass is relative to their "
        "own.",
    )


def atoms_by_class(model: BaseCDL, n_members: int) -> dict[str, Float[np.ndarray, "s L"]]:
    """Return the personal atoms in lead II, all leads together at unit norm."""
    cohort = prepare(n_members, FILTERED)
    atoms = model.personal_dictionary_[:, 0]
    atoms = atoms / np.linalg.norm(atoms, axis=(1, 2), keepdims=True)
    lead = atoms[:, :, cohort.channels.index(LEAD)]
    groups, known = np.array(cohort.groups), ~np.isnan(lead).any(1)
    return {name: lead[(groups == name) & known] for name in SUPERCLASSES}


def measure_crowds(crowds: Crowds) -> tuple[pd.DataFrame, pd.DataFrame]:
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


def _draw_crowds(crowds: Crowds, curves: pd.DataFrame) -> Figure:
    """Draw a row per method and a column per superclass."""
    figure, axes = panels((12, 5), len(crowds), len(SUPERCLASSES), sharex=True, sharey=True)
    for row, (method, classes) in zip(axes, crowds.items(), strict=True):
        for ax, (name, atoms) in zip(row, classes.items(), strict=True):
            part = curves.query("method == @method and superclass == @name")
            _draw_crowd(ax, atoms[:MOST_DRAWN], part)
            ax.set_title(f"{name}, {method}", fontsize="medium")
        row[0].set_ylabel(f"lead {LEAD} (atom at unit norm)")
    for ax in axes[-1]:
        ax.set_xlabel("time (s)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_crowd(ax: Axes, atoms: Float[np.ndarray, "s L"], curves: pd.DataFrame) -> None:
    time = np.arange(atoms.shape[1]) / SFREQ
    name = f"subjects (up to {MOST_DRAWN})"
    ax.plot(time, atoms[0], color=FAINT, lw=0.6, label=name)
    ax.plot(time, atoms[1:].T, color=FAINT, lw=0.4, rasterized=True)
    for kind, look in LOOKS.items():
        curve = curves.loc[curves["kind"] == kind, "value"]
        ax.plot(time, curve, lw=1.8, label=kind, **look)


def fig_ecg_recon(study: Study) -> Result:
    """fig:app:ecg_recon: three records of myocardial infarction, reconstructed by each model."""
    n_members = n_per_class(study)
    shown = list(prepare(n_members, FILTERED).select(group=GROUP).subjects[:N_SHOWN])
    fits = fit_all(n_members, FILTERED)
    numbers = _reconstructions(fits, n_members, shown)
    errors = record_errors(numbers)
    return Result(
        lines=[
            Line(
                f"{method}: errors of three records",
                f"{said} (picture)",
                ", ".join(f"{errors[method, subject]:.2f}" for subject in shown)
                + f"; roughness {roughness(numbers, method):.3f}",
                f"{5 * n_members} records, {SETTINGS}, {FILTERED}",
            )
            for method, said in SAID_OF_RECORDS.items()
        ],
        tables={"fig_ecg_recon": numbers},
        figures={"fig_ecg_recon": _draw_records(fits, numbers, errors, shown)},
        reading="Roughness is the energy of a reconstruction's increments over its own energy.",
    )


def _reconstructions(fits: dict[str, BaseCDL], n_members: int, shown: list[str]) -> pd.DataFrame:
    """Return lead II of the records and of their reconstructions, for the seconds drawn."""
    cohort = prepare(n_members, FILTERED)
    lead = cohort.channels.index(LEAD)
    frames = []
    for method, model in fits.items():
        rebuilt = dict(zip(cohort.subjects, rebuild_fit(model, cohort), strict=True))
        for subject in shown:
            values = {
                "recording": cohort[subject].values[:N_TIMES, lead],
                "reconstruction": rebuilt[subject][:N_TIMES, lead],
            }
            about = {"method": method, "subject": subject, "sample": range(N_TIMES)}
            frames.append(pd.DataFrame({**about, **values}))
    return pd.concat(frames, ignore_index=True)


def record_errors(numbers: pd.DataFrame) -> dict[Any, float]:
    """Return the normalized error of each method and record, in lead II."""
    errors = {}
    for key, part in numbers.groupby(["method", "subject"], sort=False):
        missed = np.sum((part["recording"] - part["reconstruction"]) ** 2)
        errors[key] = float(missed / np.sum(part["recording"] ** 2))
    return errors


def roughness(numbers: pd.DataFrame, method: str) -> float:
    """Return the energy of the reconstructions' increments over their own energy."""
    records = numbers[numbers["method"] == method].groupby("subject")["reconstruction"]
    jumps = sum(np.sum(np.diff(values) ** 2) for _, values in records)
    return float(jumps / sum(np.sum(values**2) for _, values in records))


def _draw_records(
    fits: dict[str, BaseCDL], numbers: pd.DataFrame, errors: dict[Any, float], shown: list[str]
) -> Figure:
    """Draw a row per record and a column per model."""
    figure, axes = panels((13, 2.4 * len(shown)), len(shown), len(fits), sharex=True, sharey="row")
    for (row, column), ax in np.ndenumerate(axes):
        method, subject = list(fits)[column], shown[row]
        part = numbers.query("method == @method and subject == @subject")
        events = fits[method].events_
        plot_reconstruction(
            part["recording"].to_numpy()[:, None],
            part["reconstruction"].to_numpy()[:, None],
            events.query("subject == @subject and onset_sample < @N_TIMES"),
            atom_length=LENGTH,
            name=f"lead {LEAD} (unit power)",
            sfreq=SFREQ,
            ax=ax,
        )
        ax.set_xlim(0, SECONDS)
        title = f"{method}, record {subject}: error {errors[method, subject]:.2f}"
        ax.set_title(title, fontsize="medium")
        ax.label_outer()
        if (legend := ax.get_legend()) is not None:  # one for all, below
            legend.remove()
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
