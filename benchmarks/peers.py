"""What users would pick instead: averages of segments that somebody has cut for them.

Every function takes segments (S, L), one channel, and returns their average (L,). The packages
are those of the extra ``bench``; they are imported when a function is made, not before.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float

from benchmarks import Absent
from percdl.datasets import SyntheticCohort

Segments = Float[np.ndarray, "S L"]
Average = Callable[[Segments], Float[np.ndarray, " L"]]

# The amount of smoothing of soft-DTW, in squared signal units.
GAMMAS = (0.01, 0.1, 1.0)


def cut(data: SyntheticCohort) -> Float[np.ndarray, "K S L"]:
    """Cut the recordings at the true onsets and average each subject's repetitions."""
    n_atoms, length, _ = data.dictionary.shape
    sums = np.zeros((n_atoms, len(data.cohort), length))
    subjects = {subject: s for s, subject in enumerate(data.cohort.subjects)}
    for event in data.events.itertuples():
        values = data.cohort[event.subject].values[:, 0]
        segment = values[event.onset_sample : event.onset_sample + length]
        sums[event.atom, subjects[event.subject]] += segment
    repetitions = data.events.groupby(["atom", "subject"], sort=False).size().unique()
    return sums / repetitions.item()


def euclidean() -> list[Average]:
    """Return the mean, sample by sample."""
    return [lambda segments: segments.mean(0)]


def dba() -> list[Average]:
    """Return tslearn's DTW barycenter averaging."""
    average = _load("tslearn", "tslearn.barycenters").dtw_barycenter_averaging
    return [lambda segments: average(segments)[:, 0]]


def soft_dtw() -> list[Average]:
    """Return tslearn's soft-DTW barycenter, once for each amount of smoothing."""
    average = _load("tslearn", "tslearn.barycenters").softdtw_barycenter
    return [lambda segments, g=gamma: average(segments, gamma=g)[:, 0] for gamma in GAMMAS]


def elastic() -> list[Average]:
    """Return fdasrsf's Karcher mean in the square-root slope framework, on all cores."""
    fdasrsf = _load("fdasrsf", "fdasrsf")

    def average(segments: Segments) -> Float[np.ndarray, " L"]:
        time = np.linspace(0, 1, segments.shape[1])
        aligned = fdasrsf.fdawarp(np.ascontiguousarray(segments.T), time)
        aligned.srsf_align(parallel=True, cores=-1, verbose=False)
        return aligned.fmean

    return [average]


PEERS: dict[str, Callable[[], list[Average]]] = {
    "Euclidean mean": euclidean,
    "tslearn DBA": dba,
    "tslearn soft-DTW": soft_dtw,
    "fdasrsf elastic mean": elastic,
}


def _load(package: str, module: str) -> Any:
    """Import a module of the extra ``bench``."""
    try:
        return import_module(module)
    except ImportError as error:
        raise Absent(f"{package} cannot be imported ({error}); install percdl[bench]") from error
