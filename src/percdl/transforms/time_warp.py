"""Time warping, the transform of Section 2.4: ``f(phi, a)(t) = phi(psi_a(t))``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from percdl.exceptions import InvalidParameterError
from percdl.transforms import interpolation as interp
from percdl.transforms.base import Atom, Atoms, Linearization, Params, WarpTransform
from percdl.transforms.projection import project_rows_onto_l1_ball
from percdl.transforms.trigonometry import sincospi

# Rows of norm below one keep psi' > 0; the margin keeps the inverse warp well conditioned.
MAX_ROW_NORM = 0.99


@final
@dataclass(frozen=True)
class TimeWarp(WarpTransform):
    r"""Read the common atom at warped times (Eqs. 4-5).

    ``f(phi, a)`` at sample i is ``phi(psi_a(t_i))`` with ``t_i = i / (L - 1)`` and

    .. math:: \psi_a = \psi_D \circ \dots \circ \psi_1, \qquad
              \psi_d(t) = t + \sum_w a_{dw} \sin(w \pi t) / (w \pi).

    *Direction*: psi maps the subject's time to the population's, so ``psi'(t) > 1`` means
    that the subject runs through this phase faster than the population. *Ends*:
    ``psi(0) = 0`` and ``psi(1) = 1``. *Monotonicity*: psi increases whenever every row of
    ``a`` has l1 norm below one, the set Theta. Zero parameters are exactly the identity.

    Parameters
    ----------
    depth : int
        D, the number of layers: how far time can be stretched.
    width : int
        W, the number of sines per layer: how local the stretching can be.
    interpolation : {"cubic", "linear", "paper"}
        How the atom is read between its samples.
    per_channel : bool
        One warp for all channels (False), or one for each (True; M = P D W).

    Notes
    -----
    ``params`` hold, for each warp, D rows of W numbers, the first row acting first.
    Evaluating or linearizing costs O(L D W + L P).

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

    def validate(self) -> None:
        """Raise where a hyper-parameter is out of range."""
        for name in ("depth", "width"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise InvalidParameterError(
                    f"`TimeWarp({name}={value!r})` must be an integer of at least 1."
                )
        if self.interpolation not in interp.INTERPOLATIONS:
            raise InvalidParameterError(
                f"`TimeWarp(interpolation={self.interpolation!r})` must be one of "
                f"{', '.join(interp.INTERPOLATIONS)}."
            )

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return M = D W, times P with ``per_channel``."""
        return self._n_warps(n_channels) * self.depth * self.width

    def neutral(self, atom: Atom) -> Float[Array, " M"]:
        """Return zeros: no warp."""
        return jnp.zeros(self.n_params(*atom.shape), atom.dtype)

    def project(self, params: Params) -> Params:
        """Project each row onto the l1 ball of radius 0.99."""
        rows = params.reshape(*params.shape[:-1], -1, self.width)
        return project_rows_onto_l1_ball(rows, MAX_ROW_NORM).reshape(params.shape)

    def warp(self, params: Params, atom_length: int, n_channels: int):
        """Return psi at the sampling times, in samples: array (..., C, L)."""
        return self.warp_jacobian(params, atom_length, n_channels)[0]

    def warp_jacobian(self, params: Params, atom_length: int, n_channels: int):
        """Return psi (..., C, L), in samples, and its derivative in the parameters."""
        last = atom_length - 1
        samples = jnp.arange(atom_length, dtype=params.dtype)
        displacement = jnp.zeros((), params.dtype)
        columns: list[Array] = []
        for layer in self._layers(params, n_channels):
            sines, cosines = _harmonics(samples / last + displacement, self.width)
            # Chain rule: a later layer stretches what the earlier ones did by psi_d'.
            stretch = 1 + jnp.einsum("...lw,...w->...l", cosines, layer)
            columns = [column * stretch[..., None] for column in columns] + [sines]
            displacement = displacement + jnp.einsum("...lw,...w->...l", sines, layer)
        shape = (*displacement.shape, self.width)
        basis = jnp.concatenate([jnp.broadcast_to(c, shape) for c in columns], axis=-1)
        # The identity is added last, in whole samples: zero parameters return exactly 0..L-1.
        return jnp.clip(samples + last * displacement, 0, last), last * basis

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return the warped atoms, array (..., L, P)."""
        return self.resample(atom, self.warp(params, *atom.shape))

    def resample(self, atom: Atom, position: Float[Array, "*batch C L"]) -> Atoms:
        """Return the atom read at the given positions (..., C, L), in samples."""
        return self._read(atom, position)[0]

    def linearize(self, params: Params, atom: Atom) -> Linearization:
        """Return the warped atoms and their Jacobian in product form."""
        position, basis = self.warp_jacobian(params, *atom.shape)
        value, slope = self._read(atom, position)
        return Linearization(value, slope, basis)

    def operator(self, params: Params, atom_length: int, n_channels: int):
        """Return T(a), array (..., C, L, L)."""
        position = self.warp(params, atom_length, n_channels)
        return interp.operator(position, atom_length, self.interpolation)

    def _n_warps(self, n_channels: int) -> int:
        return n_channels if self.per_channel else 1

    def _layers(self, params: Params, n_channels: int):
        """Split the parameters into D layers of shape (..., C, W)."""
        shape = (*params.shape[:-1], self._n_warps(n_channels), self.depth, self.width)
        return jnp.moveaxis(params.reshape(shape), -2, 0)

    def _read(self, atom: Atom, position):
        if not self.per_channel:
            return interp.read(atom, position[..., 0, :], self.interpolation)
        channels = [
            interp.read(atom[:, p : p + 1], position[..., p, :], self.interpolation)
            for p in range(atom.shape[1])
        ]
        value, slope = zip(*channels, strict=True)
        return jnp.concatenate(value, -1), jnp.concatenate(slope, -1)


def _harmonics(time: Float[Array, "*batch L"], width: int):
    """Return sin(w pi t) / (w pi) and cos(w pi t) for w = 1..W, along a last axis."""
    order = jnp.arange(1, width + 1, dtype=time.dtype)
    sines, cosines = sincospi(time[..., None] * order)
    return sines / (jnp.pi * order), cosines
