"""PerCDL, PopCDL and IndCDL: the scikit-learn face."""

from percdl.estimators.individual import IndCDL
from percdl.estimators.motif import Motif
from percdl.estimators.percdl import PerCDL
from percdl.estimators.personalization import Personalization
from percdl.estimators.population import PopCDL

__all__ = ["IndCDL", "Motif", "PerCDL", "Personalization", "PopCDL"]
