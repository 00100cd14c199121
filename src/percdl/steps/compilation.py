"""Compiled programs: the same bits every time, compiled once per shape, kept for later processes.

A `Program` compiles a function ahead of its call. Programs that a fit will need can be compiled
in the background (`Program.prepare`) while earlier ones run, and executables are stored on disk
(`percdl.steps.executables`), so that a later process neither traces nor compiles.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from percdl.steps import executables

# On a CPU, a Fourier transform or a matrix product is split over the threads that are free, and
# the split changes the rounding: results would depend on the load of the machine. The other two
# options halve the time to compile a Gauss-Newton fit, which then runs as fast. An option that
# the environment variable ``XLA_FLAGS`` sets is left as it is there.
CPU_OPTIONS = {
    name: value
    for name, value in (
        ("xla_cpu_multi_thread_eigen", False),
        ("xla_cpu_use_fusion_emitters", False),
        ("xla_backend_optimization_level", 2),
    )
    if name not in os.environ.get("XLA_FLAGS", "")
}

_unknown_options: set[str] = set()
_wait_listener: Callable[[str], None] | None = None
_turn = threading.Lock()


class Program:
    """A function that is compiled for each combination of shapes and static arguments.

    ``function`` is pure, takes arrays and static values by position, and returns arrays; the
    arguments ``static_argnames`` are hashable constants of the program. Called within another
    program, it is part of that program.
    """

    _all: list[Program] = []  # noqa: RUF012  (shared on purpose)

    def __init__(self, function: Callable[..., Any], static_argnames: tuple[str, ...] = ()):
        functools.update_wrapper(self, function)
        self.name = f"{function.__module__}.{function.__qualname__}"
        self._function = function
        self._signature = inspect.signature(function)
        names = list(self._signature.parameters)
        self._static = frozenset(names.index(name) for name in static_argnames)
        self._jitted = jax.jit(function, static_argnums=tuple(self._static))
        self._built: dict[Any, Future] = {}
        self._lock = threading.Lock()
        Program._all.append(self)

    @property
    def n_compiled(self) -> int:
        """How many executables this process holds."""
        return len(self._built)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the program, compiled now if it has not been before."""
        if named:
            args = self._signature.bind(*args, **named).args
        static, leaves, structure = self._split(args)
        kinds = {type(leaf) for leaf in leaves}
        if any([issubclass(kind, Tracer) for kind in kinds]):
            return self._function(*args)
        if not all([issubclass(kind, jax.Array | np.ndarray) for kind in kinds]):
            leaves = [
                x if isinstance(x, jax.Array | np.ndarray) else np.asarray(x) for x in leaves
            ]
        executable = self._executable(_key(static, leaves, structure))
        return executable(*jax.tree.unflatten(structure, leaves))

    def executable(self, *args: Any) -> Any:
        """Return the executable of a call, compiled now if it has not been before."""
        return self._executable(_key(*self._split(args)))

    def prepare(self, *args: Any) -> None:
        """Compile in the background; arrays are given as `jax.ShapeDtypeStruct`."""
        if not self.is_compiled(*args):
            _workers().submit(self._build_unless_over, _key(*self._split(args)))

    def is_compiled(self, *args: Any) -> bool:
        """Whether a call with arguments of these shapes would compile nothing."""
        return _key(*self._split(args)) in self._built

    def _split(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any], Any]:
        """Return the static arguments, the arrays among the others, and how those are nested."""
        static = tuple(a for i, a in enumerate(args) if i in self._static)
        return static, *jax.tree.flatten([a for i, a in enumerate(args) if i not in self._static])

    def _executable(self, key: Key) -> Any:
        future = self._built.get(key)
        if future is None or not future.done():
            if _wait_listener is not None:
                _wait_listener(self._function.__name__)
            future = self._build(key)
        return future.result()

    def _build(self, key: Key) -> Future:
        with self._lock:
            future = self._built.get(key)
            is_ours = future is None
            if future is None:
                future = self._built[key] = Future()
        if is_ours:
            try:
                with jax.enable_x64(key.is_double):
                    future.set_result(self._load_or_compile(key))
            except BaseException as error:
                with self._lock:
                    del self._built[key]
                future.set_exception(error)
        return future

    def _build_unless_over(self, key: Key) -> None:
        if threading.main_thread().is_alive():
            self._build(key)

    def _load_or_compile(self, key: Key) -> Callable[..., Any]:
        options = CPU_OPTIONS if is_on_cpu() else {}
        static, shapes, structure, is_double = key
        description = executables.describe(
            self.name, static, shapes, str(structure), is_double, sorted(options.items())
        )
        found = executables.load(description)
        if found is None:
            lowered = self._jitted.lower(*self._arguments(key))
            found = _compile(lowered, options)
            if "@lapack" in lowered.as_text():  # in a transform of the user
                found = _in_turn(found)
            elif description is not None:
                _workers().submit(executables.save, description, found)
        return found

    def _arguments(self, key: Key) -> list[Any]:
        """Return all arguments, with shapes in place of arrays."""
        leaves = [jax.ShapeDtypeStruct(*shape[:2], sharding=shape[2]) for shape in key.shapes]
        arguments = jax.tree.unflatten(key.structure, leaves)
        for place, value in zip(sorted(self._static), key.static, strict=True):
            arguments.insert(place, value)
        return arguments


