"""How programs are compiled: so that the same input gives the same bits, every time."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import jax

# On a CPU, a Fourier transform or a matrix product is cut into as many parts as there are threads
# free when it begins, and rounds accordingly: another load of the machine would be another result.
program = partial(jax.jit, compiler_options={"xla_cpu_multi_thread_eigen": False})


def function_of(program: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a program computes, for use within another: JAX takes options of whole ones."""
    return inspect.unwrap(program)
