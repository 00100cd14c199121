"""Recordings of subjects, cohorts, and their files."""

from percdl.signals.annotations import average_segments, read_annotations
from percdl.signals.cohort import Cohort
from percdl.signals.corrections import find_corrections, read_corrections, write_corrections
from percdl.signals.events import (
    events_to_annotations,
    events_to_bids,
    events_to_csv,
    events_to_wfdb,
)
from percdl.signals.recording import Recording
from percdl.signals.shards import AnyCohort, ShardedCohort, as_any_cohort, as_cohort, write_shards

__all__ = [
    "AnyCohort", "Cohort", "Recording", "ShardedCohort", "as_any_cohort", "as_cohort",
    "average_segments", "events_to_annotations", "events_to_bids", "events_to_csv",
    "events_to_wfdb", "find_corrections", "read_annotations", "read_corrections",
    "write_corrections", "write_shards",
]  # fmt: skip
