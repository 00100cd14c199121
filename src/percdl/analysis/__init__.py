"""What to choose before a fit, and what to make of it afterwards."""

from percdl.analysis.atom_length import AtomLength, suggest_atom_length
from percdl.analysis.bootstrap import Bootstrap, bootstrap_atoms
from percdl.analysis.classification import FeatureAUC, feature_auc, paper_classifier
from percdl.analysis.deviation import Deviation, measure_deviation
from percdl.analysis.groups import GroupCurve, relative_variability, summarize_groups
from percdl.analysis.regularity import atom_prevalence, measure_regularity
from percdl.analysis.rhythm import judge_events
from percdl.analysis.segmentation import Segmentation, score_segmentation
from percdl.analysis.selection import Selection, select
from percdl.analysis.trade_off import relative_amplitude, sensitivity_at, trace_trade_off
from percdl.analysis.uncertainty import Uncertainty, estimate_uncertainty
from percdl.signals.reconstruction import normalized_reconstruction_error

__all__ = [
    "AtomLength",
    "Bootstrap",
    "Deviation",
    "FeatureAUC",
    "GroupCurve",
    "Segmentation",
    "Selection",
    "Uncertainty",
    "atom_prevalence",
    "bootstrap_atoms",
    "estimate_uncertainty",
    "feature_auc",
    "judge_events",
    "measure_deviation",
    "measure_regularity",
    "normalized_reconstruction_error",
    "paper_classifier",
    "relative_amplitude",
    "relative_variability",
    "score_segmentation",
    "select",
    "sensitivity_at",
    "suggest_atom_length",
    "summarize_groups",
    "trace_trade_off",
]
