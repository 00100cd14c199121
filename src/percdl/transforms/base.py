"""The interface of ``f``, the transformation that turns a common atom into a personal one.

A transform is a frozen value with hyper-parameters only, no fitted numbers. It can be hashed,
compared, cloned and used as a static argument of a compiled program. The interfaces that it
implements declare what it can do; a step that needs more raises an error (`require`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from percdl.exceptions import InvalidParameterError

# IPU solves systems with this many unknowns; practical models have fewer than half.
MOST_PARAMS = 2**16
# A warp is described at the ends of this many equal parts of the cycle.
N_PARTS = 8


def check_count(transform: str, name: str, value: Any) -> None:
    """Raise if an argument of a transform is not a valid number of parameters."""
    if not isinstance(value, int | np.integer) or not 1 <= value <= MOST_PARAMS:
        raise InvalidParameterError(
            f"`{transform}({name}={value!r})` must be an integer of at least 1 and at most "
            f"{MOST_PARAMS}."
        )


def divide(x: Float[Array, "*#shape"], by: Float[Array, "*#shape"]) -> Float[Array, "*#shape"]:
    """Return ``x / by``, or zero where ``by`` is not positive.

    It never divides by zero, so derivatives are defined as well.

    >>> divide(jnp.array([6.0, 6.0]), jnp.array([4.0, 0.0]))
    Array([1.5, 0. ], dtype=float32)
    """
    return x / jnp.where(by > 0, by, jnp.inf)


Params = Float[Array, "*batch M"]
Atom = Float[Array, "L P"]
Atoms = Float[Array, "*batch L P"]
#: The two sufficient statistics; Q = 1 weight for all channels, or one for each.
Moments = Float[Array, "*batch L P"]
Weights = Float[Array, "*batch L Q"]
#: One atom for all, or one for each.
OneOrMany = Float[Array, "*atoms L P"]
Warps = Float[Array, "*batch C L"]
#: Directions of a step: all parameters (None), or those of a numbered turn.
Turn = Int[Array, ""] | int | None


class Point(NamedTuple):
    """Personal atoms at some parameters, with the values needed to differentiate them.

    The Jacobian of a warp has a product form, which keeps Gauss-Newton cheap:
    ``d value[l, p] / d step[c, m] = slope[l, p] * directions[c, m, l]`` where ``c`` is the warp
    of channel ``p`` (`WarpTransform.n_warps`). Other transforms have slope 1 and directions for
    each of the L P entries of the atom.
    """

    value: Atoms  # the personal atom, f(phi, a)
    slope: Atoms  # of the atom along time, per sample, at the warped times; or ones
    details: tuple[Array, ...]  # values that `Transform.directions` uses
    warps: Float[Array, "*batch C L"] | None = None  # in samples, if the transform is a warp


class Transform(ABC):
    """The ``f`` of the paper: ``personal atom = f(common atom, params)`` (Eq. 2).

    A transform must define its number of parameters and how they act. The other methods have a
    default, some by automatic differentiation; a transform can override them.
    """

    #: Whether the personal atom depends on the common one.
    shares_structure: ClassVar[bool] = True
    #: Whether ``f`` is linear in the atom, so that PerCDU has a closed form.
    linear: bool = False

    def validate(self) -> None:  # noqa: B027  (most transforms have nothing to check)
        """Raise `InvalidParameterError` if a hyper-parameter is out of range."""

    @abstractmethod
    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return M, the number of parameters per subject and atom."""

    def neutral(self, atom: Atom) -> Float[Array, " M"]:
        """Return the parameters at which ``f(atom, params)`` is the atom itself: zeros."""
        return jnp.zeros(self.n_params(*atom.shape), atom.dtype)

    @abstractmethod
    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return ``f(atom, params)`` for every set of parameters in the batch."""

    def project(self, params: Params) -> Params:
        """Return the Euclidean projection of ``params`` onto the set Theta: by default all."""
        return params

    @property
    def in_words(self) -> str:
        """How a person's version of an atom differs from the common one, as half a sentence."""
        return f"changed by {self!r}"

    def param_names(self, atom_length: int, channels: Sequence[str]) -> list[str]:
        """Return the names of the M parameters, all different."""
        return [f"param{m}" for m in range(self.n_params(atom_length, len(channels)))]

    def describe(
        self, params: np.ndarray, atom_length: int, channels: Sequence[str], sfreq: float
    ) -> dict[str, np.ndarray]:
        """Return numbers that mean the same for all people, by name; NaN where unknown.

        By default the parameters themselves. A transform whose parameters mean nothing one by
        one returns other numbers, with the unit in the name.
        """
        names = self.param_names(atom_length, channels)
        return dict(zip(names, np.moveaxis(np.asarray(params, float), -1, 0), strict=True))

    def n_moves(self, atom_length: int, n_channels: int) -> int:
        """Return the number of directions in which the parameters can move."""
        return self.n_params(atom_length, n_channels)

    def move(self, params: Params, step: Float[Array, "*batch m"]) -> Params:
        """Return the parameters moved by a small step, to be projected onto Theta."""
        return params + step

    def price(self, params: Params) -> Float[Array, "*batch"] | None:
        """Return the cost of the parameters, a term of the objective; None means no cost.

        A transform with a price also implements `reprice`.
        """
        return None

    def reprice(self, factor: float) -> Transform:
        """Return the transform with its price (in squared units) for signals times ``factor``."""
        return self

    def evaluate(self, params: Params, atom: Atom) -> Point:
        """Return ``f(atom, params)`` with the values needed to differentiate it."""
        still = jnp.zeros(self.n_moves(*atom.shape), atom.dtype)

        def moved(step, params):
            return self.apply(self.move(params, step), atom)

        rows = params.reshape(-1, params.shape[-1])
        jacobian = jax.vmap(jax.jacfwd(moved), (None, 0))(still, rows)
        columns = jacobian.reshape(*params.shape[:-1], atom.size, still.size)
        value = self.apply(params, atom)
        return Point(value, jnp.ones_like(value), (jnp.swapaxes(columns, -1, -2),))

    def directions(self, point: Point, turn: Turn = None) -> Array:
        """Return the derivative of the personal atom in all directions, array (..., 1, m, L P)."""
        return point.details[0][..., None, :, :]

    def step(self, params: Params, step: Float[Array, "*batch C m"], turn: Turn = None) -> Params:
        """Return the parameters after a step along the directions of a turn."""
        return self.move(params, step.reshape(*step.shape[:-2], -1))

    def normal_equations(
        self,
        params: Float[Array, "S M"],
        atom: Atom,
        moment: Float[Array, "S L P"],
        weight: Float[Array, "S L Q"],
    ) -> tuple[Float[Array, "G n n"], Atom]:
        """Return the two sums of PerCDU, ``f`` linearized at the common atom.

        With J the derivative of ``f`` in the atom, ``sum_s J^T W J`` and
        ``sum_s J^T (m - W (f - J phi))``; for a linear ``f`` these are the sums of Theorem 1
        and do not depend on the atom. G = 1 system of size L for all channels, G = P of size
        L, one for each, or G = 1 of size L P. Cost O(S (L P)^3).
        """
        personal = self.apply(params, atom)
        rows = jax.vmap(lambda a: jax.jacfwd(partial(self.apply, a))(atom))(params)
        jacobian = rows.reshape(len(params), atom.size, atom.size)
        offset = personal - jnp.einsum("snm,m->sn", jacobian, atom.ravel()).reshape(personal.shape)
        weights = jnp.broadcast_to(weight, moment.shape).reshape(len(params), -1, 1)
        gram = jnp.einsum("snm,snk->mk", jacobian * weights, jacobian)
        rest = (moment - weight * offset).reshape(len(params), -1)
        right = jnp.einsum("snm,sn->m", jacobian, rest)
        return gram[None], right.reshape(atom.shape)

    def warp_part(self, atom_length: int, n_channels: int) -> tuple[WarpTransform, slice] | None:
        """Return the part that warps time and the slice of its parameters, or None."""
        return None

    def channel_part(
        self, atom_length: int, n_channels: int
    ) -> tuple[ChannelTransform, slice] | None:
        """Return the part that mixes channels, which is centred too, and its slice, or None."""
        return None

    def unmix(self, params: Params, moment: Moments) -> Moments:
        """Return the moments with the mixing of channels undone."""
        return moment

    def solve_parts(self, params: Params, atom: Atom, moment: Moments, weight: Weights) -> Params:
        """Return the parameters with the closed-form solution of every part that has one."""
        return params


