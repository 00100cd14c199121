"""What a fit leaves of the recordings it was fitted on, from its own events and atoms."""

from __future__ import annotations

import numpy as np

from percdl.analysis import normalized_reconstruction_error
from percdl.estimators.base import BaseCDL
from percdl.signals import Cohort


def rebuild(model: BaseCDL, cohort: Cohort) -> list[np.ndarray]:
    """Return the recordings of a fit as its events and personal atoms say they are."""
    rebuilt = {record.subject: np.zeros(record.values.shape) for record in cohort}
    atoms = dict(zip(cohort.subjects, model.personal_dictionary_, strict=True))
    columns = ("subject", "atom", "onset_sample", "amplitude")
    for subject, k, onset, amplitude in zip(*(model.events_[c] for c in columns), strict=True):
        atom = atoms[subject][k]
        rebuilt[subject][onset : onset + len(atom)] += amplitude * atom
    return list(rebuilt.values())


def error_of_fit(model: BaseCDL, cohort: Cohort) -> float:
    """Return the normalized reconstruction error of a fit (decision 12)."""
    return normalized_reconstruction_error(cohort, rebuild(model, cohort))
