"""Matplotlib functions: they take data and an optional Axes, and return the Axes."""

from percdl.plotting.atoms import plot_atoms, plot_personal_atoms
from percdl.plotting.bands import plot_atom_band
from percdl.plotting.choosing import plot_atom_length, plot_selection
from percdl.plotting.groups import mark_moments, plot_group_band, plot_relative_variability
from percdl.plotting.history import plot_history
from percdl.plotting.reconstruction import plot_reconstruction
from percdl.plotting.warps import plot_warps

__all__ = [
    "mark_moments",
    "plot_atom_band",
    "plot_atom_length",
    "plot_atoms",
    "plot_group_band",
    "plot_history",
    "plot_personal_atoms",
    "plot_reconstruction",
    "plot_relative_variability",
    "plot_selection",
    "plot_warps",
]
