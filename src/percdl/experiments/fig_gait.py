"""fig:gait: the common atom, what groups make of it, and where they vary more than Healthy."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.gait_fits import (
    HEALTHY,
    KEPT,
    LENGTH,
    SFREQ,
    fit_in_place,
    load_walks,
    n_per_group,
    unit,
)
from percdl.experiments.studies.gait_groups import (
    NOWHERE,
    PATIENTS,
    GroupStudy,
    compare_with_paper,
    draw_patients,
    study_groups,
    tabulate,
)
from percdl.experiments.studies.gait_looks import GROUP_COLORS, VELOCITY, WINDOW
from percdl.plotting.groups import mark_moments, plot_group_band
from percdl.plotting.style import SHARED, add_legend, label, make_axes

MAINLY = "differs mainly there"


def run(study: Study) -> Result:
    """Fit PerCDL, summarize the groups and compare with the paper's reading of the phases."""
    n_members = n_per_group(study)
    common, groups = measure(n_members)
    table = tabulate(groups).assign(common_atom=common)
    judged = compare_with_paper(groups)
    settings = f"{3 * n_members} walks, {KEPT}; atoms at unit norm"
    lines = [
        Line(f"{group} varies more than its share of time at: {words}", MAINLY, ours, settings)
        for group, words, ours in judged[["group", "paper", "ours"]].to_numpy()
    ]
    apart = distance_to_healthy(common, groups)
    lines.append(
        Line("common atom to Healthy mean", "similar (picture)", f"{apart:.3f}", settings)
    )
    return Result(
        lines=lines,
        tables={
            "fig_gait": table, "fig_gait_reading": judged, "fig_gait_phases": phase_table(groups)
        },
        figures={"fig_gait": draw(common, groups)},
        reading=_read(judged, apart),
    )  # fmt: skip


def measure(n_members: int) -> tuple[np.ndarray, GroupStudy]:
    """Return PerCDL's common atom (L,) and what it says of the groups."""
    model = fit_in_place("PerCDL", n_members)
    return model.dictionary_[0, :, 0], study_groups(model, load_walks(n_members))


def distance_to_healthy(common: np.ndarray, groups: GroupStudy) -> float:
    """Return the Euclidean distance of the common atom to Healthy's mean, both at unit norm."""
    return float(np.linalg.norm(unit(common) - unit(groups.curves[HEALTHY].mean[:, 0])))


def phase_table(groups: GroupStudy) -> pd.DataFrame:
    """Return the moments of the gait cycle, in seconds, one row per group."""
    frame = pd.DataFrame(groups.phases).T / SFREQ
    return frame.rename_axis("group").reset_index()


def _read(judged: pd.DataFrame, apart: float) -> str:
    sentences = []
    for group, part in judged.groupby("group", sort=False):
        seen = "; ".join(f"{words}, {ours}" for words, ours in part[["paper", "ours"]].to_numpy())
        where = part["ours_varies"].iloc[0]
        ours = where if where == NOWHERE else f"more than Healthy, highest first, {where}"
        sentences.append(f"{group} varies {ours}; where the paper sees it: {seen}.")
    agree = judged["agrees"].sum()
    return (
        f"The common atom is {apart:.2f} away from Healthy's mean (unit norms). "
        f"{' '.join(sentences)} Of the {len(judged)} places that the paper names, {agree} have a "
        "hump and more than their share of the excess here."
    )


def draw(common: np.ndarray, groups: GroupStudy) -> Figure:
    """Draw the common atom with Healthy on the left, the patients on the right.

    Below: Healthy's standard deviation, and how much the patients' exceeds it, in one unit.
    """
    figure = Figure(figsize=(12, 5), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True, sharey="row", height_ratios=(2.4, 1))
    _draw_healthy(make_axes(axes[0, 0]), make_axes(axes[1, 0]), common, groups)
    for (top, bottom), group in zip(axes.T[1:], PATIENTS, strict=True):
        draw_patients(make_axes(top), make_axes(bottom), groups, group, "personalized atom")
    for ax in axes[0]:
        add_legend(ax, headroom=0.4)
    return figure


def _draw_healthy(top: Axes, bottom: Axes, common: np.ndarray, groups: GroupStudy) -> None:
    healthy = groups.curves[HEALTHY]
    moments = {name: at / SFREQ for name, at in groups.phases[HEALTHY].items()}
    plot_group_band(
        healthy.mean[:, 0], healthy.sd[:, 0], "Healthy, mean personalized atom",
        color=GROUP_COLORS[HEALTHY], sfreq=SFREQ, ax=top,
    )  # fmt: skip
    time = np.arange(LENGTH) / SFREQ
    top.plot(time, unit(common), color=SHARED, lw=1.5, label="common atom")
    relative = healthy.sd[:, 0] / healthy.sd.max()
    bottom.plot(time, relative, color=GROUP_COLORS[HEALTHY], label="Healthy's own sd")
    mark_moments(moments, top)
    mark_moments(moments, bottom, named=False)
    label(top, "", VELOCITY)
    label(bottom, WINDOW, "sd of Healthy\n(of its max.)")
