"""fig:gait: the common atom, what groups make of it, and where they vary more than Healthy."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from percdl.experiments.gait_fits import (
    HEALTHY,
    KEPT,
    LENGTH,
    SFREQ,
    fit_in_place,
    load_walks,
    n_per_group,
    unit,
)
from percdl.experiments.gait_groups import (
    PATIENTS,
    GroupStudy,
    compare_with_paper,
    draw_patients,
    study_groups,
    tabulate,
)
from percdl.experiments.gait_looks import GROUP_COLORS, VELOCITY, WINDOW
from percdl.experiments.result import Line, Result, Study
from percdl.plotting.groups import mark_moments, plot_group_band
from percdl.plotting.style import SHARED, add_legend, label, make_axes


def run(study: Study) -> Result:
    """Fit PerCDL, summarize the groups and compare with the paper's reading of the phases."""
    n_members = n_per_group(study)
    common, groups = measure(n_members)
    table = tabulate(groups).assign(common_atom=common)
    judged = compare_with_paper(groups)
    settings = f"{3 * n_members} walks, {KEPT}; atoms at unit norm"
    lines = [
        Line(f"{row.group} differs at the {row.paper}", "yes", str(row.ours), settings)
        for row in judged.itertuples()
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
        seen = "; ".join(f"{row.paper}, {row.ours}" for row in part.itertuples())
        where = part["ours_varies"].iloc[0]
        sentences.append(
            f"{group} varies more than Healthy, highest first, {where}; where the paper sees it: "
            f"{seen}."
        )
    agree = judged["agrees"].sum()
    return (
        f"The common atom is at {apart:.2f} of Healthy's mean (unit norms). {' '.join(sentences)} "
        f"Of the paper's {len(judged)} statements {agree} hold here."
    )


def draw(common: np.ndarray, groups: GroupStudy) -> Figure:
    """Draw the common atom with Healthy on the left, the patients on the right."""
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=(2.2, 1))
    left = make_axes(figure.add_subplot(grid[0, 0]))
    healthy = groups.curves[HEALTHY]
    time = np.arange(LENGTH) / SFREQ
    plot_group_band(
        healthy.mean[:, 0], healthy.sd[:, 0], "Healthy, mean personalized atom",
        color=GROUP_COLORS[HEALTHY], sfreq=SFREQ, ax=left,
    )  # fmt: skip
    left.plot(time, unit(common), color=SHARED, lw=2, label="common atom")
    mark_moments({name: at / SFREQ for name, at in groups.phases[HEALTHY].items()}, left)
    label(left, WINDOW, VELOCITY)
    add_legend(left, headroom=0.3, n_columns=1)
    below = None
    for column, group in enumerate(PATIENTS, start=1):
        top = make_axes(figure.add_subplot(grid[0, column], sharex=left, sharey=left))
        below = make_axes(figure.add_subplot(grid[1, column], sharex=left, sharey=below))
        draw_patients(top, below, groups, group, "personalized atom")
        add_legend(top, n_columns=1)
    return figure
