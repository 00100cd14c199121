"""A recording before the fit: samples to draw, and how it repeats itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from percdl.report.packing import envelope, pack
from percdl.steps.period import autocorrelate, find_lags
from percdl.studio.project import Project

# Points of a preview, lags of an autocorrelation, and candidate lengths.
N_POINTS, N_LAGS, N_CANDIDATES = 3000, 1500, 4
# A peak of the autocorrelation below this is not a candidate.
LEAST = 0.1


def describe_recording(project: Project, options: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Return the first recording of a file as the fit would read it, and its autocorrelation."""
    alone = {k: v for k, v in options.items() if k not in ("metadata", "group")}
    cohort = project.read({**alone, "data": [file]})
    record = cohort[0]
    values = np.asarray(record.values, float)
    run = max(1, len(values) // N_POINTS)
    run = 1 if run == 1 else max(4, run)
    similar = autocorrelate(values)
    return {
        "subject": record.subject,
        "n_recordings": len(cohort),
        "sfreq": cohort.sfreq,
        "channels": list(cohort.channels),
        "units": list(cohort.units),
        "n_times": len(values),
        "missing": float(np.isnan(values).mean()),
        "run": run,
        "curves": pack(envelope(values, run).T),
        "similar": _thin(similar),
        "candidates": _candidates(similar, cohort.sfreq),
    }


def _thin(similar: np.ndarray) -> dict[str, Any]:
    step = max(1, len(similar) // N_LAGS)
    return {"step": step, "values": [float(f"{x:.4g}") for x in similar[::step]]}


def _candidates(similar: np.ndarray, sfreq: float) -> list[dict[str, float]]:
    """Return the lags at which a recording resembles itself most, the shortest first."""
    peaks = find_lags(similar)
    peaks = peaks[similar[peaks] >= LEAST]
    best = sorted(peaks[np.argsort(-similar[peaks])][:N_CANDIDATES])
    return [{"seconds": lag / sfreq, "similarity": float(similar[lag])} for lag in best]
