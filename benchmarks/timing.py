"""Seconds of fits, and how they grow."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.cohorts import Problem


def say(text: str) -> None:
    """Report progress on standard error; standard output is for results."""
    print(text, file=sys.stderr, flush=True)


def follow(items: Sequence[Any], label: str) -> Iterator[Any]:
    """Yield the items, reporting each before it is worked on."""
    for index, item in enumerate(items, start=1):
        say(f"{label}: {item} ({index} of {len(items)})")
        yield item


def seconds(function: Callable[[], Any]) -> float:
    """Return how long a call takes."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def fit_seconds(problem: Problem, **changes: Any) -> float:
    """Return how long one fit takes, the making of the model included."""
    return seconds(lambda: problem.model(**changes).fit(problem.cohort))


def warm_seconds(problem: Problem, repeats: int = 1, **changes: Any) -> float:
    """Return the median time of a fit once its programs are compiled."""
    fit_seconds(problem, **changes)
    return float(np.median([fit_seconds(problem, **changes) for _ in range(repeats)]))


def exponent(sizes: Iterable[int], times: Iterable[float]) -> float:
    """Return the exponent of the power law through the points (least squares of the logs).

    >>> round(exponent([1, 2, 4], [3, 6, 12]), 9)
    1.0
    """
    return float(np.polyfit(np.log(list(sizes)), np.log(list(times)), 1)[0])
