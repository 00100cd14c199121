"""Checks of content that was read: JSON without surprises, and arrays of the expected shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Array:
    """The expected dtypes, axes and range of an array.

    ``axes`` has one word per axis: a size, or a letter that stands for one size in all arrays,
    as in ``"S K M"``.
    """

    types: str
    axes: str
    least: float = -np.inf
    most: float = np.inf


def check_arrays(
    arrays: Mapping[str, np.ndarray],
    required: Mapping[str, Array],
    optional: Mapping[str, Array],
    sizes: dict[str, int],
) -> None:
    """Raise `ValueError` where arrays are missing, unknown or not as described."""
    described = {**required, **optional}
    if wrong := (required.keys() - arrays.keys()) | (arrays.keys() - described.keys()):
        raise ValueError(f"`{min(wrong)}` is missing or unknown")
    for name, array in arrays.items():
        wanted = described[name]
        axes = wanted.axes.split()
        shape = tuple(
            int(axis) if axis.isdigit() else sizes.setdefault(axis, n)
            for axis, n in zip(axes, array.shape, strict=False)
        )
        if len(axes) != array.ndim or shape != array.shape:
            raise ValueError(f"`{name}` has shape {array.shape}, not ({wanted.axes})")
        if array.dtype.name not in wanted.types.split():
            raise ValueError(f"`{name}` holds {array.dtype.name}, not {wanted.types}")
        within = np.isfinite(array) & (array >= wanted.least) & (array <= wanted.most)
        if not within.all():
            raise ValueError(f"`{name}` holds {array[~within].flat[0]}, which is out of range")


def read_json(text: str) -> Any:
    """Parse JSON; raise `ValueError` for repeated names and for nesting that is too deep."""
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice in its JSON")
    return found
