"""Whether parameters lie in Theta, the set their transform allows, without compiling anything.

Fits stay in Theta by `Transform.project`. What comes from a file is looked at here, in NumPy: to
compile a projection would take longer than to read the file. A test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from percdl.transforms import (
    Compose,
    Free,
    Gain,
    Identity,
    Modulation,
    Rotation,
    Shift,
    TimeWarp,
    Transform,
)
from percdl.transforms.time_warp import MAX_ROW_NORM

# Rounding of single precision, over sums of a few hundred terms.
ROUNDING = 1e-3


def is_allowed(
    transform: Transform, params: np.ndarray, atom_length: int, n_channels: int
) -> bool:
    """Whether parameters (..., M), all finite, lie in the set Theta of a built-in transform.

    Cost O(n M), or O(n P^3) for rotations.
    """
    if params.size == 0:
        return True
    if isinstance(transform, Compose):
        sizes = [stage.n_params(atom_length, n_channels) for stage in transform.stages]
        ends = pairwise(np.cumsum([0, *sizes]))
        return all(
            is_allowed(stage, params[..., start:end], atom_length, n_channels)
            for stage, (start, end) in zip(transform.stages, ends, strict=True)
        )
    return bool(np.all(_THETA[type(transform)](transform, params, n_channels)))


def _of_warp(warp: TimeWarp, params: np.ndarray, n_channels: int) -> np.ndarray:
    rows = params.reshape(*params.shape[:-1], -1, warp.width)
    return np.abs(rows).sum(-1) <= MAX_ROW_NORM + ROUNDING


def _of_rotation(rotation: Rotation, params: np.ndarray, n_channels: int) -> np.ndarray:
    matrix = params.reshape(*params.shape[:-1], n_channels, n_channels)
    product = matrix @ np.swapaxes(matrix, -1, -2)
    orthogonal = np.abs(product - np.eye(n_channels)).max((-2, -1)) <= ROUNDING
    return orthogonal & (rotation.allow_reflections | (np.linalg.det(matrix) > 0))


def _of_gain(gain: Gain, params: np.ndarray, n_channels: int) -> np.ndarray:
    return np.abs(params.mean(-1)) <= ROUNDING * (1 + np.abs(params).max(-1))


def _of_modulation(modulation: Modulation, params: np.ndarray, n_channels: int) -> np.ndarray:
    return _is_one_or_nothing(np.square(params).mean(-1))


def _of_shift(shift: Shift, params: np.ndarray, n_channels: int) -> np.ndarray:
    return np.abs(params) <= shift.most * (1 + ROUNDING)


def _of_free(free: Free, params: np.ndarray, n_channels: int) -> np.ndarray:
    return _is_one_or_nothing(np.square(params).sum(-1))


def _is_one_or_nothing(size: np.ndarray) -> np.ndarray:
    return (np.abs(size - 1) <= ROUNDING) | (size == 0)


_THETA: dict[type, Callable[[Any, np.ndarray, int], Any]] = {
    TimeWarp: _of_warp,
    Rotation: _of_rotation,
    Gain: _of_gain,
    Modulation: _of_modulation,
    Shift: _of_shift,
    Free: _of_free,
    Identity: lambda identity, params, n_channels: True,
}
