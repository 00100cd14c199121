"""PerCDU: the dictionary update given the personalization (Alg. 1, line 9), in closed form."""

from __future__ import annotations

import numpy as np
import scipy.linalg

# Sigma_k loses rank where no subject's warp visits a sample (assumption H1 of the paper fails);
# a ridge relative to its mean diagonal keeps the old atom there.
RIDGE = 1e-8


def update_dictionary(
    gram: np.ndarray, transported: np.ndarray, dictionary: np.ndarray
) -> np.ndarray:
    """Solve ``(sum_s w_s T_s^T T_s) phi_k = sum_s T_s^T m_s`` for each atom (Theorem 1).

    ``gram`` (K, G, L, L) and ``transported`` (K, L, P) are sums over subjects, in float64.
    An atom without activations is kept (decision 11). Cost O(K G L^3).
    """
    updated = dictionary.copy()
    n_channels = dictionary.shape[2]
    for k, (systems, right) in enumerate(zip(gram, transported, strict=True)):
        scale = np.trace(systems, axis1=1, axis2=2).mean() / systems.shape[-1]
        if scale <= 0:
            continue
        groups = len(systems)
        channels = np.array_split(np.arange(n_channels), groups)
        for system, at in zip(systems, channels, strict=True):
            ridge = RIDGE * scale
            regular = system + ridge * np.eye(len(system))
            # The ridge pulls towards the old atom, at the amplitude of the new one.
            level = np.vdot(right[:, at], dictionary[k][:, at]) / max(
                np.einsum("ip,ij,jp->", dictionary[k][:, at], system, dictionary[k][:, at]),
                np.finfo(float).tiny,
            )
            target = right[:, at] + ridge * level * dictionary[k][:, at]
            updated[k][:, at] = scipy.linalg.solve(regular, target, assume_a="pos")
    return updated


def explained(gram: np.ndarray, transported: np.ndarray, dictionary: np.ndarray) -> float:
    """Return ``2 <b, phi> - <phi, Sigma phi>``: what the dictionary explains with codes fixed."""
    total = 2 * np.vdot(transported, dictionary)
    for systems, atom in zip(gram, dictionary, strict=True):
        columns = np.array_split(np.arange(atom.shape[1]), len(systems))
        for system, at in zip(systems, columns, strict=True):
            total -= np.vdot(atom[:, at], system @ atom[:, at])
    return float(total)
