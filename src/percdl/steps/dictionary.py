"""The dictionary update: CDU (Alg. 1, line 4) and PerCDU (line 9), on sums over subjects."""

from __future__ import annotations

import numpy as np

from percdl.steps.ridge import solve_towards

# Sigma_k loses rank if no subject's warp visits a sample (assumption H1 of the paper fails). A
# ridge relative to its mean diagonal keeps the old atom there.
RIDGE = 1e-8
# The same if f is not linear in the atom, so that the systems hold only near the old atom.
DAMPING = 1e-2


def update_population(
    moment: np.ndarray, weight: np.ndarray, dictionary: np.ndarray, moves: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """CDU: return the atoms (K, L, P) that fit best, ``phi_k = m_k / w_k``, and their moves.

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


def population_explained(moment: np.ndarray, weight: np.ndarray) -> float:
    """Return the energy that the atoms of CDU explain with the same codes."""
    return float(np.divide(moment**2, weight, out=np.zeros_like(moment), where=weight > 0).sum())


def update_personal(
    gram: np.ndarray, transported: np.ndarray, dictionary: np.ndarray, ridge: float = RIDGE
) -> np.ndarray:
    """PerCDU: solve ``(sum_s w_s T_s^T T_s) phi_k = sum_s T_s^T m_s`` for each atom (Theorem 1).

    ``gram`` (K, G, n, n) and ``transported`` (K, L, P) are sums over subjects, in float64; the
    systems are of size n = L, or L P if channels mix. An atom without activations is kept
    (decision 11). Cost O(K G n^3).
    """
    updated = dictionary.copy()
    for systems, right, old, new in zip(gram, transported, dictionary, updated, strict=True):
        scale = np.trace(systems, axis1=1, axis2=2).mean() / systems.shape[-1]
        if scale <= 0:
            continue
        parts = (_columns(x, systems) for x in (right, old, new))
        for system, b, before, after in zip(systems, *parts, strict=True):
            after[:] = solve_towards(system, b, before, ridge * scale)
    return updated


def personal_explained(gram: np.ndarray, transported: np.ndarray, dictionary: np.ndarray) -> float:
    """Return ``2 <b, phi> - <phi, Sigma phi>``, the explained energy with fixed codes."""
    total = 2 * np.vdot(transported, dictionary)
    for systems, atom in zip(gram, dictionary, strict=True):
        for system, columns in zip(systems, _columns(atom, systems), strict=True):
            total -= np.vdot(columns, system @ columns)
    return float(total)


def apply_systems(systems: np.ndarray, atom: np.ndarray) -> np.ndarray:
    """Return ``Sigma phi``: the systems (G, n, n) of an atom times the atom (L, P)."""
    if systems.shape[-1] == atom.size:
        return (systems[0] @ atom.ravel()).reshape(atom.shape)
    groups = np.broadcast_to(systems, (atom.shape[1], *systems.shape[1:]))
    return np.einsum("pij,jp->ip", groups, atom)


def normalize(dictionary: np.ndarray) -> np.ndarray:
    """Return the atoms at unit norm, the constraint of Eq. 1."""
    norm = np.sqrt((dictionary**2).sum((1, 2), keepdims=True))
    return np.divide(dictionary, norm, out=np.zeros_like(dictionary), where=norm > 0)


def _first_best(energy: np.ndarray, margin: int) -> int:
    """Return the window of largest energy; stay unless a move gains enough."""
    best = int(energy.argmax())
    return best if energy[best] > energy[margin] * (1 + 1e-6) else margin


def _columns(atom: np.ndarray, systems: np.ndarray) -> list[np.ndarray]:
    """Return the parts of an atom (L, P) that each system acts on, as views."""
    if systems.shape[-1] == atom.size:
        return [atom.reshape(-1, 1)]
    return np.array_split(atom, len(systems), axis=1)
