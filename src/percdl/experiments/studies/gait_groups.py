"""Groups of walkers seen through a model: means, spreads, variability against Healthy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from percdl.analysis.groups import GroupCurve, relative_variability, summarize_groups
from percdl.datasets.gait import GROUPS
from percdl.estimators.base import BaseCDL
from percdl.experiments.studies.gait_fits import HEALTHY, LENGTH, SFREQ, Walks, personal_atoms
from percdl.experiments.studies.gait_looks import GROUP_COLORS, VARIABILITY_COLOR, VELOCITY, WINDOW
from percdl.experiments.studies.gait_phases import (
    Phases,
    annotated_window,
    find_humps,
    find_phases,
    judge,
    name_place,
    paper_statements,
)
from percdl.plotting.groups import mark_moments, plot_group_band, plot_relative_variability
from percdl.plotting.style import label

PATIENTS = GROUPS[1:]
# Samples at each end of the atom that count as its ends.
N_ENDS = 5
NOWHERE = "nowhere more than Healthy"


@dataclass(frozen=True, eq=False)
class GroupStudy:
    """What a model says of the groups.

    Attributes
    ----------
    curves : dict of group to GroupCurve
        Mean and standard deviation of the unit-norm personal atoms.
    variability : dict of group to array (L,)
        Of the patients, relative to Healthy.
    phases : dict of group to Phases
        Moments of the gait cycle on the atom's window, in samples.
    """

    curves: dict[str, GroupCurve]
    variability: dict[str, np.ndarray]
    phases: dict[str, Phases]


def study_groups(model: BaseCDL, walks: Walks) -> GroupStudy:
    """Summarize the personal atoms of a fitted model by group."""
    curves = summarize_groups(personal_atoms(model)[..., None], list(walks.groups))
    annotated = annotated_window(model, walks)
    return GroupStudy(
        curves,
        {g: relative_variability(curves[g], curves[HEALTHY])[:, 0] for g in PATIENTS},
        {g: find_phases(curves[g].mean[:, 0], annotated[walks.groups == g]) for g in GROUPS},
    )


def tabulate(study: GroupStudy) -> pd.DataFrame:
    """Return means, standard deviations and relative variability, one row per sample."""
    columns: dict[str, np.ndarray] = {"time_s": np.arange(LENGTH) / SFREQ}
    for group, curve in study.curves.items():
        columns[f"{group}_mean"], columns[f"{group}_sd"] = curve.mean[:, 0], curve.sd[:, 0]
    for group, variability in study.variability.items():
        columns[f"{group}_relative_variability"] = variability
    return pd.DataFrame(columns)


def compare_with_paper(study: GroupStudy) -> pd.DataFrame:
    """Return, for each statement of the paper, whether ours varies there, and where it does."""
    rows = []
    for group in PATIENTS:
        phases, variability = study.phases[group], study.variability[group]
        humps = find_humps(variability)
        where = "; ".join(f"{name_place(hump, phases)} ({hump / SFREQ:.2f} s)" for hump in humps)
        rows += [
            {
                "group": group,
                "paper": words,
                "from_s": meant[0] / SFREQ,
                "to_s": meant[1] / SFREQ,
                "agrees": judge(variability, meant).agrees,
                "ours": str(judge(variability, meant)),
                "ours_varies": where or NOWHERE,
            }
            for (of, words), meant in paper_statements(phases).items()
            if of == group
        ]
    return pd.DataFrame(rows)


def ends_share(curve: GroupCurve) -> float:
    """Return the mean standard deviation at the ends of the atom over that of the rest."""
    sd = curve.sd[:, 0]
    ends = np.concatenate([sd[:N_ENDS], sd[-N_ENDS:]])
    return float(ends.mean() / sd[N_ENDS:-N_ENDS].mean())


def draw_patients(top: Axes, bottom: Axes, study: GroupStudy, group: str, what: str) -> None:
    """Draw a group's mean and band above, its variability against Healthy below."""
    curve, healthy = study.curves[group], study.curves[HEALTHY]
    moments = {name: at / SFREQ for name, at in study.phases[group].items()}
    tint = GROUP_COLORS[group]
    plot_group_band(
        curve.mean[:, 0], curve.sd[:, 0], f"{group}, mean {what}", color=tint, sfreq=SFREQ, ax=top
    )
    time = np.arange(LENGTH) / SFREQ
    top.plot(time, healthy.mean[:, 0], "--", color=GROUP_COLORS[HEALTHY], lw=1.2, label=HEALTHY)
    plot_relative_variability(
        study.variability[group], "sd beyond Healthy's", color=VARIABILITY_COLOR, sfreq=SFREQ,
        ax=bottom,
    )  # fmt: skip
    mark_moments(moments, top)
    mark_moments(moments, bottom, named=False)
    label(top, "", VELOCITY)
    label(bottom, WINDOW, "relative\nvariability")
