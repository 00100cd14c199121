"""Count the Python calls that a method of an estimator makes per recording.

The counts do not depend on the clock: a method that handles recordings one by one on the host
makes more calls for more recordings, a compiled program does not. Run as a script, it writes the
counts of all methods as JSON.
"""

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache

import numpy as np

from percdl import Algorithm, Cohort, PerCDL, TimeWarp

# The limit, in calls of Python functions per recording.
MOST_CALLS = 15
SIZES = (256, 4096)
N_TIMES, LENGTH = 32, 8
METHODS = ("fit", "personalize", "transform")


def count_per_recording(method: str) -> tuple[float, float]:
    """Return the calls of Python and of C functions per recording, once all is compiled."""
    counts = [_count(method, size) for size in SIZES]
    more = SIZES[1] - SIZES[0]
    python, builtin = ((counts[1][kind] - counts[0][kind]) / more for kind in ("call", "c_call"))
    return python, builtin


def recordings(size: int) -> Cohort:
    """Return short noisy recordings with two repetitions of an arc each."""
    rng = np.random.default_rng(0)
    values = 0.05 * rng.standard_normal((size, N_TIMES, 1))
    for onset in (rng.integers(0, 7, size), rng.integers(16, 24, size)):
        samples = onset[:, None] + np.arange(LENGTH)
        values[np.arange(size)[:, None], samples] += _arc()
    return Cohort.from_arrays(values, sfreq=10)


def _arc() -> np.ndarray:
    return np.sin(np.pi * np.arange(LENGTH) / (LENGTH - 1))[:, None]


def _count(method: str, size: int) -> Counter:
    model, cohort = _fitted(size)
    call = getattr(model, method)
    if method != "fit":
        call(cohort)
    with _counted() as counts:
        call(cohort)
    return counts


@cache
def _fitted(size: int) -> tuple[PerCDL, Cohort]:
    model = PerCDL(
        1,
        LENGTH,
        TimeWarp(1, 2),
        0.1,
        init=_arc()[None],
        algorithm=Algorithm(population_rounds=1, personal_rounds=1),
        progress=False,
    )
    cohort = recordings(size)
    return model.fit(cohort), cohort


@contextmanager
def _counted():
    counts: Counter = Counter()

    def note(_frame: object, event: str, _argument: object) -> None:
        counts[event] += 1

    _profile(note)
    try:
        yield counts
    finally:
        _profile(None)


def _profile(function: Callable | None) -> None:
    threading.setprofile(function)  # threads that are started from here on
    sys.setprofile(function)


if __name__ == "__main__":
    sys.stdout.write(json.dumps({method: count_per_recording(method) for method in METHODS}))
