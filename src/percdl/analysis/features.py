"""What people are compared by: their parameters, free of redundancy, or their atoms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from scipy.fft import dst

from percdl.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from percdl.estimators.personalization import Personalization

SPACES = ("parameters", "atoms")


def describe_people(
    found: Personalization, space: str = "parameters"
) -> tuple[Float[np.ndarray, "S K F"], Int[np.ndarray, " F"]]:
    """Return features of everyone's atoms, and of which kind each is.

    Features of one kind have the same unit. NaN for subjects without the atom.

    - ``"parameters"``: everything the transform has, each parameter a kind of its own, but for
      time warps. The same warp is made by many sets of parameters, since its layers can be
      traded for one another, so parameters of equal warps may be far apart. A warp counts by the
      coefficients of its displacement instead: ``psi(t) - t`` in samples, in the sines of one
      layer. They are in one-to-one relation to the parameters of a single layer.
    - ``"atoms"``: the personal atoms, sample by sample, all of one kind.
    """
    if space not in SPACES:
        raise InvalidParameterError(
            f"`space={space!r}` must be one of {', '.join(map(repr, SPACES))}."
        )
    if space == "atoms":
        atoms = found.personal_dictionary
        values = atoms.reshape(*atoms.shape[:2], -1)
        return values, np.zeros(values.shape[2], int)
    return _free_parameters(found)


def _free_parameters(found: Personalization) -> tuple[np.ndarray, np.ndarray]:
    from percdl.transforms import TimeWarp  # JAX, which comparing does not need

    warp, where = found.transform.warp_part(*found.dictionary.shape[1:]) or (None, slice(0))
    if not isinstance(warp, TimeWarp):
        return found.params, np.arange(found.params.shape[2])
    length = found.dictionary.shape[1]
    inside = (found.warps - np.arange(length))[..., 1:-1]
    sines = np.asarray(dst(inside, type=1))[..., : warp.width] / (length - 1)
    sines = sines.reshape(*found.params.shape[:2], -1)
    others = np.delete(found.params, where, axis=2)
    kinds = np.concatenate([np.zeros(sines.shape[2], int), 1 + np.arange(others.shape[2])])
    return np.concatenate([sines, others], axis=2), kinds
