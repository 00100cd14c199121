"""What a fitted model leaves of recordings, from its own events and personal atoms."""

from __future__ import annotations

import numpy as np

from percdl import Cohort
from percdl.analysis import normalized_reconstruction_error
from percdl.estimators.base import BaseCDL


def rebuild(model: BaseCDL, cohort: Cohort) -> list[np.ndarray]:
    """Return the recordings of a fit as its events and personal atoms say they are."""
    rows = {subject: s for s, subject in enumerate(cohort.subjects)}
    rebuilt = [np.zeros(record.values.shape) for record in cohort]
    for event in model.events_.itertuples():
        atom = model.personal_dictionary_[rows[event.subject], event.atom]
        end = event.onset_sample + len(atom)
        rebuilt[rows[event.subject]][event.onset_sample : end] += event.amplitude * atom
    return rebuilt


def squared_error(model: BaseCDL, cohort: Cohort, clean: Cohort | None = None) -> float:
    """Return ``sum |x - x_hat|^2 / sum |x|^2`` of a fit, against clean recordings if given."""
    return normalized_reconstruction_error(clean or cohort, rebuild(model, cohort))
