"""How the time of a fit is spent, step by step."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import jax

from percdl.algorithm import local, loop
from percdl.estimators import fitting
from percdl.steps.compilation import Program

# What runs beside the compiled programs: (where it is looked up, name, what it is called here).
ON_THE_HOST = (
    (local, "fill", "copy the recordings"),
    (local, "fill_on_device", "copy the recordings"),
    (loop, "population_update", "CDU"),
    (loop, "personal_update", "PerCDU and centering"),
    (fitting, "collect", "collect the results"),
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
    with ExitStack() as stack:
        stack.enter_context(programs_wrapped(lambda program, label: _timed(program, label, spent)))
        for home, name, label in ON_THE_HOST:
            timed = _timed(getattr(home, name), label, spent)
            stack.enter_context(patch.object(home, name, timed))
        yield spent


@contextmanager
def programs_wrapped(wrap: Callable[[Any, str], Callable[..., Any]]) -> Iterator[None]:
    """Run ``wrap(program, step)`` in place of each compiled program while the context is open."""
    call = Program.__call__

    def wrapped(program: Program, *args: Any) -> Any:
        label = STEPS.get(program.__name__, program.__name__)
        return wrap(partial(call, program), label)(*args)

    with patch.object(Program, "__call__", wrapped):
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
