"""Data to learn from: synthetic cohorts whose truth is known."""

from percdl.datasets.handwriting import common_letters, make_handwriting
from percdl.datasets.scoring import atom_distance, match_atoms, onset_accuracy
from percdl.datasets.synthetic import SyntheticCohort, common_patterns, make_synthetic

__all__ = [
    "SyntheticCohort",
    "atom_distance",
    "common_letters",
    "common_patterns",
    "make_handwriting",
    "make_synthetic",
    "match_atoms",
    "onset_accuracy",
]
