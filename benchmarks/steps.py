"""How the time of a fit is spent, step by step."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import jax

from percdl.algorithm import coding, local, loop, programs
from percdl.estimators.base import BaseCDL

# What runs beside the compiled programs: (where it is looked up, name, what it is called here).
ON_THE_HOST = (
    (local, "fill", "copy the recordings"),
    (loop, "population_update", "CDU"),
    (loop, "personal_update", "PerCDU and centering"),
    (BaseCDL, "_collect", "collect the results"),
)
REST = "rest"
NOT_COMPILED = {*(label for _, _, label in ON_THE_HOST), REST}
# The programs, by what the paper calls them.
STEPS = {"code": "CSC", "fit": "IPU", "seek": "search for onsets and starts"}


@contextmanager
def step_times() -> Iterator[dict[str, float]]:
    """Yield seconds by step, added up while the context is open.

    Every program is waited for, so the steps cannot overlap: a fit is slower than otherwise.
    """
    spent: dict[str, float] = defaultdict(float)
    with patched(
        (*compiled_programs(), *ON_THE_HOST), lambda step, label: _timed(step, label, spent)
    ):
        yield spent


def compiled_programs() -> list[tuple[Any, str, str]]:
    """List the compiled programs of a fit: where each is looked up, its name, its step."""
    return [
        (home, name, STEPS.get(name, name))
        for home in (coding, programs)
        for name, value in vars(home).items()
        if isinstance(value, jax.stages.Wrapped)
    ]


@contextmanager
def patched(
    steps: Iterable[tuple[Any, str, str]], wrap: Callable[[Any, str], Callable[..., Any]]
) -> Iterator[None]:
    """Replace each step by ``wrap(step, label)`` while the context is open."""
    with ExitStack() as stack:
        for home, name, label in steps:
            stack.enter_context(patch.object(home, name, wrap(getattr(home, name), label)))
        yield


def shares(fit: Callable[[], Any]) -> dict[str, float]:
    """Return the share of each step in the time of a fit, the largest first; then the rest."""
    with step_times() as spent:
        began = time.perf_counter()
        fit()
        total = time.perf_counter() - began
    ordered = sorted(spent.items(), key=lambda item: -item[1])
    found = {name: seconds / total for name, seconds in ordered}
    return {**found, REST: 1 - sum(found.values())}


def _timed(function: Callable[..., Any], label: str, spent: dict[str, float]):
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        jax.block_until_ready((args, kwargs))  # what was begun before is not this step's
        began = time.perf_counter()
        result = jax.block_until_ready(function(*args, **kwargs))
        spent[label] += time.perf_counter() - began
        return result

    return wrapper
