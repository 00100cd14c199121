"""What to choose before a fit, and what to make of it afterwards."""

from percdl.analysis.atom_length import AtomLength, suggest_atom_length
from percdl.analysis.bootstrap import Bootstrap, bootstrap_atoms
from percdl.analysis.classification import FeatureAUC, feature_auc, paper_classifier
from percdl.analysis.clusters import Cluster
from percdl.analysis.covariates import regress
from percdl.analysis.deviation import Deviation, measure_deviation
from percdl.analysis.effects import Effects, separate_effects
from percdl.analysis.groups import GroupCurve, relative_variability, summarize_groups
from percdl.analysis.parameter_tests import ParameterComparison, compare_parameters
from percdl.analysis.permutation import Comparison, compare_groups
from percdl.analysis.regression import CovariateTest, Regression
from percdl.analysis.regularity import atom_prevalence, measure_regularity
from percdl.analysis.rhythm import judge_events
from percdl.analysis.samples import average_persons
from percdl.analysis.segmentation import Segmentation, score_segmentation
from percdl.analysis.selection import Selection, select
from percdl.analysis.trade_off import relative_amplitude, sensitivity_at, trace_trade_off
from percdl.analysis.uncertainty import Uncertainty, estimate_uncertainty
from percdl.signals.reconstruction import normalized_reconstruction_error

__all__ = [
    "AtomLength",
    "Bootstrap",
    "Cluster",
    "Comparison",
    "CovariateTest",
    "Deviation",
    "Effects",
    "FeatureAUC",
    "GroupCurve",
    "ParameterComparison",
    "Regression",
    "Segmentation",
    "Selection",
    "Uncertainty",
    "atom_prevalence",
    "average_persons",
    "bootstrap_atoms",
    "compare_groups",
    "compare_parameters",
    "estimate_uncertainty",
    "feature_auc",
    "judge_events",
    "measure_deviation",
    "measure_regularity",
    "normalized_reconstruction_error",
    "paper_classifier",
    "regress",
    "relative_amplitude",
    "relative_variability",
    "score_segmentation",
    "select",
    "sensitivity_at",
    "separate_effects",
    "suggest_atom_length",
    "summarize_groups",
    "trace_trade_off",
]
