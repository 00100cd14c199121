"""A shift of at most a few samples: ``f(phi, a)(t) = phi(t + a)``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
import numpy as np

from percdl.exceptions import InvalidParameterError
from percdl.transforms import interpolation as interp
from percdl.transforms.base import Atom, Atoms, LinearTransform, Params


@final
@dataclass(frozen=True)
class Shift(LinearTransform):
    """Shift the common atom in time; it is constant beyond its ends.

    Onsets are whole samples, and all activations of a subject share its atom. If the sampling is
    coarse for the pattern, the shift is the part that the onsets cannot express. Cost O(L P)
    per subject to apply, O(L^2 P) with the "paper" interpolation; O(S L^3) for the sums of PerCDU.

    Parameters
    ----------
    most : float
        Largest shift, in samples.
    interpolation : {"cubic", "linear", "paper"}
        How the atom is read between its samples.

    Examples
    --------
    >>> atom = jnp.arange(5.0)[:, None]
    >>> Shift().apply(jnp.array([0.5]), atom)[:3, 0]
    Array([0.5, 1.5, 2.5], dtype=float32)
    """

    most: float = 1.0
    interpolation: interp.Interpolation = "cubic"

    def validate(self) -> None:
        """Raise if a hyper-parameter is out of range."""
        if not self.most > 0:
            raise InvalidParameterError(f"`Shift(most={self.most!r})` must be above 0 samples.")
        interp.check_interpolation("Shift", self.interpolation)

    def n_params(self, atom_length: int, n_channels: int) -> int:
        """Return M = 1."""
        return 1

    @property
    def in_words(self) -> str:
        """How a person's version of an atom differs from the common one."""
        return f"shifted by at most {self.most:g} sample(s)"

    def param_names(self, atom_length: int, channels: Sequence[str]) -> list[str]:
        """Return the name of the shift."""
        return ["shift_samples"]

    def describe(self, params, atom_length, channels, sfreq):
        """Return the shift in seconds."""
        return {"shift_s": np.asarray(params, float)[..., 0] / sfreq}

    def project(self, params: Params) -> Params:
        """Clip the shift."""
        return jnp.clip(params, -self.most, self.most)

    def apply(self, params: Params, atom: Atom) -> Atoms:
        """Return the shifted atoms, array (..., L, P)."""
        return interp.read(atom, self._position(params, atom.shape[0]), self.interpolation)[0]

    def operator(self, params: Params, atom_length: int, n_channels: int):
        """Return T(a), array (..., 1, L, L)."""
        position = self._position(params, atom_length)
        return interp.operator(position, atom_length, self.interpolation)[..., None, :, :]

    def _position(self, params: Params, atom_length: int):
        samples = jnp.arange(atom_length, dtype=params.dtype)
        return jnp.clip(samples + params, 0, atom_length - 1)
