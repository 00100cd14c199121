"""The interface of ``f``, the transformation that turns a common atom into a personal one.

A transform is a frozen value: it carries hyper-parameters, never fitted numbers, so it can
be hashed, compared, cloned and used as a static argument of a compiled program. What a
transform can do is declared by the interfaces it implements; a step that needs more raises
an error that names what is missing (`require`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from percdl.exceptions import InvalidParameterError

Params = Float[Array, "*batch M"]
Atom = Float[Array, "L P"]
Atoms = Float[Array, "*batch L P"]
#: Which directions a step may take: all parameters (None), or those of a numbered turn.
Turn = Int[Array, ""] | int | None


class Point(NamedTuple):
    """Warped atoms at some parameters, and what is needed to differentiate them there.

    The Jacobian of a warp has a product form, which keeps Gauss-Newton cheap:
    ``d value[l, p] / d step[c, m] = slope[l, p] * directions[c, m, l]`` where ``c`` is the
    warp that acts on channel ``p`` (C = 1 warp for all channels, or C = P, one for each).

    Attributes
    ----------
    value : array (..., L, P)
        The personal atom ``f(phi, a)``.
    slope : array (..., L, P)
        Derivative of the atom along time, per sample, at the warped times.
    details : tuple of arrays (...)
        What the transform keeps to make `WarpTransform.directions` of.
    """

    value: Float[Array, "*batch L P"]
    slope: Float[Array, "*batch L P"]
    details: tuple[Array, ...]


class Transform(ABC):
    """The ``f`` of the paper: ``personal atom = f(common atom, params)`` (Eq. 2)."""

    #: Whether the personal atom depends on the common one.
    shares_structure: ClassVar[bool] = True

    def validate(self) -> None:  # noqa: B027  (most transforms have nothing to check)
        """Raise `InvalidParameterError` where a hyper-parameter is out of range."""

    @abstractmethod
    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return M, the number of parameters per subject and atom."""

    @abstractmethod
    def neutral(self, atom: Atom) -> Float[Array, " M"]:
        """Return the parameters at which ``f(atom, params)`` is the atom itself."""

    @abstractmethod
    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return ``f(atom, params)`` for every set of parameters in the batch."""

    @abstractmethod
    def project(self, params: Params) -> Params:
        """Return the Euclidean projection of ``params`` onto the set Theta."""


class LinearTransform(Transform):
    """A transform that is linear in the atom: ``f(phi, a) = T(a) phi``.

    PerCDU then has a closed form (Theorem 1).
    """

    @abstractmethod
    def operator(
        self, params: Params, atom_length: int, n_channels: int
    ) -> Float[Array, "*batch C L L"]:
        """Return ``T(a)``: C = 1 matrix for all channels, or C = P, one for each."""

    def normal_equations(
        self,
        params: Float[Array, "S M"],
        moment: Float[Array, "S L P"],
        weight: Float[Array, "S L Q"],
    ) -> tuple[Float[Array, "G L L"], Float[Array, "L P"]]:
        """Return ``sum_s T_s^T W_s T_s`` and ``sum_s T_s^T m_s``, all that PerCDU needs.

        G = 1 matrix serves all channels, unless operators or missing samples differ between
        channels (G = P). Cost O(S L^3), as one matrix product.
        """
        operators = self.operator(params, *moment.shape[1:])
        weights = jnp.swapaxes(weight, 1, 2)[..., None]
        gram = jnp.einsum("sglm,sgln->gmn", operators * weights, operators)
        subscripts = "splm,slp->mp" if operators.shape[1] > 1 else "sclm,slp->mp"
        return gram, jnp.einsum(subscripts, operators, moment)


class WarpTransform(LinearTransform):
    """A transform that moves samples in time; it can be linearized and centred."""

    @abstractmethod
    def warp(
        self, params: Params, atom_length: int, n_channels: int
    ) -> Float[Array, "*batch C L"]:
        """Return psi at the L sampling times, in samples (0 to L-1)."""

    @abstractmethod
    def evaluate(self, params: Params, atom: Atom) -> Point:
        """Return ``f(atom, params)``, ready to be differentiated."""

    @abstractmethod
    def directions(self, point: Point, turn: Turn = None) -> Float[Array, "*batch C m L"]:
        """Return the derivative of psi, in samples, in the directions of a turn."""

    @abstractmethod
    def spread(self, step: Float[Array, "*batch C m"], turn: Turn = None) -> Params:
        """Return the change of the parameters that a step along these directions is."""

    @abstractmethod
    def approximate(self, target: Float[Array, "*batch C L"]) -> Params:
        """Return parameters whose warp is close to ``target`` (in samples)."""

    @abstractmethod
    def follow(self, params: Params, outer: Float[Array, "C L"], n_channels: int) -> Params:
        """Return the parameters of ``outer o psi``, with ``outer`` in samples."""

    @abstractmethod
    def resample(self, atom: Atom, position: Float[Array, "*batch C L"]) -> Atoms:
        """Return the atom read at the given positions (in samples)."""


class ClosedFormTransform(Transform):
    """A transform whose IPU step has an exact solution from the two sufficient statistics."""

    @abstractmethod
    def solve(
        self,
        atom: Atom,
        moment: Float[Array, "*batch L P"],
        weight: Float[Array, "*batch L Q"],
    ) -> Params:
        """Return the ``a`` that explains most, ``max <m, g>^2 / <w, g^2>``, g = f(atom, a)."""


def require(transform: Transform, interface: type[Transform], step: str, advice: str) -> None:
    """Raise an error that says what ``step`` misses in ``transform``."""
    if isinstance(transform, interface):
        return
    needed = interface.__abstractmethods__ - Transform.__abstractmethods__
    missing = sorted(name for name in needed if not callable(getattr(transform, name, None)))
    raise InvalidParameterError(
        f"`{step}` cannot use `{type(transform).__name__}`: it must subclass "
        f"`{interface.__name__}`. Missing {', '.join(f'`{name}`' for name in missing)}. {advice}"
    )
