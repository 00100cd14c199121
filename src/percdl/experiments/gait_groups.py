"""Groups of walkers: phases of the gait cycle, and where groups differ from Healthy.

fig:gait, fig:IndCDL_PopCDL, fig:app:gait_comp_indcdl and tab:app:group_popcdl.

Two of the four phases come from the annotation: its intervals start when the foot begins to turn
(the heel rises) and end when it is at rest again (the foot is flat). Two come from the curve, as
is usual for a gyroscope on a foot: the toes leave the ground at the deepest dip before the peak
of the swing, and the heel touches it at the deepest dip after.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from percdl.analysis.groups import summarize_groups
from percdl.datasets import atom_distance
from percdl.datasets.gait import GROUPS
from percdl.experiments import gait
from percdl.experiments.fits import panels, unit
from percdl.experiments.gait import GROUP_COLORS, HEALTHY, IN_PLACE, SFREQ, TIME, fit_in_place
from percdl.experiments.study import Result, Study, find, lines
from percdl.plotting.style import (
    COLORS,
    LINE_STYLES,
    OBSERVED,
    SHARED,
    add_legend,
    fill_band,
    label,
)

HEEL_OFF, TOE_OFF, HEEL_ON, FOOT_FLAT = "heel off", "toe off", "heel on", "foot flat"
PATIENTS = GROUPS[1:]
# An onset farther than this from an annotated start does not belong to it, in samples.
FARTHEST = 50
# "At" a moment means within this number of samples.
NEAR = 5
# Samples at each end of the atom that count as its ends.
N_ENDS = 5
PAIRS = tuple(combinations(GROUPS, 2))
PAPER_DISTANCES = dict(zip(PAIRS, find("tab:app:group_popcdl").paper, strict=True))

Phases = Mapping[str, float]


@dataclass(frozen=True, eq=False)
class GroupStudy:
    """Groups as a model sees them.

    ``mean`` and ``sd`` (L, groups) are those of the unit-norm personal atoms, ``variability``
    (L, patients) is relative to Healthy, ``phases`` are in samples of the window.
    """

    mean: Any
    sd: Any
    variability: Any
    phases: dict[str, Phases]

    def tabulate(self, **more: Any) -> pd.DataFrame:
        """Return all curves, one row per sample."""
        columns: dict[str, Any] = {"time_s": TIME}
        for group in GROUPS:
            columns |= {f"{group}_mean": self.mean[group], f"{group}_sd": self.sd[group]}
        relative = self.variability.add_suffix("_relative_variability")
        return pd.DataFrame({**columns, **relative, **more})


def study_groups(name: str, n_members: int) -> GroupStudy:
    """Fit a model and summarize its personal atoms by group."""
    model, walks = fit_in_place(name, n_members), gait.load_walks(n_members)
    curves = summarize_groups(gait.personal_atoms(model)[..., None], list(walks.groups))
    mean = pd.DataFrame({group: curves[group].mean[:, 0] for group in GROUPS})
    sd = pd.DataFrame({group: curves[group].sd[:, 0] for group in GROUPS})
    # A ratio would be unreadable where Healthy does not vary.
    variability = sd[list(PATIENTS)].sub(sd[HEALTHY], axis=0) / sd[HEALTHY].max()
    annotated = annotated_window(model, walks)
    phases = {g: find_phases(mean[g].to_numpy(), annotated[walks.groups == g]) for g in GROUPS}
    return GroupStudy(mean, sd, variability, phases)


def annotated_window(model: gait.BaseCDL, walks: gait.Walks) -> Float[np.ndarray, "S 2"]:
    """Return each person's median annotated start and end, in samples after the model's onsets."""
    windows = {subject: np.full(2, np.nan) for subject in walks.cohort.subjects}
    for subject, found in model.events_.groupby("subject")["onset_sample"]:
        swings, onsets = walks.swings[str(subject)], found.to_numpy()
        nearest = onsets[np.abs(np.subtract.outer(swings[:, 0], onsets)).argmin(axis=1)]
        relative = swings - nearest[:, None]
        close = np.abs(relative[:, 0]) <= FARTHEST
        if close.any():
            windows[str(subject)] = np.median(relative[close], axis=0)
    return np.stack(list(windows.values()))


def find_phases(curve: Float[np.ndarray, " L"], annotated: Float[np.ndarray, "S 2"]) -> Phases:
    """Return the moments on a curve, in samples; ``annotated`` are starts and ends per person."""
    start, end = np.nanmean(annotated, axis=0)
    top = int(np.argmax(curve))
    moments = {
        HEEL_OFF: float(start),
        TOE_OFF: float(np.argmin(curve[:top])) if top else np.nan,
        HEEL_ON: float(top + np.argmin(curve[top:])),
        FOOT_FLAT: float(end),
    }
    return {name: at for name, at in moments.items() if 0 <= at < len(curve)}


def paper_statements(phases: Phases) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the paper's statements: (group, words) to the samples that they refer to."""
    toe, heel = phases[TOE_OFF], phases[HEEL_ON]
    quarter = (heel - toe) / 4
    heel_off = phases.get(HEEL_OFF, 0.0)
    end = "right before the end of the swing (heel on)"
    return {
        ("Orthopedic", "beginning of the swing (toe off)"): (toe - NEAR, toe + quarter),
        ("Neurological", "end of the stance (heel off to toe off)"): (heel_off - NEAR, toe + NEAR),
        ("Neurological", end): (heel - quarter, heel + NEAR),
    }


