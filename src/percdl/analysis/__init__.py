"""What a fitted model lets one conclude."""

from percdl.analysis.bootstrap import Bootstrap, bootstrap_atoms
from percdl.analysis.uncertainty import Uncertainty, estimate_uncertainty

__all__ = ["Bootstrap", "Uncertainty", "bootstrap_atoms", "estimate_uncertainty"]
