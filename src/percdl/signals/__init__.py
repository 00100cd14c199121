"""Recordings of subjects and the cohorts they form: what every other layer reads."""

from percdl.signals.coerce import as_cohort
from percdl.signals.cohort import Cohort
from percdl.signals.recording import Recording

__all__ = ["Cohort", "Recording", "as_cohort"]
