"""PerCDU: the dictionary update given the personalization (Alg. 1, line 9), in closed form."""

from __future__ import annotations

import numpy as np

from percdl.steps.ridge import solve_towards

# Sigma_k loses rank if no subject's warp visits a sample (assumption H1 of the paper fails). A
# ridge relative to its mean diagonal keeps the old atom there.
RIDGE = 1e-8
# The same if f is not linear in the atom, so that the systems hold only near the old atom.
DAMPING = 1e-2


def update_dictionary(
    gram: np.ndarray, transported: np.ndarray, dictionary: np.ndarray, ridge: float = RIDGE
) -> np.ndarray:
    """Solve ``(sum_s w_s T_s^T T_s) phi_k = sum_s T_s^T m_s`` for each atom (Theorem 1).

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


def explained(gram: np.ndarray, transported: np.ndarray, dictionary: np.ndarray) -> float:
    """Return ``2 <b, phi> - <phi, Sigma phi>``, the explained energy with fixed codes."""
    total = 2 * np.vdot(transported, dictionary)
    for systems, atom in zip(gram, dictionary, strict=True):
        for system, columns in zip(systems, _columns(atom, systems), strict=True):
            total -= np.vdot(columns, system @ columns)
    return float(total)


def _columns(atom: np.ndarray, systems: np.ndarray) -> list[np.ndarray]:
    """Return the parts of an atom (L, P) that each system acts on, as views."""
    if systems.shape[-1] == atom.size:
        return [atom.reshape(-1, 1)]
    return np.array_split(atom, len(systems), axis=1)
