"""Accuracy of a fit: distance to the true atoms, share of the onsets found."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

from percdl.exceptions import InvalidParameterError
from percdl.signals.extras import require
from percdl.signals.reconstruction import match_onsets

# (K, L, P); shapes are compared by `_distances`, which says what differs.
Dictionary = Float[np.ndarray, "_ _ _"]


def match_atoms(
    dictionary: Dictionary, truth: Dictionary, metric: str = "euclidean"
) -> Int[np.ndarray, " K"]:
    """Return, for each true atom, the index of its learned atom.

    The assignment is one-to-one and has the smallest total distance. Cost O(K^2 L P + K^3).

    Parameters
    ----------
    dictionary, truth, metric
        As in `atom_distance`.

    Returns
    -------
    array (K,)
        Indices into ``dictionary``.

    Examples
    --------
    >>> truth = np.eye(3)[:2, :, None]
    >>> match_atoms(truth[::-1], truth)
    array([1, 0])
    """
    return linear_sum_assignment(_distances(dictionary, truth, metric))[1]


def atom_distance(dictionary: Dictionary, truth: Dictionary, metric: str = "euclidean") -> float:
    """Return the mean distance between unit-norm atoms, after the best assignment.

    Scales are ignored. An atom that was not found (NaN) counts as zero. Cost O(K^2 L P + K^3),
    with L^2 instead of L for ``"dtw"``.

    Parameters
    ----------
    dictionary, truth : array (K, L, P)
        Learned and true atoms.
    metric : {"euclidean", "dtw"}, default="euclidean"
        "euclidean": 0 for equal shapes, 1 for zeros, sqrt(2) for orthogonal ones, 2 at most.
        "dtw": dynamic time warping, the smallest Euclidean distance over all monotone alignments
        of the samples, by tslearn (extra ``reproduce``).

    Returns
    -------
    float
        0 where the shapes are equal.

    Examples
    --------
    >>> truth = np.eye(3)[:2, :, None]
    >>> atom_distance(5 * truth[::-1], truth)
    0.0
    """
    distances = _distances(dictionary, truth, metric)
    return float(distances[linear_sum_assignment(distances)].mean())


def personal_atom_distance(
    personal: Float[np.ndarray, "_ _ _ _"],
    truth: Float[np.ndarray, "_ _ _ _"],
    metric: str = "euclidean",
) -> float:
    """Return the mean over subjects of the distance of their atoms to the true ones.

    Atoms are assigned for each subject, since atoms learned subject by subject come in any order.
    Cost O(S K^2 (L P + K)).

    Parameters
    ----------
    personal, truth, metric
        Learned and true personal atoms (S, K, L, P), and the metric of `atom_distance`.

    Returns
    -------
    float
        0 where the shapes are equal.

    Examples
    --------
    >>> truth = np.eye(3)[None, :2, :, None]
    >>> personal_atom_distance(truth[:, ::-1], truth)
    0.0
    """
    if len(personal) != len(truth) or not len(truth):
        raise InvalidParameterError(
            f"There are atoms of {len(personal)} subject(s), and true ones of {len(truth)}. "
            "Pass arrays (S, K, L, P) of the same subjects, in the same order."
        )
    pairs = zip(personal, truth, strict=True)
    return float(np.mean([atom_distance(atoms, true, metric) for atoms, true in pairs]))


def onset_accuracy(events: pd.DataFrame, truth: pd.DataFrame, tolerance: int = 1) -> float:
    """Return the share of true activations found within ``tolerance`` samples.

    A detected event matches at most one true activation. Learned atoms are assigned to true ones
    once for the whole cohort, to maximize this share. Cost O(S K^2 n^3) at worst, for n onsets of
    each subject and atom.

    Parameters
    ----------
    events, truth, tolerance
        Detected and true activations, with columns ``subject``, ``atom`` and ``onset_sample``,
        and the largest distance of two onsets that match, in samples.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> truth = pd.DataFrame({"subject": "A", "atom": [0, 1], "onset_sample": [10, 80]})
    >>> found = pd.DataFrame({"subject": "A", "atom": [1, 0], "onset_sample": [11, 90]})
    >>> onset_accuracy(found, truth)
    0.5
    """
    for name, frame in (("events", events), ("truth", truth)):
        missing = {"subject", "atom", "onset_sample"} - set(frame.columns)
        if missing or (name == "truth" and frame.empty):
            raise InvalidParameterError(
                f"`{name}` has {len(frame)} row(s) with columns "
                f"{', '.join(map(str, frame.columns))}. Pass a frame such as `model.events_`, "
                "with at least one true activation."
            )
    found, true = (
        {key: [*x] for key, x in e.groupby([e["subject"].astype(str), "atom"]).onset_sample}
        for e in (events, truth)
    )
    true_atoms, atoms = (sorted({atom for _, atom in onsets}) for onsets in (true, found))
    hits = np.zeros((len(true_atoms), len(atoms)), int)
    for (subject, atom), onsets in true.items():
        for column, candidate in enumerate(atoms):
            detected = found.get((subject, candidate), [])
            hits[true_atoms.index(atom), column] += len(match_onsets(detected, onsets, tolerance))
    return float(hits[linear_sum_assignment(hits, maximize=True)].sum() / len(truth))


def _distances(dictionary: np.ndarray, truth: np.ndarray, metric: str) -> np.ndarray:
    """Return the distance of each learned atom (column) to each true one (row)."""
    if dictionary.ndim != 3 or dictionary.shape != truth.shape:
        raise InvalidParameterError(
            f"The dictionary has shape {dictionary.shape}, the truth {truth.shape}. "
            "Both must be (K, L, P), with the same number of atoms, length and channels."
        )
    if metric not in ("euclidean", "dtw"):
        raise InvalidParameterError(f"metric={metric!r} must be one of euclidean, dtw.")
    learned, true = (np.nan_to_num(np.asarray(atoms, float)) for atoms in (dictionary, truth))
    for atoms in (learned, true):
        norm = np.sqrt((atoms**2).sum((1, 2), keepdims=True))
        atoms /= np.where(norm > 0, norm, 1)
    if metric == "dtw":
        return require("tslearn.metrics", "The DTW distance", "reproduce").cdist_dtw(true, learned)
    return np.sqrt(((learned[None] - true[:, None]) ** 2).sum((2, 3)))
