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
    "Algorithm",
    "Cohort",
    "Compose",
    "Custom",
    "DaskRuntime",
    "FederatedPerCDL",
    "Free",
    "Gain",
    "Huber",
    "Identity",
    "IndCDL",
    "L0Coder",
    "L1Coder",
    "Modulation",
    "OutOfCore",
    "PerCDL",
    "PopCDL",
    "Recording",
    "Rotation",
    "ShardedCohort",
    "Shift",
    "Stream",
    "TimeWarp",
    "__version__",
    "average_segments",
    "events_to_annotations",
    "events_to_bids",
    "events_to_csv",
    "events_to_wfdb",
    "find_corrections",
    "load",
    "load_gait",
    "load_ptbxl",
    "local_cluster",
    "make_synthetic",
    "read_annotations",
    "read_corrections",
    "select",
    "suggest_atom_length",
    "write_corrections",
    "write_shards",
]

_HOME = {
    "Algorithm": "percdl.algorithm.settings",
    "Huber": "percdl.algorithm.settings",
    "PerCDL": "percdl.estimators",
    "PopCDL": "percdl.estimators",
    "IndCDL": "percdl.estimators",
    "load": "percdl.estimators.modelfile",
    "Stream": "percdl.estimators.stream",
    "DaskRuntime": "percdl.runtimes.dask",
    "FederatedPerCDL": "percdl.federated.estimator",
    "OutOfCore": "percdl.runtimes.partitioned",
    "local_cluster": "percdl.runtimes.dask",
    "L0Coder": "percdl.steps.coders",
    "L1Coder": "percdl.steps.coders",
    "Cohort": "percdl.signals",
    "Recording": "percdl.signals",
    "ShardedCohort": "percdl.signals",
    "write_shards": "percdl.signals",
    "events_to_annotations": "percdl.signals",
    "events_to_bids": "percdl.signals",
    "events_to_csv": "percdl.signals",
    "events_to_wfdb": "percdl.signals",
    "average_segments": "percdl.signals",
    "read_annotations": "percdl.signals",
    "find_corrections": "percdl.signals",
    "read_corrections": "percdl.signals",
    "write_corrections": "percdl.signals",
    "TimeWarp": "percdl.transforms",
    "Identity": "percdl.transforms",
    "Free": "percdl.transforms",
    "Rotation": "percdl.transforms",
    "Gain": "percdl.transforms",
    "Modulation": "percdl.transforms",
    "Shift": "percdl.transforms",
    "Compose": "percdl.transforms",
    "Custom": "percdl.transforms",
    "make_synthetic": "percdl.datasets",
    "load_gait": "percdl.datasets",
    "load_ptbxl": "percdl.datasets",
    "select": "percdl.analysis",
    "suggest_atom_length": "percdl.analysis",
}


# The models are in a lower layer than the functions that describe them.
register("save", lambda: import_module("percdl.estimators.modelfile").save)
register("write_person", lambda: import_module("percdl.report.person").write_person)
register("write_report", lambda: import_module("percdl.report.cohort").write_report)


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'percdl' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next access does not call this function
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
