"""The scikit-learn estimators PerCDL, PopCDL and IndCDL."""

from typing import TYPE_CHECKING, Any

from percdl.estimators.hyperparameters import Motif
from percdl.estimators.percdl import IndCDL, PerCDL, PopCDL
from percdl.estimators.personalization import Personalization

if TYPE_CHECKING:
    from percdl.estimators.landmarks import Mark, intervals

__all__ = ["IndCDL", "Mark", "Motif", "PerCDL", "Personalization", "PopCDL", "intervals"]


def __getattr__(name: str) -> Any:
    """Import names that need JAX on first use."""
    if name not in ("Mark", "intervals"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from percdl.estimators import landmarks

    return getattr(landmarks, name)
