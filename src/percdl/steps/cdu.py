"""CDU: the dictionary update without personalization (Alg. 1, line 4), on sums over subjects."""

from __future__ import annotations

import numpy as np


def update_dictionary(
    moment: np.ndarray,
    weight: np.ndarray,
    dictionary: np.ndarray,
    moves: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the atoms (K, L, P) that fit best, ``phi_k = m_k / w_k``, and their moves.

    ``moment`` (K, L + 2R, P) and ``weight`` (K, L + 2R, Q) are sums over subjects. Exact for
    non-overlapping codes. With margins (R > 0) an atom moves by ``moves`` (K,) samples or, if
    None, to the window in which the segments have most energy, which undoes an offset of the
    initialization. An atom without activations is kept (decision 11).
    """
    n_atoms, length, _ = dictionary.shape
    margin = (moment.shape[1] - length) // 2
    mean = np.divide(moment, weight, out=np.zeros_like(moment), where=weight > 0)
    density = np.cumsum(np.pad((moment * mean).sum(2), ((0, 0), (1, 0))), axis=1)
    energy = density[:, length:] - density[:, :-length]
    updated, moved = dictionary.copy(), np.zeros(n_atoms, int)
    for k in np.flatnonzero(weight.sum((1, 2)) > 0):
        start = _first_best(energy[k], margin) if moves is None else margin + moves[k]
        updated[k], moved[k] = mean[k, start : start + length], start - margin
    return updated, moved


def explained(moment: np.ndarray, weight: np.ndarray) -> float:
    """Return the energy that the updated atoms explain with the same codes."""
    return float(np.divide(moment**2, weight, out=np.zeros_like(moment), where=weight > 0).sum())


def normalize(dictionary: np.ndarray) -> np.ndarray:
    """Return the atoms at unit norm, the constraint of Eq. 1."""
    norm = np.sqrt((dictionary**2).sum((1, 2), keepdims=True))
    return np.divide(dictionary, norm, out=np.zeros_like(dictionary), where=norm > 0)


def _first_best(energy: np.ndarray, margin: int) -> int:
    """Return the window of largest energy; stay unless a move gains enough."""
    best = int(energy.argmax())
    return best if energy[best] > energy[margin] * (1 + 1e-6) else margin
