"""Normal equations of possibly singular systems."""

from __future__ import annotations

import numpy as np
import scipy.linalg

# Factor by which the ridge grows if it does not suffice.
GROWTH = 10.0


def solve_towards(
    system: np.ndarray, right: np.ndarray, old: np.ndarray, ridge: float
) -> np.ndarray:
    """Solve ``(system + ridge I) x = right + ridge level old``; O(n^3).

    The ridge (> 0) pulls towards the old solution times the best ``level``. Sums in single
    precision can make a system slightly indefinite; the ridge then grows until the system is
    positive definite.

    >>> solve_towards(np.diag([2.0, 0.0]), np.array([[4.0], [0.0]]), np.ones((2, 1)), 1e-9).T
    array([[2., 2.]])
    """
    power = np.einsum("ip,ij,jp->", old, system, old)
    level = np.vdot(right, old) / max(power, np.finfo(float).tiny)
    while True:
        try:
            factor = scipy.linalg.cho_factor(system + ridge * np.eye(len(system)))
        except np.linalg.LinAlgError:
            ridge *= GROWTH
        else:
            return scipy.linalg.cho_solve(factor, right + ridge * level * old)
