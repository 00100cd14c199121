"""The ECGs of the paper: ecg:errors, and atoms and reconstructions in lead II.

The study takes the same number of records of each of the five diagnostic superclasses, 12 leads
at 100 Hz. The first atom is the loudest beat of the first normal record, with its R peak at
0.24 s, so that the T wave lies in the window of 0.65 s. Fits use no other diagnosis.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.figure import Figure

from percdl.algorithm.settings import Algorithm
from percdl.datasets import PTBXL, load_ptbxl_balanced
from percdl.datasets.ptbxl import SUPERCLASSES
from percdl.estimators import IndCDL, PerCDL, PopCDL
from percdl.estimators.base import BaseCDL
from percdl.experiments.fits import BARYCENTER, draw_errors, errors_of_fits, panels
from percdl.experiments.study import Line, Result, Study, lines
from percdl.plotting import plot_reconstruction
from percdl.plotting.style import COLORS, FAINT, add_legend, label
from percdl.signals import Cohort
from percdl.signals.extras import require
from percdl.signals.reconstruction import rebuild
from percdl.transforms import TimeWarp, Transform

LENGTH, SFREQ, R_PEAK = 65, 100, 24
BAND = (0.5, 40.0)
# Compressed values are proportional to voltages below this, in mV, and logarithmic above.
KNEE = 0.1
# The paper's 20 steps.
ALGORITHM = Algorithm(population_rounds=5, personal_rounds=15, realign=False)
WARP = TimeWarp(4, 7, per_channel=True)
MODELS: dict[str, type[BaseCDL]] = {"IndCDL": IndCDL, "PopCDL": PopCDL, "PerCDL": PerCDL}

RAW, FILTERED, COMPRESSED = "unit power", "0.5 to 40 Hz, unit power", "0.5 to 40 Hz, compressed"
# In squared signal units; records have unit power, or values of about one.
PENALTY = 1.0
COMMON_SETTINGS = f"K = 1, L = {LENGTH}, lambda = {PENALTY:g}, 20 rounds"
SETTINGS = f"{COMMON_SETTINGS}, D = 4, W = 7 per lead"
# Windows stay where the common atom puts them, so that all parameters refer to the same clock.
# The alternative is the library's default: it searches each subject's window and better starts of
# the warps, and centers the warps.
KEPT, SEARCHED = "windows kept", "windows, starts and gauge searched"
# Errors of the paper, and records of ecg:errors.
PAPER = {"IndCDL": 0.176, "PopCDL": 0.370, "PerCDL": 0.282, BARYCENTER: 0.417}
CASES = (RAW, FILTERED)
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

Crowds = dict[str, dict[str, Float[np.ndarray, "s L"]]]


def n_per_class(study: Study) -> int:
    """Return the number of records of each superclass."""
    return study.pick(40, 530)


@cache
def load_records(n_members: int) -> PTBXL:
    """Load the balanced records, in mV."""
    return load_ptbxl_balanced(n_per_class=n_members)


@cache
def prepare(n_members: int, processing: str) -> Cohort:
    """Return the records processed in one of the three ways."""
    cohort = load_records(n_members).cohort
    if processing != RAW:
        cohort = cohort.bandpass(*BAND, order=2)
    if processing == COMPRESSED:
        return cohort.apply(lambda x: np.arcsinh(x / KNEE), f"compressed, arcsinh(x / {KNEE} mV)")
    return cohort.apply(lambda x: x / np.sqrt(np.mean(x**2)), "scaled to unit power")


def first_beat(cohort: Cohort) -> Float[np.ndarray, "1 L P"]:
    """Return the loudest whole beat of the first normal record."""
    values = cohort[cohort.groups.index("NORM")].values
    within = slice(R_PEAK, len(values) - LENGTH + R_PEAK)
    onset = int(np.square(values).sum(1)[within].argmax())
    return values[None, onset : onset + LENGTH]


@cache
def fit(
    name: str,
    n_members: int,
    processing: str,
    transform: Transform | None = None,
    alignment: str = KEPT,
) -> BaseCDL:
    """Fit one of `MODELS`; PerCDL by default with the paper's warps."""
    cohort = prepare(n_members, processing)
    search = alignment == SEARCHED
    options: dict[str, Any] = {"penalty": PENALTY, "random_state": 0, "progress": False}
    options["algorithm"] = replace(
        ALGORITHM, realign=search, multistart=search, centering="refit" if search else "off"
    )
    if name == "PerCDL":
        options["transformation"] = transform or WARP
    return MODELS[name](1, LENGTH, init=first_beat(cohort), **options).fit(cohort)


