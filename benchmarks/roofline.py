"""How far a fit is from what its device can do: time busy, work done, and the device's peaks."""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.steps import programs_wrapped


@dataclass(frozen=True)
class Work:
    """What programs do, by the compiler's count."""

    flops: float
    bytes: float


@dataclass(frozen=True)
class Busy:
    """How a fit uses the device: seconds in all, in kernels, in copies to and from it."""

    total: float
    kernels: float
    copies: float
    either: float

    @property
    def share(self) -> float:
        """The share of the fit in which the device was busy."""
        return self.either / self.total


@cache
def peaks() -> Work:
    """Measure what the device can do in a second: multiplications in float32, and copies."""
    matrix = jnp.ones((8192, 8192), jnp.float32)
    large = jnp.ones(2**29, jnp.float32)
    multiply = jax.jit(lambda x: jnp.dot(x, x, precision="highest"))
    flops = 2 * 8192**3 / _least_seconds(multiply, matrix)
    moved = 2 * large.nbytes / _least_seconds(jax.jit(lambda x: x + 1), large)
    return Work(flops, moved)


def work_by_step(fit: Callable[[], Any]) -> dict[str, Work]:
    """Add up what the programs of a fit do, by the name of their step."""
    known: dict[Any, Work] = {}
    done: dict[str, list[Work]] = defaultdict(list)

    def counted(program: Any, label: str) -> Callable[..., Any]:
        def wrapper(*args: Any) -> Any:
            key = (label, str(jax.tree.map(_shape, args)))
            if key not in known:
                cost = program.args[0].executable(*args).cost_analysis() or {}
                known[key] = Work(cost.get("flops", 0.0), cost.get("bytes accessed", 0.0))
            done[label].append(known[key])
            return program(*args)

        return wrapper

    with programs_wrapped(counted):
        fit()
    return {
        label: Work(sum(w.flops for w in works), sum(w.bytes for w in works))
        for label, works in done.items()
    }


def busy(fit: Callable[[], Any]) -> Busy:
    """Trace a fit; return for how long kernels ran, and copies, on the device."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            began = time.perf_counter()
            fit()
            total = time.perf_counter() - began
        spans = list(_device_spans(Path(folder)))
    copies = [span for name, *span in spans if "memcpy" in name.lower()]
    kernels = [span for name, *span in spans if "memcpy" not in name.lower()]
    return Busy(total, _covered(kernels), _covered(copies), _covered(copies + kernels))


def _device_spans(folder: Path) -> Iterator[tuple[str, float, float]]:
    """Yield name, beginning and end, in seconds, of all that ran on streams of the device."""
    (path,) = folder.rglob("*.trace.json.gz")
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    devices = {
        event["pid"]
        for event in events
        if event.get("name") == "process_name" and "/device:GPU" in event["args"]["name"]
    }
    streams = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and "Stream" in event["args"]["name"]
    }
    for event in events:
        if event.get("ph") == "X" and event["pid"] in devices:
            if (event["pid"], event["tid"]) in streams:
                yield event["name"], event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6


def _covered(spans: list[Any]) -> float:
    """Return the length of the union of intervals."""
    length, end = 0.0, -np.inf
    for first, last in sorted(spans):
        length += max(0.0, last - max(first, end))
        end = max(end, last)
    return length


def _least_seconds(program: Callable[..., Any], *args: Any) -> float:
    def once() -> float:
        began = time.perf_counter()
        jax.block_until_ready(program(*args))
        return time.perf_counter() - began

    once()
    return min(once() for _ in range(10))


def _shape(leaf: Any) -> Any:
    return (leaf.shape, str(leaf.dtype)) if hasattr(leaf, "shape") else leaf