def judge(variability: Float[np.ndarray, " L"], stretch: tuple[float, float]) -> pd.Series:
    """Return the share of the variability beyond Healthy's in a stretch, and its share of time."""
    samples, excess = np.arange(len(variability)), np.maximum(variability, 0)
    inside = (samples >= stretch[0]) & (samples <= stretch[1])
    return pd.Series({"excess": excess[inside].sum() / excess.sum(), "time": inside.mean()})


def _draw_group(
    top: Axes, study: GroupStudy, group: str, name: str, bottom: Axes | None = None
) -> None:
    """Draw a group's mean and band, and mark its phases, also on the panel below."""
    mean, band, tint = study.mean[group], 2 * study.sd[group], GROUP_COLORS[group]
    fill_band(top, TIME, mean - band, mean + band, tint, label="± 2 sd")
    top.plot(TIME, mean, color=tint, lw=1.8, label=f"{group}, {name}")
    for index, (phase, at) in enumerate(study.phases[group].items()):
        for ax in filter(None, (top, bottom)):
            line = LINE_STYLES[1 + index % (len(LINE_STYLES) - 1)]
            ax.axvline(at / SFREQ, color=OBSERVED, lw=1, ls=line, zorder=0)
        top.annotate(
            phase, (at / SFREQ, 1), xycoords=("data", "axes fraction"),
            xytext=(0, 2 + 9 * (index % 2)), textcoords="offset points",  # on two levels
            ha="center", va="bottom", fontsize="x-small", color="0.3",
        )  # fmt: skip
    label(top, "" if bottom else gait.WINDOW, gait.VELOCITY)


def _draw_patients(axes: np.ndarray, study: GroupStudy, name: str) -> None:
    """Draw groups of patients above, and their variability against Healthy below."""
    for (top, bottom), group in zip(axes.T, PATIENTS, strict=True):
        _draw_group(top, study, group, name, bottom)
        healthy = {"color": GROUP_COLORS[HEALTHY], "lw": 1.2, "label": HEALTHY}
        top.plot(TIME, study.mean[HEALTHY], "--", **healthy)
        more = study.variability[group]
        bottom.axhline(0, color=OBSERVED, lw=0.8)
        fill_band(bottom, TIME, 0, np.maximum(more, 0), COLORS[1], alpha=0.25)
        bottom.plot(TIME, more, color=COLORS[1], lw=1.5, label="sd beyond Healthy's")
        label(bottom, gait.WINDOW, "relative\nvariability")


def _distance(curve: Any, other: Any) -> float:
    return float(np.linalg.norm(unit(np.asarray(curve)) - unit(np.asarray(other))))


def fig_gait(study: Study) -> Result:
    """fig:gait: the common atom, the groups, and where patients vary more than Healthy."""
    n_members = gait.n_per_group(study)
    common = fit_in_place("PerCDL", n_members).dictionary_[0, :, 0]
    groups = study_groups("PerCDL", n_members)
    rows = []
    for group in PATIENTS:
        for (of, words), stretch in paper_statements(groups.phases[group]).items():
            if of == group:
                start, end = stretch[0] / SFREQ, stretch[1] / SFREQ
                about = {"group": group, "paper": words, "from_s": start, "to_s": end}
                rows.append({**about, **judge(groups.variability[group].to_numpy(), stretch)})
    judged = pd.DataFrame(rows)
    phases = pd.DataFrame(groups.phases).T / SFREQ
    found = []
    for group, words, _, _, excess, time in judged.to_numpy():
        quantity = f"{group}, variability beyond Healthy's at: {words}"
        ours = f"{excess:.0%} of the excess in {time:.0%} of the window"
        found.append((quantity, "differs mainly there", ours))
    apart = f"{_distance(groups.mean[HEALTHY], common):.3f}"
    found.append(("common atom to Healthy mean", "similar (picture)", apart))
    tables = {"": groups.tabulate(common_atom=common), "_reading": judged}
    tables["_phases"] = phases.rename_axis("group").reset_index()
    settings = f"{3 * n_members} walks, {IN_PLACE}; atoms at unit norm"
    return Result(lines(settings, found), tables, _draw_gait(common, groups))


