"""What to choose before a fit, and what to make of it afterwards."""

from percdl.analysis.atom_length import AtomLength, suggest_atom_length
from percdl.analysis.bootstrap import Bootstrap, bootstrap_atoms
from percdl.analysis.uncertainty import Uncertainty, estimate_uncertainty

__all__ = [
    "AtomLength",
    "Bootstrap",
    "Uncertainty",
    "bootstrap_atoms",
    "estimate_uncertainty",
    "suggest_atom_length",
]