class Key(NamedTuple):
    """The arguments that an executable of a program is compiled for."""

    static: tuple[Any, ...]
    shapes: tuple[tuple[tuple[int, ...], np.dtype, Any], ...]
    structure: Any
    is_double: bool


def _key(static: tuple[Any, ...], leaves: list[Any], structure: Any) -> Key:
    double = is_double()
    types = [leaf.dtype for leaf in leaves]
    if not double:  # an array of the host loses half of its digits on the device
        types = [t if t.itemsize < 8 else jax.dtypes.canonicalize_dtype(t) for t in types]
    spread = [None] * len(leaves) if _n_devices() == 1 else [_spread_over(x) for x in leaves]
    shapes = [leaf.shape for leaf in leaves]
    return Key(static, tuple(zip(shapes, types, spread, strict=True)), structure, double)


def _compile(lowered: jax.stages.Lowered, options: dict[str, Any]) -> jax.stages.Compiled:
    """Compile with the options that this version of XLA knows; versions add and remove some."""
    known = {name: value for name, value in options.items() if name not in _unknown_options}
    try:
        return lowered.compile(known)
    except jax.errors.JaxRuntimeError as error:
        found = re.search(r"No such compile option: '(\w+)'", str(error))
        if found is None:
            raise
        _unknown_options.add(found[1])
        return _compile(lowered, options)


def program(
    function: Callable[..., Any] | None = None, *, static_argnames: tuple[str, ...] = ()
) -> Any:
    """Make a `Program` of a function, as a decorator with or without arguments."""
    if function is None:
        return functools.partial(program, static_argnames=static_argnames)
    return Program(function, static_argnames)


def is_double() -> bool:
    """Whether arrays may be in double precision."""
    return jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


def is_on_cpu() -> bool:
    """Whether programs run on a CPU."""
    return jax.default_backend() == "cpu"


def forget_programs() -> None:
    """Release all executables of this process."""
    for each in Program._all:
        with each._lock:
            each._built = {key: f for key, f in each._built.items() if not f.done()}


@contextmanager
def on_wait(listener: Callable[[str], None]) -> Iterator[None]:
    """Call ``listener(name)`` whenever a program has to be waited for, during the block."""
    global _wait_listener
    before, _wait_listener = _wait_listener, listener
    try:
        yield
    finally:
        _wait_listener = before


def n_cores() -> int:
    """How many programs should run at once: on a CPU, each uses little more than one core."""
    return os.cpu_count() or 1 if is_on_cpu() else 1


def side_by_side(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
    """Yield ``function(item)`` of each item, in order, as many at a time as there are cores.

    The environment variable ``NPROC`` sets another number, for XLA too. On an accelerator,
    programs follow each other. After an error or an interrupt, no other item is begun.
    """
    n_threads, double = int(os.environ.get("NPROC") or n_cores()), is_double()
    if n_threads == 1 or not is_on_cpu():
        yield from map(function, items)
        return
    # Not `ThreadPoolExecutor.map`: its futures make many calls on the host for each item.
    todo, done = iter([*enumerate(items)]), SimpleQueue()

    def work() -> None:
        try:
            with jax.enable_x64(double):  # a setting of each thread
                for place, item in todo:
                    done.put((place, function(item)))
        except BaseException as error:
            done.put((None, error))

    running = [_runners().submit(work) for _ in range(n_threads)]
    early = {}
    try:
        for place in range(len(items)):
            while place not in early:
                found, result = done.get()
                if found is None:
                    raise result
                early[found] = result
            yield early.pop(place)
    finally:
        deque(todo, maxlen=0)
        wait(running)


def _in_turn(executable: Callable[..., Any]) -> Callable[..., Any]:
    """Return an executable that has ended before another such one begins, in any thread.

    LAPACK runs in a thread of XLA's pool and waits for others of the same pool. With as many
    such programs at once as the pool has threads, all of them would wait forever.
    """

    def run(*arguments: Any) -> Any:
        with _turn:
            return jax.block_until_ready(executable(*arguments))

    return run


@functools.cache
def _workers() -> ThreadPoolExecutor:
    """Return the threads that compile; XLA does not hold Python's lock meanwhile."""
    return ThreadPoolExecutor(min(os.cpu_count() or 1, 8), "percdl-compile")


@functools.cache
def _runners() -> ThreadPoolExecutor:
    """Return the threads that run programs side by side, as many as all callers need at once."""
    return ThreadPoolExecutor(1024, "percdl-run")


@functools.cache
def _n_devices() -> int:
    return jax.device_count()


def _spread_over(leaf: Any) -> Any:
    """Return how an array is spread over several devices; None on a single one."""
    sharding = getattr(leaf, "sharding", None)
    return None if sharding is None or len(sharding.device_set) == 1 else sharding
