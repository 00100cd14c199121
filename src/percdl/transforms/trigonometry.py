"""Sine and cosine of half-turns, exact at whole and half numbers."""

from __future__ import annotations

from math import factorial, pi

import jax.numpy as jnp
from jaxtyping import Array, Float


def sincospi(
    x: Float[Array, "*shape"],
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Return ``sin(pi x)`` and ``cos(pi x)``.

    There are two reasons not to call ``jnp.sin(jnp.pi * x)``. ``sin(pi w)`` is exactly zero for
    whole w, so warps keep their ends fixed to the last bit. And on a CPU, XLA calls a scalar
    sine, which would dominate the cost of IPU (six times slower on an ARM core); a polynomial on
    the reduced argument is vectorized.
    """
    turn = jnp.round(x)
    r = x - turn
    sign = 1 - 2 * (turn - 2 * jnp.floor(turn / 2))
    # Taylor series on |r| <= 1/2: the next term is below half a unit in the last place.
    n_terms = 6 if x.dtype == jnp.float32 else 11
    square = r * r
    sine = _horner([_term(2 * k + 1) for k in range(n_terms)], square) * r
    cosine = _horner([_term(2 * k) for k in range(n_terms + 1)], square)
    return sign * sine, sign * cosine


def _term(power: int) -> float:
    """Return the coefficient of ``r ** power`` in sin(pi r) or cos(pi r)."""
    return (-1) ** (power // 2) * pi**power / factorial(power)


def _horner(coefficients: list[float], x):
    result = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result