class LinearTransform(Transform):
    """A transform that is linear in the atom: ``f(phi, a) = T(a) phi``.

    PerCDU then has a closed form (Theorem 1).
    """

    linear = True

    @abstractmethod
    def operator(self, params: Params, atom_length: int, n_channels: int) -> Array:
        """Return ``T(a)``, array (..., C, n, n).

        C = 1 matrix of size L for all channels, C = P of size L, one per channel, or, if channels
        mix, C = 1 of size L P that acts on the samples in the order (time, channel).
        """

    def normal_equations(self, params, atom, moment, weight):
        """Return ``sum_s T_s^T W_s T_s`` and ``sum_s T_s^T m_s``, the sums of PerCDU.

        G = 1 matrix serves all channels, unless operators or missing samples differ between
        channels (G = P) or channels mix (G = 1, of size L P). Cost O(S n^3), as one product.
        """
        operators = self.operator(params, *atom.shape)
        if operators.shape[-1] != atom.shape[0]:  # channels mix, so there is no structure to use
            return super().normal_equations(params, atom, moment, weight)
        weights = jnp.swapaxes(weight, 1, 2)[..., None]
        gram = jnp.einsum("sglm,sgln->gmn", operators * weights, operators)
        return gram, jnp.einsum("splm,slp->mp", operators, moment)


