"""fig:app:ecg_recon: three records of myocardial infarction as the three models see them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from percdl.estimators import IndCDL, PopCDL
from percdl.estimators.base import BaseCDL
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.ecg_fits import (
    FILTERED,
    LENGTH,
    SETTINGS,
    SFREQ,
    fit,
    fit_other,
    n_per_class,
    prepare,
)
from percdl.experiments.studies.residuals import rebuild_fit
from percdl.plotting import plot_reconstruction

METHODS = ("IndCDL", "PopCDL", "PerCDL")
LEAD, GROUP, N_SHOWN = "II", "MI", 3
SECONDS = 5
N_TIMES = SECONDS * SFREQ


def run(study: Study) -> Result:
    """Reconstruct the first three records of the group, and draw lead II."""
    n_members = n_per_class(study)
    cohort = prepare(n_members, FILTERED).select(group=GROUP)
    shown = list(cohort.subjects[:N_SHOWN])
    fits = fit_all(n_members)
    numbers = measure(fits, n_members, shown)
    settings = f"{5 * n_members} records, {SETTINGS}, {FILTERED}"
    return Result(
        lines=[_line(numbers, name, settings) for name in METHODS],
        tables={"fig_ecg_recon": numbers},
        figures={"fig_ecg_recon": draw(fits, numbers, n_members, shown)},
        reading=_read(numbers),
    )


def fit_all(n_members: int) -> dict[str, BaseCDL]:
    """Return the three fits."""
    return {
        "IndCDL": fit_other(IndCDL, n_members, FILTERED),
        "PopCDL": fit_other(PopCDL, n_members, FILTERED),
        "PerCDL": fit(n_members, FILTERED),
    }


def measure(fits: dict[str, BaseCDL], n_members: int, shown: list[str]) -> pd.DataFrame:
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


def draw(
    fits: dict[str, BaseCDL], numbers: pd.DataFrame, n_members: int, shown: list[str]
) -> Figure:
    """Draw a row per record and a column per model."""
    figure = Figure(figsize=(13, 2.4 * len(shown)), layout="constrained")
    axes = figure.subplots(len(shown), len(METHODS), sharex=True, sharey="row", squeeze=False)
    for column, method in enumerate(METHODS):
        events = fits[method].events_
        for row, subject in enumerate(shown):
            part = numbers.query("method == @method and subject == @subject")
            ax = plot_reconstruction(
                part["recording"].to_numpy()[:, None],
                part["reconstruction"].to_numpy()[:, None],
                events.query("subject == @subject and onset_sample < @N_TIMES"),
                atom_length=LENGTH,
                name=f"lead {LEAD} (unit power)",
                sfreq=SFREQ,
                ax=axes[row, column],
            )
            ax.set_xlim(0, SECONDS)
            ax.set_title(
                f"{method}, record {subject}: error {_error(part):.2f}", fontsize="medium"
            )
            ax.label_outer()
            if (legend := ax.get_legend()) is not None:  # one for all, below
                legend.remove()
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _error(part: pd.DataFrame) -> float:
    missed = np.sum((part["recording"] - part["reconstruction"]) ** 2)
    return float(missed / np.sum(part["recording"] ** 2))


def errors(numbers: pd.DataFrame, method: str) -> list[float]:
    """Return the error of each record shown, in lead II."""
    part = numbers.query("method == @method")
    shown = part["subject"].unique()
    return [_error(part.query("subject == @subject")) for subject in shown]


def roughness(numbers: pd.DataFrame, method: str) -> float:
    """Return the energy of the reconstructions' increments over their own energy."""
    records = numbers.query("method == @method").groupby("subject")["reconstruction"]
    jumps = sum(np.sum(np.diff(values) ** 2) for _, values in records)
    return float(jumps / sum(np.sum(values**2) for _, values in records))


def _line(numbers: pd.DataFrame, method: str, settings: str) -> Line:
    said = {"IndCDL": "fits noise", "PopCDL": "poor", "PerCDL": "between, smoother"}[method]
    found = ", ".join(f"{value:.2f}" for value in errors(numbers, method))
    return Line(f"{method}: errors of three records", f"{said} (picture)", found, settings)


def _read(numbers: pd.DataFrame) -> str:
    means = {method: float(np.mean(errors(numbers, method))) for method in METHODS}
    order = sorted(means, key=lambda name: means[name])
    between = "is" if order[1] == "PerCDL" else "is not"
    free, ours = (roughness(numbers, method) for method in ("IndCDL", "PerCDL"))
    return (
        f"Mean errors in lead {LEAD} rise as {' < '.join(order)} ("
        + ", ".join(f"{name} {value:.2f}" for name, value in means.items())
        + f"): PerCDL {between} between the two others, where the paper sees it. Its "
        f"reconstructions are {'smoother' if ours < free else 'no smoother'} than IndCDL's "
        f"(energy of increments over energy: {ours:.3f}, IndCDL {free:.3f})."
    )
