"""Transforms of the channels: gains, gains that change along the pattern, and rotations.

Modulation multiplies ``f(phi, a)_p(t) = g_p(t) phi_p(t)``; the others mix the channels in the same
way at every sample: a rotation of Section A.1, such as that of a tilted sensor, or a gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import logm

from percdl.transforms.base import (
    Atom,
    Atoms,
    ChannelTransform,
    ClosedFormTransform,
    LinearTransform,
    OneOrMany,
    Params,
    check_count,
    divide,
)

# Smallest gain relative to the subject's largest; gains are positive.
WEAKEST = 1e-3
# Maximum number of applications of the Lemma if samples are missing; each one fills the gaps.
N_FILLINGS = 50
FILLED = 1e-5
# The logarithm of a half turn is not unique; it then has an imaginary part beyond this.
ROUNDING = 1e-6
# Ridge towards the subject's mean gain, as a share of the mean stiffness of all gains: where the
# common atom is zero, the data do not determine a gain.
HOLD = 1e-3


@final
@dataclass(frozen=True)
class Gain(ChannelTransform):
    """Scale every channel of the common atom by its own positive factor.

    ``params`` hold the logarithms of the P factors. Their mean is zero, because the amplitude
    of the activations covers the common factor. IPU has a closed form. Cost O(L P) per subject to
    apply and to solve; O(S P L^3) for the sums of PerCDU.

    Examples
    --------
    >>> atom = jnp.ones((5, 2))
    >>> Gain().apply(jnp.log(jnp.array([2.0, 0.5])), atom)[0]
    Array([2. , 0.5], dtype=float32)
    """

    in_words: ClassVar[str] = "scaled channel by channel"

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return M = P."""
        return n_channels

    def param_names(self, atom_length: int, channels: Sequence[str]) -> list[str]:
        """Return the channel of each logarithm."""
        return [f"log_gain_{name}" for name in channels]

    def describe(self, params, atom_length, channels, sfreq):
        """Return the factors."""
        gains = np.moveaxis(np.exp(np.asarray(params, float)), -1, 0)
        return {f"gain_{name}": own for name, own in zip(channels, gains, strict=True)}

    def mixing(self, params: Params, n_channels: int) -> Float[Array, "*batch P P"]:
        """Return the factors on a diagonal."""
        return jnp.exp(params)[..., None] * jnp.eye(n_channels, dtype=params.dtype)

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return the scaled atoms, array (..., L, P)."""
        return atom * jnp.exp(params)[..., None, :]

    def project(self, params: Params) -> Params:
        """Return the logarithms minus their mean."""
        return params - params.mean(-1, keepdims=True)

    def unmix(self, params: Params, moment):
        """Divide the moments by the factors."""
        return moment * jnp.exp(-params)[..., None, :]

    def relative(self, params: Params, gauge: Float[Array, " M"]) -> Params:
        """Return the logarithms of the ratios."""
        return params - gauge

    def operator(self, params: Params, atom_length: int, n_channels: int):
        """Return T(a), array (..., P, L, L)."""
        return jnp.exp(params)[..., None, None] * jnp.eye(atom_length, dtype=params.dtype)

    def solve(self, atom: OneOrMany, moment, weight) -> Params:
        """Return the regression of each channel on the atom; missing channels get the mean."""
        match = jnp.sum(moment * atom, axis=-2)
        power = jnp.sum(weight * atom**2, axis=-2)
        factor = divide(jnp.maximum(match, 0), power)
        least = WEAKEST * factor.max(-1, keepdims=True)
        seen = (power > 0) & (least > 0)
        logs = jnp.log(jnp.where(seen, jnp.maximum(factor, least), 1))
        mean = logs.sum(-1, keepdims=True) / jnp.maximum(seen.sum(-1, keepdims=True), 1)
        return jnp.where(seen, logs - mean, 0)


@final
@dataclass(frozen=True)
class Rotation(ChannelTransform):
    r"""Rotate the channels of the common atom by an orthogonal matrix.

    ``f(phi, R)`` at sample i is ``R phi_i``. IPU has a closed form, the Lemma of the paper:
    ``R = U V^T`` with ``U D V^T`` the singular value decomposition of ``m^T phi``.

    Parameters
    ----------
    allow_reflections : bool
        Any orthogonal matrix, as in the Lemma (True), or rotations only, of determinant 1
        (False; the Kabsch algorithm).

    Notes
    -----
    ``params`` hold the P^2 entries of R, row by row. Centering makes the mean of the R of all
    subjects symmetric, so the mean rotation is zero. Cost O(L P^2) per subject to apply and
    O(L P^2 + P^3) to solve; O(S L P^2) for the sums of PerCDU, O(S (L P)^3) if samples are
    missing in some channels only.

    Examples
    --------
    >>> atom = jnp.asarray(np.random.default_rng(0).standard_normal((9, 3)))
    >>> quarter_turn = jnp.asarray([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    >>> turned = Rotation().apply(quarter_turn.ravel(), atom)
    >>> bool(jnp.allclose(turned[:, 1], atom[:, 0]))
    True
    """

    allow_reflections: bool = True
    in_words: ClassVar[str] = "rotated among the channels"

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return M = P^2."""
        return n_channels**2

    def param_names(self, atom_length: int, channels: Sequence[str]) -> list[str]:
        """Return the row and the column of each entry of R."""
        return [f"rotation_{row}_{column}" for row in channels for column in channels]

    def describe(self, params, atom_length, channels, sfreq):
        """Return the angle in the plane of each two channels, in degrees, from log R.

        Positive angles turn the first channel towards the second. A reflection has none: its
        angles are NaN, and ``reflected`` is 1.
        """
        shape = (*np.shape(params)[:-1], len(channels), len(channels))
        matrices = np.asarray(params, float).reshape(shape)
        with np.errstate(invalid="ignore"):
            sign = np.linalg.det(matrices)  # NaN where a matrix is unknown
        turns = np.full(shape, np.nan)
        for at in np.argwhere(sign > 0):
            log: Any = logm(matrices[tuple(at)])
            if np.abs(log.imag).max() < ROUNDING:
                turns[tuple(at)] = np.degrees(log.real)
        pairs = combinations(range(len(channels)), 2)
        described = {f"angle_{channels[p]}_{channels[q]}_deg": turns[..., q, p] for p, q in pairs}
        if self.allow_reflections:
            described["reflected"] = np.where(np.isnan(sign), np.nan, sign < 0)
        return described

    def neutral(self, atom: Atom) -> Float[Array, " M"]:
        """Return the identity matrix."""
        return jnp.eye(atom.shape[1], dtype=atom.dtype).ravel()

    def mixing(self, params: Params, n_channels: int) -> Float[Array, "*batch P P"]:
        """Return R."""
        return params.reshape(*params.shape[:-1], n_channels, n_channels)

    def project(self, params: Params) -> Params:
        """Return the closest orthogonal matrix."""
        size = int(np.sqrt(params.shape[-1]))
        return self._closest(self.mixing(params, size)).reshape(params.shape)

    def n_moves(self, atom_length: int, n_channels: int) -> int:
        """Return P (P - 1) / 2, the number of planes of rotation."""
        return n_channels * (n_channels - 1) // 2

    def move(self, params: Params, step: Float[Array, "*batch m"]) -> Params:
        """Return ``R (I + W)``, W antisymmetric with the step above its diagonal."""
        size = int(np.sqrt(params.shape[-1]))
        upper = np.triu_indices(size, 1)
        turn = jnp.zeros((*step.shape[:-1], size, size), params.dtype)
        turn = turn.at[..., upper[0], upper[1]].set(step)
        rotation = self.mixing(params, size)
        moved = rotation + rotation @ (turn - jnp.swapaxes(turn, -1, -2))
        return moved.reshape(params.shape)

    def unmix(self, params: Params, moment):
        """Rotate the moments back."""
        return moment @ self.mixing(params, moment.shape[-1])

    def relative(self, params: Params, gauge: Float[Array, " M"]) -> Params:
        """Return ``R gauge^T``."""
        size = int(np.sqrt(params.shape[-1]))
        turned = self.mixing(params, size) @ self.mixing(gauge, size).T
        return turned.reshape(params.shape)

    def normal_equations(self, params, atom: Atom, moment, weight):
        """Return the sums of PerCDU; rotations cancel in the Gram matrix: O(S L P^2)."""
        if weight.shape[2] > 1:
            return super().normal_equations(params, atom, moment, weight)
        return jnp.diag(jnp.squeeze(weight, 2).sum(0))[None], self.unmix(params, moment).sum(0)

    def solve(self, atom: OneOrMany, moment, weight) -> Params:
        """Return ``U V^T`` (the Lemma), iterated if samples have unequal weights.

        Each iteration fills missing samples with the last fit, which never explains less.
        """
        most = weight.max((-2, -1), keepdims=True)

        def fill_and_solve(state):
            n_done, rotation, active = state
            personal = atom @ jnp.swapaxes(rotation, -1, -2)
            power = jnp.sum(weight * personal**2, (-2, -1), keepdims=True)
            match = jnp.sum(moment * personal, (-2, -1), keepdims=True)
            amplitude = divide(jnp.maximum(match, 0), power)
            filled = moment + (most - weight) * amplitude * personal
            closest = self._closest(jnp.swapaxes(filled, -1, -2) @ atom)
            change = jnp.abs(closest - rotation).max((-2, -1))
            # Each subject stops on its own, so its result does not depend on the others.
            rotation = jnp.where(active[..., None, None], closest, rotation)
            return n_done + 1, rotation, active & (change > FILLED)

        def unfinished(state):
            n_done, _, active = state
            return (n_done < N_FILLINGS) & active.any()

        start = self._closest(jnp.swapaxes(moment, -1, -2) @ atom)
        active = jnp.ones(start.shape[:-2], bool)
        _, rotation, _ = jax.lax.while_loop(unfinished, fill_and_solve, (0, start, active))
        return rotation.reshape(*rotation.shape[:-2], -1)

    def _closest(self, matrix: Float[Array, "*batch P P"]) -> Float[Array, "*batch P P"]:
        """Return the orthogonal matrix, or rotation, with the largest inner product."""
        left, _, right = jnp.linalg.svd(matrix, full_matrices=False)
        if not self.allow_reflections:
            sign = jnp.linalg.det(left @ right)
            left = left.at[..., -1].multiply(sign[..., None])
        return left @ right


@final
@dataclass(frozen=True)
class Modulation(LinearTransform, ClosedFormTransform):
    """Scale every channel by a gain of either sign that changes along the pattern.

    ``g_p(t)`` is piecewise linear with values at ``knots`` evenly spaced times, so each wave of a
    pattern can be stronger, weaker or inverted. ``params`` hold the values, channel by channel.
    Their root mean square is one, because the amplitude of the activations covers the common
    factor. IPU has a closed form, and PerCDU is one division per sample and channel. Cost
    O(L P J) per subject to apply, O(P J^2 (L + J)) to solve.

    Parameters
    ----------
    knots : int
        J, the number of values per channel (M = P J); 1 is a constant gain of either sign.

    Examples
    --------
    >>> Modulation(2).apply(jnp.array([1.0, -1.0]), jnp.ones((5, 1)))[:, 0]
    Array([ 1. ,  0.5,  0. , -0.5, -1. ], dtype=float32)
    """

    knots: int = 5

    def validate(self) -> None:
        """Raise if a hyper-parameter is out of range."""
        check_count("Modulation", "knots", self.knots)

    @property
    def in_words(self) -> str:
        """How a person's version of an atom differs from the common one."""
        return f"scaled along the cycle ({self.knots} gains per channel)"

    def param_names(self, atom_length: int, channels: Sequence[str]) -> list[str]:
        """Return the channel and the time of each gain."""
        at = [f"{100 * x:.3g}%" for x in np.linspace(0, 1, self.knots)]
        return [f"gain_{name}_at_{time}" for name in channels for time in at]

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return M = P J."""
        return n_channels * self.knots

    def neutral(self, atom: Atom) -> Float[Array, " M"]:
        """Return ones."""
        return jnp.ones(self.n_params(*atom.shape), atom.dtype)

    def project(self, params: Params) -> Params:
        """Return the values scaled to a root mean square of one."""
        size = jnp.sqrt(jnp.mean(params**2, axis=-1, keepdims=True))
        return divide(params, size)

    def gains(self, params: Params, atom_length: int) -> Float[Array, "*batch L P"]:
        """Return g at the sampling times."""
        values = params.reshape(*params.shape[:-1], -1, self.knots)
        return jnp.einsum("lj,...pj->...lp", self._hats(atom_length, params.dtype), values)

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return the modulated atoms, array (..., L, P)."""
        return atom * self.gains(params, atom.shape[0])

    def operator(self, params: Params, atom_length: int, n_channels: int):
        """Return T(a), array (..., P, L, L)."""
        gains = jnp.swapaxes(self.gains(params, atom_length), -1, -2)
        return gains[..., None] * jnp.eye(atom_length, dtype=params.dtype)

    def normal_equations(self, params, atom: Atom, moment, weight):
        """Return the sums of PerCDU: diagonal matrices, G = P."""
        gains = self.gains(params, atom.shape[0])
        strength = jnp.sum(weight * gains**2, axis=0)
        gram = strength.T[..., None] * jnp.eye(atom.shape[0], dtype=moment.dtype)
        return gram, jnp.sum(moment * gains, axis=0)

    def solve(self, atom: OneOrMany, moment, weight) -> Params:
        """Return the regression of each channel on the atom cut into overlapping pieces."""
        hats = self._hats(moment.shape[-2], moment.dtype)
        stiffness = jnp.einsum("lj,...lp,lk->...pjk", hats, weight * atom**2, hats)
        pull = jnp.einsum("lj,...lp->...pj", hats, moment * atom)
        rows = jnp.sum(stiffness, axis=-1)
        total = jnp.sum(rows, axis=(-2, -1))
        # The best common gain, the target of the ridge.
        shared = divide(jnp.sum(pull, axis=(-2, -1)), total)
        trace = jnp.trace(stiffness, axis1=-2, axis2=-1).mean(-1) / self.knots
        hold = jnp.where(total > 0, HOLD * trace, 1)[..., None, None]
        system = stiffness + hold[..., None] * jnp.eye(self.knots, dtype=moment.dtype)
        right = pull + hold * shared[..., None, None]
        found = jnp.squeeze(jnp.linalg.solve(system, right[..., None]), -1)
        values = found.reshape(*found.shape[:-2], -1)
        seen = (jnp.abs(values).max(-1) > 0)[..., None]
        return jnp.where(seen, self.project(values), 1)

    def _hats(self, atom_length: int, dtype) -> Float[Array, "L J"]:
        """Return the weight of each knot at each sample; weights add up to one."""
        position = np.linspace(0, self.knots - 1, atom_length)[:, None]
        return jnp.asarray(np.maximum(0, 1 - np.abs(position - np.arange(self.knots))), dtype)
