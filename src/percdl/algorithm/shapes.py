"""The shapes of the messages of a round, computed without running it.

Sums and broadcasts received from others are not trusted: their shapes are checked.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import jax

from percdl.algorithm import programs
from percdl.algorithm.settings import Settings
from percdl.steps.prior import n_coordinates
from percdl.steps.types import Statistics
from percdl.transforms.base import Transform

Shapes = dict[str, tuple[int, ...]]


def population_shapes(settings: Settings, n_masks: int) -> Shapes:
    """Return the shapes of the sums of a population round, by field, without empty ones.

    ``n_masks`` is that of all recordings together, see `Measured.n_masks`.
    """
    n_atoms, length, n_channels = _dictionary(settings)
    moment = (n_atoms, length + 2 * settings.margin, n_channels)
    shapes = _counted(settings) | {"moment": moment, "weight": (*moment[:2], max(1, n_masks))}
    if settings.overlaps and n_masks == 0 and not settings.by_subject:
        shapes |= {"ztx": moment, "ztz": (n_atoms, n_atoms, 2 * length - 1)}
    return shapes


def personal_shapes(settings: Settings, n_masks: int) -> Shapes:
    """Return the shapes of the sums of a personal round, or of `Site.express`."""
    shared = settings.transform.shares_structure
    counted = _counted(settings) if shared else population_shapes(settings, n_masks)
    return counted | _summary_shapes(settings, n_masks)


@lru_cache(maxsize=32)
def _summary_shapes(settings: Settings, n_masks: int) -> Shapes:
    """Return the shapes of the results of `programs.summarize`, by tracing it."""
    n_atoms, length, n_channels = _dictionary(settings)
    window = length + 2 * settings.margin

    def array(*shape: int, dtype: str = settings.dtype) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype)

    # Sums have the same shapes over any number of subjects.
    by_subject = partial(array, 1, n_atoms)
    with jax.enable_x64(settings.dtype == "float64"):
        summary = jax.eval_shape(
            partial(programs.summarize, settings.transform, settings.sum_options),
            array(n_atoms, length, n_channels),
            Statistics(
                by_subject(window, n_channels),
                by_subject(window, max(1, n_masks)),
                by_subject(dtype="int32"),
            ),
            by_subject(settings.n_params),
            array(*prior_shape(settings)) if settings.has_prior else None,
        )
    return {name: x.shape for name, x in summary._asdict().items() if name != "price" and x.size}


def prior_shape(settings: Settings) -> tuple[int, ...]:
    """Return the shape of the precision of the warps."""
    return broadcast_shapes(settings.transform, *_dictionary(settings))["precision"]


def broadcast_shapes(
    transform: Transform, n_atoms: int, atom_length: int, n_channels: int
) -> Shapes:
    """Return the shapes of all fields of a broadcast, by name."""
    shapes: Shapes = {"dictionary": (n_atoms, atom_length, n_channels)}
    shapes |= {"move": (n_atoms,), "misfit": (n_atoms,)}
    warp = transform.warp_part(atom_length, n_channels)
    if warp is not None:
        n_warps = warp[0].n_warps(n_channels)
        n_params = warp[0].n_params(atom_length, n_channels) // n_warps
        m = n_coordinates(atom_length, n_params)
        shapes |= {
            "gauge": (n_atoms, n_warps, atom_length),
            "precision": (n_atoms, n_warps, m, m),
        }
    mixing = transform.channel_part(atom_length, n_channels)
    if mixing is not None:
        shapes["mixing_gauge"] = (n_atoms, mixing[0].n_params(atom_length, n_channels))
    return shapes


def _dictionary(settings: Settings) -> tuple[int, int, int]:
    return settings.n_atoms, settings.atom_length, settings.n_channels


def _counted(settings: Settings) -> Shapes:
    """Return the shapes of the sums of every round."""
    numbers = dict.fromkeys(("objective", "objective_fitted", "energy", "signal"), ())
    return {**numbers, "counts": (settings.n_atoms,)}
