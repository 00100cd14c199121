"""fig:IndCDL_PopCDL: in each group, the mean of the individual atoms and PopCDL's atom."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from percdl.datasets.gait import GROUPS
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.gait_fits import (
    KEPT,
    LENGTH,
    SFREQ,
    fit_in_place,
    load_walks,
    n_per_group,
    unit,
)
from percdl.experiments.studies.gait_groups import GroupStudy, study_groups, tabulate
from percdl.experiments.studies.gait_looks import GROUP_COLORS, VELOCITY, WINDOW
from percdl.plotting.groups import mark_moments, plot_group_band
from percdl.plotting.style import SHARED, add_legend, label, make_axes


def run(study: Study) -> Result:
    """Compare both models in each group."""
    n_members = n_per_group(study)
    groups, atoms = measure(n_members)
    distances = compare(groups, atoms)
    settings = f"{n_members} walks a group, {KEPT}; unit norms"
    return Result(
        lines=[
            Line(
                f"{group}: IndCDL mean to PopCDL atom", "similar (picture)",
                f"{distance:.3f}", settings,
            )
            for group, distance in distances.to_numpy()
        ],
        tables={
            "fig_indcdl_popcdl": tabulate(groups).assign(
                **{f"{g}_PopCDL": atom for g, atom in atoms.items()}
            ),
            "fig_indcdl_popcdl_distances": distances,
        },
        figures={"fig_indcdl_popcdl": draw(groups, atoms)},
        reading=_read(distances),
    )  # fmt: skip


def measure(n_members: int) -> tuple[GroupStudy, dict[str, np.ndarray]]:
    """Return IndCDL's groups, and PopCDL's atom of each group in the same window."""
    groups = study_groups(fit_in_place("IndCDL", n_members), load_walks(n_members))
    atoms = {g: fit_in_place("PopCDL", n_members, g).dictionary_[0, :, 0] for g in GROUPS}
    return groups, atoms


def compare(groups: GroupStudy, atoms: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return the distance of both curves in each group, at unit norm."""
    rows = []
    for group, atom in atoms.items():
        apart = np.linalg.norm(unit(groups.curves[group].mean[:, 0]) - unit(atom))
        rows.append({"group": group, "distance": float(apart)})
    return pd.DataFrame(rows)


def _read(distances: pd.DataFrame) -> str:
    largest = distances["distance"].to_numpy().max()
    return (
        f"The mean of the individual atoms and PopCDL's atom are {largest:.2f} apart at most "
        f"(two shapes of unit norm with nothing in common: 1.41), "
        f"{'similar, as the paper says' if largest < 0.3 else 'which is not similar'}. The band "
        "shows what neither of the two curves does: how much the walkers of a group differ."
    )


def draw(groups: GroupStudy, atoms: dict[str, np.ndarray]) -> Figure:
    """Draw one panel per group: mean and band of IndCDL, atom of PopCDL, phases."""
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    axes = figure.subplots(1, len(GROUPS), sharex=True, sharey=True)
    time = np.arange(LENGTH) / SFREQ
    for ax, group in zip(axes, GROUPS, strict=True):
        curve = groups.curves[group]
        plot_group_band(
            curve.mean[:, 0], curve.sd[:, 0], f"{group}, IndCDL mean",
            color=GROUP_COLORS[group], sfreq=SFREQ, ax=make_axes(ax),
        )  # fmt: skip
        ax.plot(time, atoms[group], "--", color=SHARED, lw=1.5, label="PopCDL of the group")
        mark_moments({name: at / SFREQ for name, at in groups.phases[group].items()}, ax)
        label(ax, WINDOW, VELOCITY if group == GROUPS[0] else "")
        add_legend(ax, headroom=0.25)
    return figure
