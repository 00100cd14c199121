"""What a fit leaves of the recordings it was fitted on, from its own events and atoms."""

from __future__ import annotations

import numpy as np

from percdl.estimators.base import BaseCDL
from percdl.signals import Cohort
from percdl.signals.reconstruction import normalized_reconstruction_error, rebuild


def rebuild_fit(model: BaseCDL, cohort: Cohort) -> list[np.ndarray]:
    """Return the recordings of a fit as its events and personal atoms say they are."""
    return rebuild(cohort, model.events_, model.personal_dictionary_)


def error_of_fit(model: BaseCDL, cohort: Cohort, truth: Cohort | None = None) -> float:
    """Return the normalized reconstruction error of a fit (decision 12).

    ``truth`` holds the recordings to compare with where they are not those of the fit: the
    same without noise, say.
    """
    return normalized_reconstruction_error(truth or cohort, rebuild_fit(model, cohort))
