"""What the three pictures of recovery share: signals and atoms, the truth under what was found."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from percdl.datasets import SyntheticCohort
from percdl.experiments.studies.known_truth import Codes, rebuild
from percdl.plotting.style import FAINT, OBSERVED, SHARED, color, label, make_axes

# The truth is wide and pale, what was found thin and dark on top of it.
TRUE: dict[str, Any] = {"linewidth": 6, "alpha": 0.35, "solid_capstyle": "butt"}
FOUND: dict[str, Any] = {"linewidth": 1.5, "linestyle": "--"}


def draw_reconstruction(
    data: SyntheticCohort,
    codes: Codes,
    dictionary: Float[np.ndarray, "K L P"],
    personal: Float[np.ndarray, "S K L P"],
) -> Figure:
    """Draw each recording and its reconstruction, and beside them everyone's atoms."""
    n_subjects, n_atoms = personal.shape[:2]
    figure = Figure(figsize=(13, 2.3 * n_subjects), layout="constrained")
    grid = figure.add_gridspec(n_subjects, 1 + n_atoms, width_ratios=[4, *[1.2] * n_atoms])
    rebuilt = rebuild(codes, personal, data.cohort[0].n_times)
    for s in range(n_subjects):
        ax = make_axes(figure.add_subplot(grid[s, 0]))
        _draw_signal(ax, data, rebuilt[s], s)
        for k in range(n_atoms):
            panel = make_axes(figure.add_subplot(grid[s, 1 + k]))
            _draw_atoms(panel, data.personal_dictionary[s, k], personal[s, k], dictionary[k], k)
            panel.set_title(f"atom {k}, subject {s}", fontsize="medium")
    for ax in figure.axes[-1 - n_atoms :]:
        ax.set_xlabel("time (samples)")
    for ax in figure.axes[: 1 + n_atoms]:
        ax.legend(fontsize="x-small", frameon=False, loc="upper right")
    return figure


def _draw_signal(ax: Axes, data: SyntheticCohort, rebuilt: np.ndarray, subject: int) -> None:
    ax.plot(data.cohort[subject].values[:, 0], color=FAINT, lw=5, label="recording")
    ax.plot(rebuilt[:, 0], color=SHARED, lw=1, label="reconstruction")
    ax.margins(x=0)
    ax.set_ylim(-1.3, 1.8)
    ax.set_title(f"subject {subject}", fontsize="medium")
    label(ax, "", "amplitude (a.u.)")


def _draw_atoms(
    ax: Axes, truth: np.ndarray, found: np.ndarray, common: np.ndarray, atom: int
) -> None:
    ax.plot(common[:, 0], color=OBSERVED, lw=1, linestyle=":", label="common atom")
    # Given or found, as the experiment has it.
    draw_pair(ax, np.arange(len(truth)), truth[:, 0], found[:, 0], color(atom), "in use")
    ax.set_ylim(-1.3, 2.6)


def draw_pair(
    ax: Axes,
    time: np.ndarray,
    truth: np.ndarray,
    found: np.ndarray,
    tint: str,
    name: str = "found",
) -> None:
    """Draw what was found over the truth."""
    ax.plot(time, truth, color=tint, label="true", **TRUE)
    ax.plot(time, found, color=SHARED, label=name, **FOUND)
