"""How well a score separates two groups of people, and how sure that is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

N_DRAWS = 4000


class Separation(NamedTuple):
    """Area under the ROC curve, its 95% interval, and how many people it rests on."""

    auc: float
    low: float
    high: float
    n_patients: int
    n_healthy: int

    def __str__(self) -> str:
        return (
            f"{self.auc:.3f} [{self.low:.3f}, {self.high:.3f}], "
            f"{self.n_patients} against {self.n_healthy}"
        )


def separate(patients: np.ndarray, healthy: np.ndarray, seed: int = 0) -> Separation:
    """Return how often a patient scores higher than a healthy person.

    The interval is that of a bootstrap over people, each group drawn by itself.
    """
    patients, healthy = (np.asarray(x, float)[np.isfinite(x)] for x in (patients, healthy))
    higher = np.heaviside(patients[:, None] - healthy, 0.5)
    rng = np.random.default_rng(seed)
    left, right = (rng.multinomial(n, np.full(n, 1 / n), N_DRAWS) / n for n in higher.shape)
    low, high = np.quantile(((left @ higher) * right).sum(1), [0.025, 0.975])
    return Separation(float(higher.mean()), float(low), float(high), *higher.shape)
