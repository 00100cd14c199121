"""Custom transforms: any JAX function ``f(phi, a)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float

from percdl.exceptions import InvalidParameterError
from percdl.transforms.base import Atom, Atoms, Params, Transform, check_count

# Allowed difference between f(phi, neutral) and phi, relative to the largest value.
AT_REST = 1e-4


@final
@dataclass(frozen=True, init=False)
class Custom(Transform):
    """Use a JAX function as the f of the paper.

    IPU is Gauss-Newton with automatic differentiation. PerCDU is one Gauss-Newton step in the
    atom: exact if ``function`` is linear in the atom, damped otherwise. Cost per subject and
    atom: M evaluations of ``function`` and O(L P M^2) for a step of IPU, L P evaluations and
    O((L P)^3) for PerCDU.

    Parameters
    ----------
    function : callable
        ``f(phi, a)``: the personal atom (L, P) from the common one (L, P) and ``n_params``
        numbers (M,), written with `jax.numpy`.
    n_params : int
        M.
    project : callable, optional
        The projection of ``a`` (M,) onto Theta; by default every ``a`` is allowed.
    neutral : tuple of float, optional
        The ``a`` at which ``f(phi, a) = phi``; by default zeros.
    linear : bool
        Whether ``f`` is linear in the atom.

    Examples
    --------
    >>> skew = Custom(lambda phi, a: phi * jnp.exp(a * jnp.linspace(-1, 1, len(phi)))[:, None], 1)
    >>> skew.apply(jnp.zeros(1), jnp.ones((3, 1))).shape
    (3, 1)
    """

    function: Callable[[Atom, Array], Array]
    size: int
    onto: Callable[[Array], Array] | None
    at_rest: tuple[float, ...] | None
    linear: bool

    def __init__(
        self,
        function: Callable[[Atom, Array], Array],
        n_params: int,
        project: Callable[[Array], Array] | None = None,
        *,
        neutral: Sequence[float] | None = None,
        linear: bool = False,
    ):
        at_rest = None if neutral is None else tuple(neutral)
        # The instance is frozen, so its attributes are set past `__setattr__`.
        vars(self).update(
            function=function, size=n_params, onto=project, at_rest=at_rest, linear=linear
        )

    def __repr__(self) -> str:
        """Return the name of the function and the number of parameters."""
        return f"Custom({getattr(self.function, '__name__', '?')}, n_params={self.size})"

    @property
    def in_words(self) -> str:
        """How a person's version of an atom differs from the common one."""
        name = getattr(self.function, "__name__", "a function")
        return f"changed by {name} ({self.size} parameter(s))"

    def validate(self) -> None:
        """Raise if an argument is invalid."""
        if not callable(self.function):
            raise InvalidParameterError(
                f"`Custom(function={self.function!r})` must be a function f(phi, a)."
            )
        check_count("Custom", "n_params", self.size)
        if self.at_rest is not None and len(self.at_rest) != self.size:
            raise InvalidParameterError(
                f"`Custom(neutral=...)` has {len(self.at_rest)} numbers, but n_params is "
                f"{self.size}."
            )

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return M."""
        return self.size

    def neutral(self, atom: Atom) -> Float[Array, " M"]:
        """Return the neutral parameters."""
        rest = jnp.asarray(self.at_rest or (0.0,) * self.size, atom.dtype)
        self._check(atom, rest)
        return rest

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return ``function(atom, a)`` for every set of parameters."""
        rows = params.reshape(-1, self.size)
        personal = jax.vmap(lambda a: self.function(atom, a))(rows)
        return personal.reshape(*params.shape[:-1], *atom.shape)

    def project(self, params: Params) -> Params:
        """Project every set of parameters."""
        if self.onto is None:
            return params
        return jax.vmap(self.onto)(params.reshape(-1, self.size)).reshape(params.shape)

    def _check(self, atom: Atom, rest: Array) -> None:
        """Raise if the function does not return an atom, or changes it at neutral parameters."""
        personal = jax.eval_shape(self.function, atom, rest)
        if personal.shape != atom.shape:
            raise InvalidParameterError(
                f"`Custom` needs a function that returns an atom of shape {atom.shape}, the "
                f"shape of the one it is given; it returned {personal.shape}."
            )
        if isinstance(atom, Tracer):
            return  # a compiled program has no concrete values
        change = float(jnp.abs(self.function(atom, rest) - atom).max())
        if not change <= AT_REST * float(jnp.abs(atom).max()):
            raise InvalidParameterError(
                f"`Custom` needs parameters that change nothing to start from, but at "
                f"{[float(a) for a in rest]} the function changes the atom. Pass `neutral=[...]`."
            )
