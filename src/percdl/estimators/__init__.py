"""PerCDL, PopCDL and IndCDL: the scikit-learn face."""

from percdl.estimators.hyperparameters import Motif
from percdl.estimators.percdl import IndCDL, PerCDL, PopCDL
from percdl.estimators.personalization import Personalization

__all__ = ["IndCDL", "Motif", "PerCDL", "Personalization", "PopCDL"]
