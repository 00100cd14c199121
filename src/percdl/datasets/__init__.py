"""Synthetic cohorts with known truth, and public recordings."""

from percdl.datasets.gait import GaitData, find_gait, load_gait
from percdl.datasets.ptbxl import (
    PTBXL,
    find_ptbxl,
    load_ptbxl,
    load_ptbxl_archive,
    load_ptbxl_balanced,
)
from percdl.datasets.scoring import (
    atom_distance,
    match_atoms,
    onset_accuracy,
    personal_atom_distance,
)
from percdl.datasets.synthetic import (
    SyntheticCohort,
    common_letters,
    common_patterns,
    make_handwriting,
    make_synthetic,
)

__all__ = [
    "PTBXL",
    "GaitData",
    "SyntheticCohort",
    "atom_distance",
    "common_letters",
    "common_patterns",
    "find_gait",
    "find_ptbxl",
    "load_gait",
    "load_ptbxl",
    "load_ptbxl_archive",
    "load_ptbxl_balanced",
    "make_handwriting",
    "make_synthetic",
    "match_atoms",
    "onset_accuracy",
    "personal_atom_distance",
]
