"""How far a fit of a synthetic cohort is from the truth: its signals and its personal atoms."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float

from percdl.datasets import match_atoms
from percdl.estimators.base import BaseCDL
from percdl.signals import Cohort


def reconstruction_error(model: BaseCDL, fitted: Cohort, truth: Cohort) -> float:
    """Return ``sum |x - x_hat|^2 / sum |x|^2`` (decision 12) with the codes of the fit itself.

    The model was fitted on ``fitted``; x are the recordings of ``truth``, which may be the
    same ones without their noise.
    """
    atoms = dict(zip(fitted.subjects, model.personal_dictionary_, strict=True))
    rebuilt = add_up(model.events_, atoms, fitted)
    missed = sum(np.sum((r.values - x) ** 2) for r, x in zip(truth, rebuilt, strict=True))
    return float(missed / sum(np.sum(np.square(r.values)) for r in truth))


def add_up(events: pd.DataFrame, atoms: dict[str, np.ndarray], cohort: Cohort) -> list[np.ndarray]:
    """Return ``sum_k z_k * phi_sk`` of each subject, from events and atoms (K, L, P)."""
    rebuilt = {r.subject: np.zeros(r.values.shape) for r in cohort}
    columns = ("subject", "atom", "onset_sample", "amplitude")
    for subject, k, onset, amplitude in zip(*(events[c] for c in columns), strict=True):
        atom = atoms[subject][k]
        rebuilt[subject][onset : onset + len(atom)] += amplitude * atom
    return list(rebuilt.values())


def personal_distances(
    found: Float[np.ndarray, "S K L P"], truth: Float[np.ndarray, "S K L P"]
) -> tuple[float, float]:
    """Return the mean distances between unit-norm personal atoms: Euclidean, and DTW.

    Atoms are matched within each subject. One that a subject does not have (NaN) counts as
    zero, at a distance of 1.
    """
    from tslearn.metrics import dtw

    pairs = [pair for own, true in zip(found, truth, strict=True) for pair in _match(own, true)]
    euclidean = [np.linalg.norm(a - b) for a, b in pairs]
    return float(np.mean(euclidean)), float(np.mean([dtw(a, b) for a, b in pairs]))


def _match(found: np.ndarray, truth: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the pairs of matched atoms of one subject, at unit norm."""
    known = np.nan_to_num(found)
    order = match_atoms(known, truth)
    return [(_unit(known[i]), _unit(atom)) for i, atom in zip(order, truth, strict=True)]


def _unit(atom: np.ndarray) -> np.ndarray:
    norm = np.linalg.norm(atom)
    return atom / norm if norm > 0 else atom
