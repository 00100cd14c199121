"""Diagnosis from the nearest personal atoms, the paper's baseline beside the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from percdl.signals.extras import require

# scikit-learn's default, which the paper uses, and a larger number chosen here.
PAPER_K, CHOSEN_K = 5, 15
# Waves of a beat differ by a tenth of a second at most: that bounds how far time is warped.
REACH = 10


def neighbour_auc(
    atoms: Float[np.ndarray, "S L P"], labels: ArrayLike, metric: str, random_state: int = 0
) -> dict[int, float]:
    """Return the macro one-vs-one AUC of nearest neighbours, on 30 % of the records.

    One value per number of neighbours, `PAPER_K` and `CHOSEN_K`, from the same distances.
    Distances are between atoms at unit norm, ``metric`` is "euclidean" or "dtw". Atoms of records
    without activations are missing and count as zero.
    """
    classes = np.asarray(labels)
    norms = np.linalg.norm(atoms, axis=(1, 2), keepdims=True)
    known = np.nan_to_num(atoms / norms)
    train, test = train_test_split(
        np.arange(len(known)),
        test_size=0.3,
        stratify=np.asarray(labels),
        random_state=random_state,
    )
    measure: Any = _dtw if metric == "dtw" else _euclidean
    distances = measure(known[test], known[train])
    found = {}
    for k in (PAPER_K, CHOSEN_K):
        model = KNeighborsClassifier(k, metric="precomputed")
        model.fit(np.zeros((len(train), len(train))), classes[train])
        shares = model.predict_proba(distances)
        found[k] = float(roc_auc_score(classes[test], shares, multi_class="ovo"))
    return found


def _euclidean(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return cdist(first.reshape(len(first), -1), second.reshape(len(second), -1))


def _dtw(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    metrics = require("tslearn.metrics", "The DTW distance", "reproduce")
    return metrics.cdist_dtw(first, second, sakoe_chiba_radius=REACH)