def mean_amplitudes(model: BaseCDL) -> Float[np.ndarray, " S"]:
    """Return the mean activation of each subject; NaN for one without any."""
    means: Any = model.events_.groupby("subject")["amplitude"].mean()
    return means.reindex(list(model.subjects_)).to_numpy(float)


def ecg_errors(study: Study) -> Result:
    """ecg:errors: reconstruction errors of the three models and of IndCDL's barycenter."""
    n_members = n_per_class(study)
    numbers = measure_errors(study, n_members)
    found, ratios, looks = [], [], []
    for i, case in enumerate(CASES):
        settings = f"{5 * n_members} records, {SETTINGS}, {case}"
        errors: Any = numbers.loc[case].to_dict()
        found += [Line(m, f"{said}", f"{errors[m]:.3f}", settings) for m, said in PAPER.items()]
        paper, ours = (f"{x['PerCDL'] / x['PopCDL']:.3f}" for x in (PAPER, errors))
        ratios.append(Line("PerCDL / PopCDL", paper, ours, settings))
        look = {"color": COLORS[i], "marker": "os"[i], "ms": 7, "label": f"ours, {case}"}
        looks.append((errors, look))
    figure, axes = panels((7, 3.2))
    draw_errors(axes[0, 0], PAPER, looks, 0.15)
    add_legend(axes[0, 0])
    return Result(
        found + ratios,
        {"ecg_errors": numbers.reset_index()},
        {"ecg_errors": figure},
        "All records have unit power. How the paper scaled them is not known, so compare ratios "
        "rather than errors.",
    )


def measure_errors(study: Study, n_members: int) -> pd.DataFrame:
    """Return the errors, one row per processing and one column per model."""
    return study.sweep(_errors, n_members=[n_members], records=CASES).set_index("records")


def _errors(n_members: int, records: str) -> dict[str, float]:
    models = {name: fit(name, n_members, records) for name in MODELS}
    return errors_of_fits(models, prepare(n_members, records))


def fig_ecg_atoms(study: Study) -> Result:
    """fig:app:ecg_atoms: the atoms in lead II, by superclass, with IndCDL and with PerCDL."""
    n_members = n_per_class(study)
    crowds = {name: atoms_by_class(name, n_members) for name in SAID_OF_ATOMS}
    curves, spreads = measure_crowds(crowds)
    found = []
    for method, said in SAID_OF_ATOMS.items():
        part = spreads[spreads["method"] == method]
        ours = ", ".join(
            f"{c} {s:.2f}" for c, s in zip(part["superclass"], part["spread"], strict=True)
        )
        quantity = f"{method}: energy around the class mean, lead {LEAD}"
        found.append((quantity, f"{said} (picture)", ours))
    return Result(
        lines(f"{5 * n_members} records, {SETTINGS}, {FILTERED}", found),
        {"fig_ecg_atoms": curves, "fig_ecg_atoms_spread": spreads},
        {"fig_ecg_atoms": _draw_crowds(crowds, curves)},
        "The energy of the atoms around the mean of their superclass is relative to their own.",
    )


def atoms_by_class(name: str, n_members: int) -> dict[str, Float[np.ndarray, "s L"]]:
    """Return the personal atoms in lead II, all leads together at unit norm."""
    cohort = prepare(n_members, FILTERED)
    atoms = fit(name, n_members, FILTERED).personal_dictionary_[:, 0]
    atoms = atoms / np.linalg.norm(atoms, axis=(1, 2), keepdims=True)
    lead = atoms[:, :, cohort.channels.index(LEAD)]
    groups, known = np.array(cohort.groups), ~np.isnan(lead).any(1)
    return {name: lead[(groups == name) & known] for name in SUPERCLASSES}


