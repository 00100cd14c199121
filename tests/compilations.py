"""Counting what JAX traces and compiles."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import jax

from percdl.steps.compilation import Program

TRACED = "/jax/core/compile/jaxpr_trace_duration"
COMPILED = "/jax/core/compile/backend_compile_duration"


@cache
def _events() -> Counter:
    """Return how often each event has happened in this process since the first call."""
    seen = Counter()
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration_secs, **_: seen.update([event])
    )
    return seen


@contextmanager
def count_events() -> Iterator[Counter]:
    """Count the events of JAX within a block; the counter is filled when it ends."""
    before, found = Counter(_events()), Counter()
    yield found
    found.update(_events() - before)


def count_programs() -> int:
    """Return how many executables of percdl this process holds, compiled here or loaded."""
    return sum(each.n_compiled for each in Program._all)
