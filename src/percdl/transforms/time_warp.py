"""Time warping, the transform of Section 2.4: ``f(phi, a)(t) = phi(psi_a(t))``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from percdl.exceptions import InvalidParameterError
from percdl.transforms import interpolation as interp
from percdl.transforms.base import Atom, Atoms, Params, Point, Turn, WarpTransform, check_count
from percdl.transforms.sine_layers import (
    by_group,
    by_layer,
    displace,
    grid,
    in_samples,
    pass_through,
    project_rows_onto_l1_ball,
    sine_coefficients,
    sines,
    stretch_by_later,
    tie_layers,
)

# Rows of norm below one keep psi' > 0; the margin keeps the inverse warp well conditioned.
MAX_ROW_NORM = 0.99
# Iterations of `approximate`; each reduces the error about threefold.
N_CORRECTIONS = 2


@final
@dataclass(frozen=True)
class TimeWarp(WarpTransform):
    r"""Interpolate the common atom at warped times (Eqs. 4-5).

    ``f(phi, a)`` at sample i is ``phi(psi_a(t_i))`` with ``t_i = i / (L - 1)`` and

    .. math:: \psi_a = \psi_D \circ \dots \circ \psi_1, \qquad
              \psi_d(t) = t + \sum_w a_{dw} \sin(w \pi t) / (w \pi).

    *Direction*: psi maps the subject's time to the population's, so ``psi'(t) > 1`` means
    that the subject passes through this phase faster than the population. *Ends*:
    ``psi(0) = 0`` and ``psi(1) = 1``. *Monotonicity*: psi increases whenever every row of
    ``a`` has l1 norm below one, the set Theta. Zero parameters are exactly the identity.

    Parameters
    ----------
    depth : int
        D, the number of layers; more layers allow larger changes of speed.
    width : int
        W, the number of sines per layer; more sines allow more local changes.
    interpolation : {"cubic", "linear", "paper"}
        How the atom is read between its samples.
    per_channel : bool
        One warp for all channels (False), or one for each (True; M = P D W).
    roughness : float
        Penalty on rough warps, in squared signal units. The objective includes it times the mean
        square of the second derivative of each layer.
    prior : {"estimated", None}
        Estimate the distribution of the warps in the population along with the atoms, and use it
        as a prior, which matters for recordings that contain little information about a warp.
        None is the model of the paper.

    Notes
    -----
    ``params`` hold, for each warp, D rows of W numbers, the first row acting first. Different
    parameters can give the same warp, so single parameters have no meaning; see `describe`.
    Cost O(L M + L P) per subject to evaluate or linearize, O(S L (L + P)) for the sums of PerCDU,
    O(S P L^2) with ``per_channel``; up to L times as much with the "paper" interpolation.

    Examples
    --------
    >>> warp = TimeWarp(depth=2, width=3)
    >>> atom = jnp.asarray(np.hanning(9)[:, None])
    >>> bool((warp.apply(jnp.zeros(6), atom) == atom).all())
    True
    """

    depth: int = 3
    width: int = 10
    interpolation: interp.Interpolation = "cubic"
    per_channel: bool = False
    roughness: float = 0.0
    prior: Literal["estimated"] | None = "estimated"

    def validate(self) -> None:
        """Raise if a hyper-parameter is out of range."""
        for name in ("depth", "width"):
            check_count("TimeWarp", name, getattr(self, name))
        check_count("TimeWarp", "depth * width", self.depth * self.width)
        interp.check_interpolation("TimeWarp", self.interpolation)
        if not 0 <= self.roughness < np.inf:
            raise InvalidParameterError(
                f"`TimeWarp(roughness={self.roughness!r})` must be a finite number of at least 0."
            )

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return M = D W, times P with ``per_channel``."""
        return self.n_warps(n_channels) * self.depth * self.width

    @property
    def in_words(self) -> str:
        """How a person's version of an atom differs from the common one."""
        each = ", each channel by itself" if self.per_channel else ""
        layers = "1 layer" if self.depth == 1 else f"{self.depth} layers"
        return f"warped in time{each} ({layers} of {self.width} sines)"

    def param_names(self, atom_length: int, channels: Sequence[str]) -> list[str]:
        """Return the layer and the sine of each parameter, both counted from 1."""
        of = [f"{name}_" for name in channels] if self.per_channel else [""]
        layers, orders = range(1, self.depth + 1), range(1, self.width + 1)
        return [f"{name}layer{d}_sine{w}" for name in of for d in layers for w in orders]

    def project(self, params: Params) -> Params:
        """Project each row onto the l1 ball of radius 0.99."""
        rows = params.reshape(*params.shape[:-1], -1, self.width)
        return project_rows_onto_l1_ball(rows, MAX_ROW_NORM).reshape(params.shape)

    def price(self, params: Params) -> Float[Array, "*batch"] | None:
        """Return ``roughness`` times ``sum (w pi a_dw)^2 / 2`` over the layers."""
        if self.roughness == 0:
            return None
        rows = params.reshape(*params.shape[:-1], -1, self.width)
        bends = jnp.pi * jnp.arange(1, self.width + 1, dtype=params.dtype) * rows
        return self.roughness * jnp.sum(bends**2, axis=(-2, -1)) / 2

    def reprice(self, factor: float) -> TimeWarp:
        """Return the same warp with its roughness penalty for signals times ``factor``."""
        return replace(self, roughness=self.roughness * factor * factor)

    def warp(self, params: Params, atom_length: int, n_channels: int):
        """Return psi at the sampling times, in samples: array (..., C, L)."""
        displacement, _ = pass_through(self._layers(params, n_channels), atom_length)
        return in_samples(displacement, atom_length)

    def evaluate(self, params: Params, atom: Atom) -> Point:
        """Return the warped atoms with the values needed for their derivatives."""
        length, n_channels = atom.shape
        displacement, (times, slopes) = pass_through(self._layers(params, n_channels), length)
        gains = (length - 1) * stretch_by_later(slopes)
        warps = in_samples(displacement, length)
        details = jnp.moveaxis(times, 0, -2), jnp.moveaxis(gains, 0, -2)
        value, slope = self._read(atom, warps)
        return Point(value, slope, details, warps)

    def directions(self, point: Point, turn: Turn = None) -> Float[Array, "*batch C m L"]:
        """Return the derivative of psi, in samples, in the directions of a turn."""
        groups = tie_layers(self.depth, self.width, turn)

        def term(time, gain):
            return sines(time, self.width) * gain[..., None, :]

        def derive(group):
            return reduce(jnp.add, map(term, *group))

        parts = tuple(by_group(groups, jnp.moveaxis(x, -2, 0)) for x in point.details)
        # On a CPU, one group at a time stays in the cache, which is three times faster.
        one_by_one, at_once = partial(jax.lax.map, derive), jax.vmap(derive)
        basis = jax.lax.platform_dependent(parts, cpu=one_by_one, default=at_once)
        return jnp.moveaxis(basis, 0, -3).reshape(*basis.shape[1:-2], -1, basis.shape[-1])

    def step(self, params: Params, step: Float[Array, "*batch C m"], turn: Turn = None) -> Params:
        """Return the parameters after a step along the directions of a turn."""
        groups = tie_layers(self.depth, self.width, turn)
        parts = step.reshape(*step.shape[:-1], groups.n_groups, self.width)
        return params + by_layer(groups, parts).reshape(*step.shape[:-2], -1)

    def approximate(self, target: Float[Array, "*batch C L"]) -> Params:
        """Return parameters of a warp close to ``target`` (in samples), with equal layers.

        A displacement e is split into D layers of e / D each; then the remaining error is added
        in the same way.
        """
        length, n_channels = target.shape[-1], target.shape[-2]
        shape = (*target.shape[:-1], self.depth, self.width)

        def correct(_, params):
            missing = (target - self.warp(params, length, n_channels)) / (length - 1)
            share = sine_coefficients(missing, self.width) / self.depth
            layers = jnp.broadcast_to(share[..., None, :], shape)
            return self.project(params + layers.reshape(params.shape))

        identity = jnp.zeros(shape, target.dtype).reshape(*target.shape[:-2], -1)
        return jax.lax.fori_loop(0, N_CORRECTIONS, correct, identity)

    def follow(self, params: Params, outer: Float[Array, "C L"], n_channels: int) -> Params:
        """Return the parameters of ``outer o psi``; the last layer absorbs ``outer``."""
        length = outer.shape[-1]
        layers = self._layers(params, n_channels)
        time = grid(length, params.dtype)
        moved = in_samples(displace(time, layers[-1])[0], length)
        reached = _read_curve(jnp.broadcast_to(outer, moved.shape[-2:]), moved) / (length - 1)
        last = sine_coefficients(reached - time, self.width)
        layers = jnp.moveaxis(layers.at[-1].set(last), 0, -2)
        return self.project(layers.reshape(params.shape))

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return the warped atoms, array (..., L, P)."""
        return self.resample(atom, self.warp(params, *atom.shape))

    def resample(self, atom: Atom, position: Float[Array, "*batch C L"]) -> Atoms:
        """Return the atom interpolated at the given positions (..., C, L), in samples."""
        return self._read(atom, position)[0]

    def operator(self, params: Params, atom_length: int, n_channels: int):
        """Return T(a), array (..., C, L, L)."""
        position = self.warp(params, atom_length, n_channels)
        return interp.operator(position, atom_length, self.interpolation)

    def normal_equations(self, params, atom: Atom, moment, weight, variance=None):
        """Return the sums of PerCDU; O(S L (L + P)) for the local kernels.

        With the posterior ``variance`` of the warps, in squared samples, return the expected
        sums: the mean of those of psi plus and minus one standard deviation, which is exact
        for polynomials of degree three.
        """
        if variance is not None:
            warps, deviation = self.warp(params, *atom.shape), jnp.sqrt(variance)
            sides = (warps + side * deviation for side in (-1, 1))
            read = (jnp.clip(side, 0, atom.shape[0] - 1) for side in sides)
            sums = (self._normal_equations(each, moment, weight) for each in read)
            return jax.tree.map(lambda a, b: (a + b) / 2, *sums)
        if self.interpolation == "paper":
            return super().normal_equations(params, atom, moment, weight)
        return self._normal_equations(self.warp(params, *atom.shape), moment, weight)

    def _normal_equations(self, warps, moment, weight):
        """Return the sums of PerCDU for warps (S, C, L), in samples."""
        length, n_channels = moment.shape[1:]
        position = jnp.moveaxis(warps, 1, 0)
        groups = max(len(position), weight.shape[2])
        shape = (groups, *moment.shape[:2])
        gram, transported = jax.vmap(partial(interp.normal_equations, kind=self.interpolation))(
            jnp.broadcast_to(position, shape),
            jnp.broadcast_to(jnp.moveaxis(weight, 2, 0), shape),
            jnp.moveaxis(moment.reshape(*moment.shape[:2], groups, -1), 2, 0),
        )
        return gram, jnp.moveaxis(transported, 0, 1).reshape(length, n_channels)

    def n_warps(self, n_channels: int) -> int:
        """Return C: the number of channels with ``per_channel``, else 1."""
        return n_channels if self.per_channel else 1

    def _layers(self, params: Params, n_channels: int):
        """Split the parameters into D layers of shape (..., C, W)."""
        shape = (*params.shape[:-1], self.n_warps(n_channels), self.depth, self.width)
        return jnp.moveaxis(params.reshape(shape), -2, 0)

    def _read(self, atom: Atom, position):
        if not self.per_channel:
            return interp.read(atom, jnp.squeeze(position, -2), self.interpolation)
        channels = [
            interp.read(atom[:, p : p + 1], position[..., p, :], self.interpolation)
            for p in range(atom.shape[1])
        ]
        return jax.tree.map(lambda *parts: jnp.concatenate(parts, -1), *channels)


def _read_curve(curve: Float[Array, "C L"], position: Float[Array, "*batch C L"]):
    """Return curves interpolated at their own positions, in samples."""
    read = [
        jnp.squeeze(interp.read(row[:, None], position[..., c, :], "cubic")[0], -1)
        for c, row in enumerate(curve)
    ]
    return jnp.stack(read, axis=-2)
