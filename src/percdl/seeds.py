"""Seeds of random draws: the same kinds everywhere, as SPEC 7 of Scientific Python asks.

An integer always gives the same draws. A ``Generator`` or ``RandomState`` gives other draws each
time it is passed. None is unpredictable, except under ``numpy.random.seed`` in estimators, as in
scikit-learn.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

Seed: TypeAlias = int | np.integer | np.random.Generator | np.random.RandomState | None

# Words of 32 bits that one kind of generator draws to seed the other.
N_WORDS = 4


def as_generator(random_state: Seed) -> np.random.Generator:
    """Return a generator that can spawn others."""
    if isinstance(random_state, np.random.RandomState):
        words = random_state.randint(2**32, size=N_WORDS, dtype=np.uint32)
        return np.random.default_rng(words)
    return np.random.default_rng(random_state)


def as_random_state(random_state: Seed) -> np.random.RandomState:
    """Return a generator of the older kind, which scikit-learn draws from."""
    from sklearn.utils import check_random_state

    if isinstance(random_state, np.random.Generator):
        words = random_state.integers(2**32, size=N_WORDS, dtype=np.uint32)
        return np.random.RandomState(words)
    return check_random_state(random_state)
