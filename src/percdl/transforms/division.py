"""Division that returns zero instead of dividing by zero."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def divide(x: Float[Array, "*#shape"], by: Float[Array, "*#shape"]) -> Float[Array, "*#shape"]:
    """Return ``x / by``, or zero where ``by`` is not positive.

    It never divides by zero, so derivatives are defined as well.

    >>> divide(jnp.array([6.0, 6.0]), jnp.array([4.0, 0.0]))
    Array([1.5, 0. ], dtype=float32)
    """
    return x / jnp.where(by > 0, by, jnp.inf)
