"""How close a fit came to the truth: distance of the atoms, share of the onsets found."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

from percdl.exceptions import InvalidParameterError
from percdl.signals.extras import require
from percdl.signals.reconstruction import match_onsets

METRICS = ("euclidean", "dtw")
# (K, L, P); shapes are compared by `_distances`, which says what differs.
Dictionary = Float[np.ndarray, "_ _ _"]


def match_atoms(
    dictionary: Dictionary, truth: Dictionary, metric: str = "euclidean"
) -> Int[np.ndarray, " K"]:
    """Return, for each true atom, the index of the learned atom that stands for it.

    The assignment is one-to-one and has the least total distance, see `atom_distance`. Cost
    O(K^2 L P + K^3), with L^2 in place of L under time warping.

    Parameters
    ----------
    dictionary, truth : array (K, L, P)
        Learned atoms, and those to hold them against.
    metric : {"euclidean", "dtw"}
        See `atom_distance`.

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

    The scale of either side plays no part. An atom of NaN, one never found, counts as silence.
    Cost O(K^2 L P + K^3), with L^2 in place of L under time warping.

    Parameters
    ----------
    dictionary, truth : array (K, L, P)
        Learned atoms, and those to hold them against.
    metric : {"euclidean", "dtw"}, default="euclidean"
        "euclidean": 0 for equal shapes, 1 for silence, sqrt(2) for orthogonal ones, 2 at most.
        "dtw": dynamic time warping, the least Euclidean distance over all monotone alignments
        of the samples, never more than "euclidean"; by tslearn, of the extra ``reproduce``.

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
    """Return the mean over subjects of the distance of their atoms (S, K, L, P) to the true ones.

    Which learned atom stands for which true one is decided for each subject, since atoms learned
    subject by subject come in any order. See `atom_distance`. Cost O(S K^2 (L P + K)), with L^2 in
    place of L under time warping.

    Parameters
    ----------
    personal, truth : array (S, K, L, P)
        Learned personal atoms, and the true ones.
    metric : {"euclidean", "dtw"}
        See `atom_distance`.

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

    Both frames have columns ``subject``, ``atom`` and ``onset_sample``. A detected event
    stands for one true activation at most. Which learned atom stands for which true one is
    decided once for the whole cohort, by the assignment that finds most. Cost O(S K^2 n^3) at
    worst, for n onsets of each subject and atom.

    Parameters
    ----------
    events, truth : DataFrame
        Detected and true activations.
    tolerance : int
        Largest distance of two onsets that match, in samples.

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
    _check_events(events, "events")
    _check_events(truth, "truth")
    if truth.empty:
        raise InvalidParameterError("`truth` holds no activation: there is nothing to find.")
    found, true = _onsets(events), _onsets(truth)
    true_atoms = sorted({atom for _, atom in true})
    atoms = sorted({atom for _, atom in found})
    hits = np.zeros((len(true_atoms), len(atoms)), int)
    for (subject, atom), onsets in true.items():
        for column, candidate in enumerate(atoms):
            detected = found.get((subject, candidate), np.zeros(0, int))
            hits[true_atoms.index(atom), column] += len(match_onsets(detected, onsets, tolerance))
    return float(hits[linear_sum_assignment(hits, maximize=True)].sum() / len(truth))


def _distances(dictionary: np.ndarray, truth: np.ndarray, metric: str) -> np.ndarray:
    """Return the distance of each learned atom (column) to each true one (row)."""
    if dictionary.ndim != 3 or dictionary.shape != truth.shape:
        raise InvalidParameterError(
            f"The dictionary has shape {dictionary.shape}, the truth {truth.shape}. "
            "Both must be (K, L, P): as many atoms, of the same length and channels."
        )
    if metric not in METRICS:
        raise InvalidParameterError(
            f"metric={metric!r} is not known. Choose among {', '.join(METRICS)}."
        )
    learned, true = _unit(dictionary), _unit(truth)
    if metric == "dtw":
        return require("tslearn.metrics", "The DTW distance", "reproduce").cdist_dtw(true, learned)
    return np.sqrt(((learned[None] - true[:, None]) ** 2).sum((2, 3)))


def _unit(dictionary: np.ndarray) -> np.ndarray:
    atoms = np.nan_to_num(np.asarray(dictionary, float))
    norm = np.sqrt((atoms**2).sum((1, 2), keepdims=True))
    return atoms / np.where(norm > 0, norm, 1)


def _check_events(frame: pd.DataFrame, name: str) -> None:
    missing = {"subject", "atom", "onset_sample"} - set(frame.columns)
    if missing:
        raise InvalidParameterError(
            f"`{name}` has no column {', '.join(sorted(missing))}; it has "
            f"{', '.join(map(str, frame.columns))}. Pass a frame such as `model.events_`."
        )


def _onsets(frame: pd.DataFrame) -> dict[tuple[str, int], np.ndarray]:
    """Return the sorted onsets of each subject and atom."""
    onsets = defaultdict(list)
    columns = frame["subject"], frame["atom"], frame["onset_sample"]
    for subject, atom, onset in zip(*columns, strict=True):
        onsets[str(subject), int(atom)].append(onset)
    return {key: np.sort(values) for key, values in onsets.items()}