class WarpTransform(LinearTransform):
    """A transform that moves samples in time; it can be linearized and centred."""

    #: Whether the fit estimates the distribution of the warps ("estimated") or not (None).
    prior: Any = None

    @abstractmethod
    def warp(self, params: Params, atom_length: int, n_channels: int) -> Warps:
        """Return psi at the L sampling times, in samples (0 to L-1)."""

    @abstractmethod
    def approximate(self, target: Warps) -> Params:
        """Return parameters of a warp close to ``target`` (in samples)."""

    @abstractmethod
    def follow(self, params: Params, outer: Float[Array, "C L"], n_channels: int) -> Params:
        """Return the parameters of ``outer o psi``, with ``outer`` in samples."""

    @abstractmethod
    def resample(self, atom: Atom, position: Warps) -> Atoms:
        """Return the atom interpolated at the given positions (in samples)."""

    def n_warps(self, n_channels: int) -> int:
        """Return C, the number of warps per atom; by default one for all channels."""
        return 1

    def describe(self, params, atom_length, channels, sfreq):
        """Return the displacement at each eighth of the cycle, and the mean speed between them.

        The displacement ``psi(t) - t`` is in seconds, positive where the person is ahead of the
        population; a speed of 1 is that of the population. psi is linear between its samples.
        """
        with jax.enable_x64(True):
            own = jnp.asarray(np.asarray(params, float))
            psi = np.asarray(self.warp(own, atom_length, len(channels)))
        at = np.linspace(0, atom_length - 1, N_PARTS + 1)
        low = np.minimum(at.astype(int), atom_length - 2)
        reached = psi[..., low] + (at - low) * (psi[..., low + 1] - psi[..., low])
        speeds = np.diff(reached) / np.diff(at)
        share = [f"{100 * i / N_PARTS:g}%" for i in range(N_PARTS + 1)]
        described = {}
        for c in range(psi.shape[-2]):
            end = f"_{channels[c]}" if psi.shape[-2] > 1 else ""
            for i in range(1, N_PARTS):
                ahead = (reached - at)[..., c, i] / sfreq
                described[f"displacement_at_{share[i]}_s{end}"] = ahead
            for i in range(N_PARTS):
                described[f"speed_{share[i]}_to_{share[i + 1]}{end}"] = speeds[..., c, i]
        return described

    def warp_part(self, atom_length: int, n_channels: int) -> tuple[WarpTransform, slice]:
        """Return itself, and all parameters."""
        return self, slice(None)


class ClosedFormTransform(Transform):
    """A transform with an exact solution of IPU from the two sufficient statistics."""

    @abstractmethod
    def solve(self, atom: OneOrMany, moment: Moments, weight: Weights) -> Params:
        """Return the ``a`` that explains most, ``max <m, g>^2 / <w, g^2>``, g = f(atom, a).

        ``atom`` is one for all sets of statistics, or one per set.
        """


class ChannelTransform(LinearTransform, ClosedFormTransform):
    """A transform that mixes channels in the same way at every sample: ``f(phi, a) = phi M(a)^T``.

    The matrices M(a) form a group, so the common atom is defined up to one of them; centering
    makes their mean the neutral one.
    """

    @abstractmethod
    def mixing(self, params: Params, n_channels: int) -> Float[Array, "*batch P P"]:
        """Return M(a)."""

    @abstractmethod
    def unmix(self, params: Params, moment: Moments) -> Moments:
        """Return ``moment M(a)^-T``."""

    @abstractmethod
    def relative(self, params: Params, gauge: Float[Array, " M"]) -> Params:
        """Return the parameters of ``M(a) M(gauge)^-1``."""

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return the mixed atoms, array (..., L, P)."""
        return jnp.einsum("lq,...pq->...lp", atom, self.mixing(params, atom.shape[1]))

    def operator(self, params: Params, atom_length: int, n_channels: int):
        """Return T(a), array (..., 1, L P, L P)."""
        mixing = self.mixing(params, n_channels)
        size = atom_length * n_channels
        whole = jnp.einsum("lm,...pq->...lpmq", jnp.eye(atom_length, dtype=params.dtype), mixing)
        return whole.reshape(*params.shape[:-1], 1, size, size)

    def channel_part(self, atom_length: int, n_channels: int) -> tuple[ChannelTransform, slice]:
        """Return itself, and all parameters."""
        return self, slice(None)


def require(transform: Transform, interface: type[Transform], step: str, advice: str) -> None:
    """Raise an error if ``transform`` lacks the ``interface`` that ``step`` needs.

    Parameters
    ----------
    transform, interface : Transform, type
        The transform to check, and the required base class.
    step, advice : str
        Name of the step, and what to do instead, for the message.

    Examples
    --------
    >>> from percdl.transforms import LinearTransform, TimeWarp
    >>> require(TimeWarp(), LinearTransform, "PerCDU", "")
    """
    if isinstance(transform, interface):
        return
    needed = interface.__abstractmethods__ - Transform.__abstractmethods__
    missing = sorted(name for name in needed if not callable(getattr(transform, name, None)))
    raise InvalidParameterError(
        f"`{step}` cannot use `{type(transform).__name__}`: it must subclass "
        f"`{interface.__name__}`. Missing {', '.join(f'`{name}`' for name in missing)}. {advice}"
    )
