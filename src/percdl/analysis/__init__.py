"""What a fitted model lets one conclude."""

from percdl.analysis.uncertainty import Uncertainty, estimate_uncertainty

__all__ = ["Uncertainty", "estimate_uncertainty"]