def _draw_gait(common: np.ndarray, groups: GroupStudy) -> Figure:
    """Draw Healthy on the left, the patients on the right; standard deviations below."""
    figure, axes = panels((12, 5), 2, 3, sharex=True, sharey="row", height_ratios=(2.4, 1))
    top, bottom = axes[:, 0]
    _draw_group(top, groups, HEALTHY, "mean personalized atom", bottom)
    top.plot(TIME, unit(common), color=SHARED, lw=1.5, label="common atom")
    sd = groups.sd[HEALTHY]
    bottom.plot(TIME, sd / sd.max(), color=GROUP_COLORS[HEALTHY], label="Healthy's own sd")
    label(bottom, gait.WINDOW, "sd of Healthy\n(of its max.)")
    _draw_patients(axes[:, 1:], groups, "mean personalized atom")
    for ax in axes[0]:
        add_legend(ax, headroom=0.4)
    return figure


def fig_gait_indcdl(study: Study) -> Result:
    """fig:app:gait_comp_indcdl: the analysis of fig:gait with IndCDL; the ends of its atoms."""
    n_members = gait.n_per_group(study)
    groups = {name: study_groups(name, n_members) for name in ("IndCDL", "PerCDL")}
    at_ends = np.minimum(np.arange(len(TIME)), np.arange(len(TIME))[::-1]) < N_ENDS
    shares = {n: one.sd[at_ends].mean() / one.sd[~at_ends].mean() for n, one in groups.items()}
    ends = pd.DataFrame(shares).rename_axis("group").reset_index()
    figure, axes = panels((8.5, 4.6), 2, 2, sharex=True, sharey="row", height_ratios=(2.2, 1))
    _draw_patients(axes, groups["IndCDL"], "mean IndCDL atom")
    for ax in axes[0]:
        add_legend(ax)
    said = "IndCDL's ends vary more (picture)"
    found = [
        (f"{g}: sd at the ends over sd elsewhere", said, f"IndCDL {free:.2f}, PerCDL {ours:.2f}")
        for g, free, ours in ends.to_numpy()
    ]
    settings = f"{3 * n_members} walks, {IN_PLACE}; first and last {N_ENDS / SFREQ:g} s"
    tables = {"": groups["IndCDL"].tabulate(), "_ends": ends}
    return Result(lines(settings, found), tables, figure)


def _group_atoms(n_members: int) -> Any:
    """Return the atom that PopCDL finds in each group alone."""
    fits = {group: fit_in_place("PopCDL", n_members, group) for group in GROUPS}
    return pd.DataFrame({group: model.dictionary_[0, :, 0] for group, model in fits.items()})


def fig_indcdl_popcdl(study: Study) -> Result:
    """fig:IndCDL_PopCDL: in each group, the mean of IndCDL's atoms and PopCDL's atom."""
    n_members = gait.n_per_group(study)
    groups, atoms = study_groups("IndCDL", n_members), _group_atoms(n_members)
    distances = {g: _distance(groups.mean[g], atoms[g]) for g in GROUPS}
    figure, axes = panels((12, 3.8), 1, len(GROUPS), sharex=True, sharey=True)
    for ax, group in zip(axes[0], GROUPS, strict=True):
        _draw_group(ax, groups, group, "IndCDL mean")
        ax.plot(TIME, atoms[group], "--", color=SHARED, lw=1.5, label="PopCDL of the group")
        ax.label_outer()
        add_legend(ax, headroom=0.25)
    found = [
        (f"{group}: IndCDL mean to PopCDL atom", "similar (picture)", f"{distance:.3f}")
        for group, distance in distances.items()
    ]
    table = pd.DataFrame(distances.items(), columns=["group", "distance"])
    tables = {"": groups.tabulate(**atoms.add_suffix("_PopCDL")), "_distances": table}
    settings = f"{n_members} walks a group, {IN_PLACE}; unit norms"
    return Result(lines(settings, found), tables, figure)


def tab_group_popcdl(study: Study) -> Result:
    """tab:app:group_popcdl: distances between the atoms that PopCDL finds in each group."""
    n_members = gait.n_per_group(study)
    atoms, rows = _group_atoms(n_members), []
    for a, b in PAIRS:
        one, other = (atoms[group].to_numpy()[None, :, None] for group in (a, b))
        distances = {metric: atom_distance(one, other, metric) for metric in ("dtw", "euclidean")}
        rows.append({"a": a, "b": b, **distances})
    numbers = pd.DataFrame(rows)
    found = [
        (f"{a} - {b}", f"{PAPER_DISTANCES[a, b]}", f"{dtw:.4f}")
        for a, b, dtw in numbers[["a", "b", "dtw"]].to_numpy()
    ]
    settings = f"{n_members} walks a group, {IN_PLACE}; unit-norm atoms, DTW without window"
    return Result(lines(settings, found), {"": numbers, "_atoms": atoms})