def measure_crowds(crowds: Crowds) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the barycenters, and the energy of the atoms around the Euclidean one."""
    tslearn = require("tslearn.barycenters", "The DTW barycenter", "reproduce")
    curves, spreads = [], []
    for method, classes in crowds.items():
        for name, atoms in classes.items():
            about = {"method": method, "superclass": name}
            mean = atoms.mean(0)
            warped = tslearn.dtw_barycenter_averaging(
                atoms, init_barycenter=mean[:, None], max_iter=10
            )
            for kind, curve in ((EUCLIDEAN, mean), (DTW, np.asarray(warped)[:, 0])):
                rows = {"kind": kind, "sample": range(len(curve)), "value": curve}
                curves.append(pd.DataFrame({**about, **rows}))
            around = np.sum((atoms - mean) ** 2) / np.sum(atoms**2)
            spreads.append({**about, "n": len(atoms), "spread": float(around)})
    return pd.concat(curves, ignore_index=True), pd.DataFrame(spreads)


def _draw_crowds(crowds: Crowds, curves: pd.DataFrame) -> Figure:
    """Draw a row per method and a column per superclass."""
    figure, axes = panels((12, 5), len(crowds), len(SUPERCLASSES), sharex=True, sharey=True)
    time = np.arange(LENGTH) / SFREQ
    shown = [(m, name, atoms) for m, classes in crowds.items() for name, atoms in classes.items()]
    for ax, (method, name, atoms) in zip(axes.flat, shown, strict=True):
        look = {"color": FAINT, "lw": 0.4, "rasterized": True}
        for line in ax.plot(time, atoms[:MOST_DRAWN].T, **look)[:1]:
            line.set_label(f"subjects (up to {MOST_DRAWN})")
        part = curves[(curves["method"] == method) & (curves["superclass"] == name)]
        for kind, look in LOOKS.items():
            ax.plot(time, part.loc[part["kind"] == kind, "value"], lw=1.8, label=kind, **look)
        ax.set_title(f"{name}, {method}", fontsize="medium")
        label(ax, "time (s)", f"lead {LEAD} (atom at unit norm)")
        ax.label_outer()
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def fig_ecg_recon(study: Study) -> Result:
    """fig:app:ecg_recon: three records of myocardial infarction, reconstructed by each model."""
    n_members = n_per_class(study)
    cohort = prepare(n_members, FILTERED)
    shown = list(cohort.select(group=GROUP).subjects[:N_SHOWN])
    figure, axes = panels(
        (13, 2.4 * len(shown)), len(shown), len(MODELS), sharex=True, sharey="row"
    )
    found, frames = [], []
    for column, (method, said) in zip(axes.T, SAID_OF_RECORDS.items(), strict=True):
        model = fit(method, n_members, FILTERED)
        parts = [_reconstruct(model, cohort, subject) for subject in shown]
        errors = []
        for ax, part, subject in zip(column, parts, shown, strict=True):
            missed = np.sum((part["recording"] - part["reconstruction"]) ** 2)
            errors.append(float(missed / np.sum(part["recording"] ** 2)))
            _draw_record(ax, part, model.events_.query("subject == @subject"))
            ax.set_title(f"{method}, record {subject}: error {errors[-1]:.2f}", fontsize="medium")
            frames.append(part.assign(method=method, subject=subject))
        rebuilt = np.stack([part["reconstruction"] for part in parts])
        roughness = np.sum(np.diff(rebuilt) ** 2) / np.sum(rebuilt**2)
        ours = ", ".join(f"{error:.2f}" for error in errors) + f"; roughness {roughness:.3f}"
        found.append((f"{method}: errors of three records", f"{said} (picture)", ours))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return Result(
        lines(f"{5 * n_members} records, {SETTINGS}, {FILTERED}", found),
        {"fig_ecg_recon": pd.concat(frames, ignore_index=True)},
        {"fig_ecg_recon": figure},
        "Roughness is the energy of a reconstruction's increments over its own energy.",
    )


def _reconstruct(model: BaseCDL, cohort: Cohort, subject: str) -> pd.DataFrame:
    """Return lead II of a record and of its reconstruction, for the seconds drawn."""
    row, events = cohort.subjects.index(subject), model.events_.query("subject == @subject")
    atoms = model.personal_dictionary_[row : row + 1]
    rebuilt = rebuild([cohort[subject]], events, atoms)[0]
    at = slice(SECONDS * SFREQ), cohort.channels.index(LEAD)
    columns = {"recording": cohort[subject].values[at], "reconstruction": rebuilt[at]}
    return pd.DataFrame(columns).rename_axis("sample").reset_index()


def _draw_record(ax: Any, part: pd.DataFrame, events: pd.DataFrame) -> None:
    plot_reconstruction(
        part[["recording"]].to_numpy(),
        part[["reconstruction"]].to_numpy(),
        events.query(f"onset_sample < {len(part)}"),
        atom_length=LENGTH,
        name=f"lead {LEAD} (unit power)",
        sfreq=SFREQ,
        ax=ax,
    )
    ax.set_xlim(0, SECONDS)
    ax.label_outer()
    if (legend := ax.get_legend()) is not None:  # one for all, below
        legend.remove()
