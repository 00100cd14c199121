"""Matplotlib functions: they take data and an optional Axes, and return the Axes."""

from percdl.plotting.model import (
    plot_atom_band,
    plot_atom_length,
    plot_atoms,
    plot_history,
    plot_kinds_path,
    plot_personal_atoms,
    plot_selection,
    plot_speed,
    plot_warps,
)
from percdl.plotting.people import (
    plot_changes,
    plot_deviation_profile,
    plot_deviation_ranking,
    plot_embedding,
    plot_group_comparison,
)
from percdl.plotting.recordings import (
    plot_activations,
    plot_cycles,
    plot_landmarks,
    plot_marks,
    plot_reconstruction,
    plot_score,
)

__all__ = [
    "plot_activations", "plot_atom_band", "plot_atom_length", "plot_atoms", "plot_changes",
    "plot_cycles", "plot_deviation_profile", "plot_deviation_ranking", "plot_embedding",
    "plot_group_comparison", "plot_history", "plot_kinds_path", "plot_landmarks", "plot_marks",
    "plot_personal_atoms", "plot_reconstruction", "plot_score", "plot_selection", "plot_speed",
    "plot_warps",
]  # fmt: skip
