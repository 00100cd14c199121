"""fig:app:gait_comp_indcdl: the analysis of fig:gait with IndCDL, and what its ends do."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from percdl.datasets.gait import GROUPS
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.gait_fits import (
    KEPT,
    SFREQ,
    fit_in_place,
    load_walks,
    n_per_group,
)
from percdl.experiments.studies.gait_groups import (
    N_ENDS,
    PATIENTS,
    GroupStudy,
    draw_patients,
    ends_share,
    study_groups,
    tabulate,
)
from percdl.plotting.style import add_legend, make_axes


def run(study: Study) -> Result:
    """Fit IndCDL, summarize the groups, and compare the ends of its atoms with PerCDL's."""
    n_members = n_per_group(study)
    individual, personal = measure(n_members)
    ends = compare_ends(individual, personal)
    settings = f"{3 * n_members} walks, {KEPT}; first and last {N_ENDS / SFREQ:g} s"
    return Result(
        lines=[
            Line(
                f"{group}: sd at the ends over sd elsewhere",
                "IndCDL's ends vary more (picture)",
                f"IndCDL {individuals:.2f}, PerCDL {persons:.2f}",
                settings,
            )
            for group, individuals, persons in ends.to_numpy()
        ],
        tables={"fig_gait_indcdl": tabulate(individual), "fig_gait_indcdl_ends": ends},
        figures={"fig_gait_indcdl": draw(individual)},
        reading=_read(ends),
    )


def measure(n_members: int) -> tuple[GroupStudy, GroupStudy]:
    """Return what IndCDL and PerCDL say of the groups."""
    walks = load_walks(n_members)
    models = (fit_in_place(name, n_members) for name in ("IndCDL", "PerCDL"))
    individual, personal = (study_groups(model, walks) for model in models)
    return individual, personal


def compare_ends(individual: GroupStudy, personal: GroupStudy) -> pd.DataFrame:
    """Return how much the ends of the atoms vary, relative to the rest, group by group."""
    return pd.DataFrame(
        {
            "group": group,
            "IndCDL": ends_share(individual.curves[group]),
            "PerCDL": ends_share(personal.curves[group]),
        }
        for group in GROUPS
    )


def _read(ends: pd.DataFrame) -> str:
    more = ends.loc[ends["IndCDL"] > ends["PerCDL"], "group"].tolist()
    times = (ends["IndCDL"] / ends["PerCDL"]).to_numpy()
    return (
        f"At the ends of its atoms IndCDL varies {times.min():.1f} to {times.max():.1f} times as "
        f"much as PerCDL, relative to the rest of the atom; more in {len(more)} of {len(ends)} "
        "groups. The paper calls that parasitic: next to an end lies whatever precedes or "
        "follows the cycle, which an atom without shared structure takes for its own, while a "
        "warp leaves the ends of the common atom where they are."
    )


def draw(individual: GroupStudy) -> Figure:
    """Draw the patients as fig:gait does."""
    figure = Figure(figsize=(8.5, 4.6), layout="constrained")
    axes = figure.subplots(2, len(PATIENTS), sharex=True, sharey="row", height_ratios=(2.2, 1))
    for column, group in enumerate(PATIENTS):
        top, bottom = (make_axes(ax) for ax in axes[:, column])
        draw_patients(top, bottom, individual, group, "IndCDL atom")
        add_legend(top)
    return figure
