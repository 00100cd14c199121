"""Synthetic cohorts with known truth, and public recordings."""

from percdl.datasets.gait import GaitData, load_gait
from percdl.datasets.ptbxl import PTBXL, load_ptbxl, load_ptbxl_balanced
from percdl.datasets.scoring import (
    atom_distance,
    match_atoms,
    onset_accuracy,
    personal_atom_distance,
)
from percdl.datasets.synthetic import SyntheticCohort, make_handwriting, make_synthetic

__all__ = [
    "PTBXL", "GaitData", "SyntheticCohort", "atom_distance", "load_gait", "load_ptbxl",
    "load_ptbxl_balanced", "make_handwriting", "make_synthetic", "match_atoms", "onset_accuracy",
    "personal_atom_distance",
]  # fmt: skip
