"""Calling the code under test in double precision."""

import jax
import jax.numpy as jnp
import numpy as np


def in_double(function, *args, **kwargs):
    """Call ``function`` with its NumPy arguments as float64 JAX arrays; return NumPy arrays."""

    def convert(leaf):
        if not isinstance(leaf, (np.ndarray, np.generic, jax.Array)):
            return leaf
        leaf = np.asarray(leaf)
        return jnp.asarray(leaf, float if np.issubdtype(leaf.dtype, np.floating) else leaf.dtype)

    with jax.enable_x64(True):
        args, kwargs = jax.tree.map(convert, (args, kwargs))
        return jax.tree.map(np.asarray, function(*args, **kwargs))
