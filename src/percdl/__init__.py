"""Personalized convolutional dictionary learning of physiological time series.

The names below are imported when they are first used, so ``import percdl`` is fast:
JAX, scikit-learn and pandas are loaded only when they are needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from percdl.registry import register

__version__ = "0.2.0"

if TYPE_CHECKING:
    from percdl.algorithm.settings import Algorithm, Huber
    from percdl.analysis import select, suggest_atom_length
    from percdl.datasets import load_gait, load_ptbxl, make_synthetic
    from percdl.estimators import IndCDL, PerCDL, PopCDL
    from percdl.estimators.modelfile import load
    from percdl.estimators.stream import Stream
    from percdl.federated.estimator import FederatedPerCDL
    from percdl.runtimes.dask import DaskRuntime, local_cluster
    from percdl.runtimes.partitioned import OutOfCore
    from percdl.signals import (
        Cohort,
        Recording,
        ShardedCohort,
        average_segments,
        events_to_annotations,
        events_to_bids,
        events_to_csv,
        events_to_wfdb,
        find_corrections,
        read_annotations,
        read_corrections,
        write_corrections,
        write_shards,
    )
    from percdl.steps.coders import L0Coder, L1Coder
    from percdl.transforms import (
        Compose,
        Custom,
        Free,
        Gain,
        Identity,
        Modulation,
        Rotation,
        Shift,
        TimeWarp,
    )

__all__ = [
    "Algorithm", "Cohort", "Compose", "Custom", "DaskRuntime", "FederatedPerCDL", "Free", "Gain",
    "Huber", "Identity", "IndCDL", "L0Coder", "L1Coder", "Modulation", "OutOfCore", "PerCDL",
    "PopCDL", "Recording", "Rotation", "ShardedCohort", "Shift", "Stream", "TimeWarp",
    "__version__", "average_segments", "events_to_annotations", "events_to_bids", "events_to_csv",
    "events_to_wfdb", "find_corrections", "load", "load_gait", "load_ptbxl", "local_cluster",
    "make_synthetic", "read_annotations", "read_corrections", "select", "suggest_atom_length",
    "write_corrections", "write_shards",
]  # fmt: skip

_NAMES = {
    "algorithm.settings": "Algorithm Huber",
    "analysis": "select suggest_atom_length",
    "datasets": "load_gait load_ptbxl make_synthetic",
    "estimators": "IndCDL PerCDL PopCDL",
    "estimators.modelfile": "load",
    "estimators.stream": "Stream",
    "federated.estimator": "FederatedPerCDL",
    "runtimes.dask": "DaskRuntime local_cluster",
    "runtimes.partitioned": "OutOfCore",
    "signals": "Cohort Recording ShardedCohort average_segments events_to_annotations "
    "events_to_bids events_to_csv events_to_wfdb find_corrections read_annotations "
    "read_corrections write_corrections write_shards",
    "steps.coders": "L0Coder L1Coder",
    "transforms": "Compose Custom Free Gain Identity Modulation Rotation Shift TimeWarp",
}
_HOMES = {name: f"percdl.{home}" for home, names in _NAMES.items() for name in names.split()}


# The models are in a lower layer than the functions that describe them.
register("save", lambda: import_module("percdl.estimators.modelfile").save)
register("write_person", lambda: import_module("percdl.report.person").write_person)
register("write_report", lambda: import_module("percdl.report.cohort").write_report)


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'percdl' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next access does not call this function
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
