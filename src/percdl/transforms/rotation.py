"""Rotation of the channels: ``f(phi, R) = phi R^T`` (Section A.1), e.g. of a tilted sensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import logm

from percdl.transforms.base import Atom, ChannelTransform, OneOrMany, Params, divide

# Maximum number of applications of the Lemma if samples are missing; each one fills the gaps.
N_FILLINGS = 50
FILLED = 1e-5
# The logarithm of a half turn is not unique; it then has an imaginary part beyond this.
ROUNDING = 1e-6


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

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return M = P^2."""
        return n_channels**2

    @property
    def in_words(self) -> str:
        """How a person's version of an atom differs from the common one."""
        return "rotated among the channels"

    def param_names(self, atom_length: int, channels: Sequence[str]) -> list[str]:
        """Return the row and the column of each entry of R."""
        return [f"rotation_{row}_{column}" for row in channels for column in channels]

    def describe(
        self,
        params: Float[np.ndarray, "*batch M"],
        atom_length: int,
        channels: Sequence[str],
        sfreq: float,
    ) -> dict[str, np.ndarray]:
        """Return the angle in the plane of each two channels, in degrees, from log R.

        Positive angles turn the first channel towards the second. A reflection has none: its
        angles are NaN, and ``reflected`` is 1.
        """
        shape = (*np.shape(params)[:-1], len(channels), len(channels))
        matrices = np.asarray(params, float).reshape(shape)
        known = np.asarray(np.isfinite(matrices).all((-1, -2)))
        sign = np.where(
            known, np.linalg.det(np.where(known[..., None, None], matrices, 0)), np.nan
        )
        turns = np.full(shape, np.nan)
        for at in np.argwhere(sign > 0):
            log: Any = logm(matrices[tuple(at)])
            turns[tuple(at)] = (
                np.degrees(log.real) if np.abs(log.imag).max() < ROUNDING else np.nan
            )
        pairs = combinations(range(len(channels)), 2)
        described = {f"angle_{channels[p]}_{channels[q]}_deg": turns[..., q, p] for p, q in pairs}
        if self.allow_reflections:
            described["reflected"] = np.where(known, sign < 0, np.nan)
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
