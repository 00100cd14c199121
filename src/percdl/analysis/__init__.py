"""What to choose before a fit, and what to make of it afterwards."""

from percdl.analysis.atom_length import AtomLength, suggest_atom_length
from percdl.analysis.bootstrap import Bootstrap, bootstrap_atoms
from percdl.analysis.segmentation import Segmentation, score_segmentation
from percdl.analysis.selection import Selection, select
from percdl.analysis.uncertainty import Uncertainty, estimate_uncertainty

__all__ = [
    "AtomLength",
    "Bootstrap",
    "Segmentation",
    "Selection",
    "Uncertainty",
    "bootstrap_atoms",
    "estimate_uncertainty",
    "score_segmentation",
    "select",
    "suggest_atom_length",
]
