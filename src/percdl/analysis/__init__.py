"""Choose settings before a fit, and analyse the results afterwards."""

from percdl.analysis.bootstrap import Bootstrap, bootstrap_atoms
from percdl.analysis.choosing import AtomLength, Selection, select, suggest_atom_length
from percdl.analysis.covariates import CovariateTest, Regression, regress
from percdl.analysis.deviation import Deviation, measure_deviation
from percdl.analysis.effects import Effects, separate_effects
from percdl.analysis.groups import (
    Comparison,
    ParameterComparison,
    average_persons,
    compare_groups,
    compare_parameters,
    feature_auc,
)
from percdl.analysis.permutation import Cluster
from percdl.analysis.reliability import (
    compare_distances,
    describe_recordings,
    measure_changes,
    measure_reliability,
)
from percdl.analysis.rhythm import atom_prevalence, judge_events, measure_regularity, sort_cycles
from percdl.analysis.segmentation import (
    Segmentation,
    relative_amplitude,
    score_events,
    sensitivity_at,
    trace_trade_off,
)
from percdl.analysis.uncertainty import Uncertainty, estimate_uncertainty
from percdl.signals.reconstruction import normalized_reconstruction_error

__all__ = [
    "AtomLength", "Bootstrap", "Cluster", "Comparison", "CovariateTest", "Deviation", "Effects",
    "ParameterComparison", "Regression", "Segmentation", "Selection", "Uncertainty",
    "atom_prevalence", "average_persons", "bootstrap_atoms", "compare_distances", "compare_groups",
    "compare_parameters", "describe_recordings", "estimate_uncertainty", "feature_auc",
    "judge_events", "measure_changes", "measure_deviation", "measure_regularity",
    "measure_reliability", "normalized_reconstruction_error", "regress", "relative_amplitude",
    "score_events", "select", "sensitivity_at", "separate_effects", "sort_cycles",
    "suggest_atom_length", "trace_trade_off",
]  # fmt: skip
