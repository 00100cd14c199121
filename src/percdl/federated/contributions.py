"""What each subject adds to the sums of a round, as one vector of numbers of comparable size.

Only what the server needs is in it. Every field is scaled so that an ordinary subject's has a
norm of about one, whatever the units of the signals: a common clip then cuts none of them in
favor of another, and this is near the best split of the noise between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from percdl.algorithm import programs
from percdl.algorithm.exchange import Sums
from percdl.algorithm.local import Site
from percdl.algorithm.settings import Settings
from percdl.algorithm.shapes import personal_shapes
from percdl.steps.centering import SMOOTH_WIDTH
from percdl.steps.compilation import program
from percdl.steps.types import Statistics
from percdl.transforms import TimeWarp

# The mean warp is read off its first sines: what centering removes during the rounds, too.
N_SINES = SMOOTH_WIDTH
# An ordinary warp moves samples by this share of the atom, root mean square.
ORDINARY_WARP = 0.05
# Counts are needed less precisely than shapes.
COUNT_SCALE = 0.5
# Neighbours that a local interpolation reads at once, less one: how far Gram matrices reach.
REACH = {"linear": 1, "cubic": 3}


class Scales(NamedTuple):
    """By what each field is multiplied, so that an ordinary subject's has norm one.

    ``shape`` is for moments and transported segments, ``weight`` for what they are divided by,
    ``gram`` for each entry of a Gram matrix, ``count`` for the number of subjects, ``sine`` for
    the sines of a displacement in samples, ``mixing`` for parameters that mix channels.
    """

    shape: float
    weight: float
    gram: float
    count: float
    sine: float
    mixing: float


@lru_cache(maxsize=16)
def scales_of(settings: Settings, n_masks: int) -> Scales:
    """Return the scales of a fit; they depend on what all sites have agreed on, not on data."""
    length = settings.atom_length
    shapes = personal_shapes(settings, n_masks)
    n_gram, side, _ = shapes.get("gram", (0, 1, length, length))[1:]
    n_warps = shapes.get("warp", (0, 1, length))[1]
    return Scales(
        shape=1.0,
        weight=((length + 2 * settings.margin) * max(1, n_masks)) ** -0.5,
        gram=(n_gram * side) ** -0.5,
        count=COUNT_SCALE,
        sine=1 / (ORDINARY_WARP * length**1.5 * n_warps**0.5),
        mixing=max(1, settings.n_params) ** -0.5,
    )


def reach_of(settings: Settings) -> int:
    """Return how far from its diagonal a Gram matrix can differ from zero, whatever the data.

    A warped atom is read between neighbouring samples, so samples further apart never meet. The
    rest need not be released, and gets no noise.
    """
    transform = settings.transform
    if isinstance(transform, TimeWarp) and transform.interpolation in REACH:
        return min(REACH[transform.interpolation], settings.atom_length - 1)
    return settings.atom_length * settings.n_channels - 1


def is_personal(kind: str, settings: Settings) -> bool:
    """Whether a round ends with PerCDU, and not with barycenters."""
    return kind != "population" and settings.transform.shares_structure


def contributions(
    site: Site, dictionary: np.ndarray, kind: str
) -> Iterator[dict[str, Float64[np.ndarray, "S ..."]]]:
    """Yield what the subjects of each block add to the sums of the round that was just run.

    Arrays by name, a row for each subject, scaled. A row depends on no other subject: blocks
    have one shape (`InProcess(chunk_rows=4)`), and programs treat their rows alike.
    """
    settings = site.settings
    scales = scales_of(settings, site.n_masks)
    atoms = np.asarray(dictionary, settings.dtype)
    for block in site.blocks:
        statistics = block.gather([site.coded[index].statistics for index in block.chunks])
        if is_personal(kind, settings):
            centres = settings.centering == "refit"
            summary = _summarize_each(settings.transform, atoms, statistics, block.params, centres)
            rows = _personal(summary, settings, scales)
        else:
            moment, weight = _balance_each(statistics, atoms)
            rows = {
                "moment": scales.shape * np.asarray(moment, float),
                "weight": scales.weight * np.asarray(weight, float),
            }
        n_subjects = sum(block.counts)
        yield {name: np.asarray(x, float)[:n_subjects] for name, x in rows.items()}


def to_sums(totals: dict[str, np.ndarray], like: Sums, settings: Settings, n_masks: int) -> Sums:
    """Write totals of contributions as sums; all else is zero. Linear, so sites may be added."""
    scales = scales_of(settings, n_masks)
    sums = nothing_like(like)
    if "moment" in totals:
        moment, weight = totals["moment"] / scales.shape, totals["weight"] / scales.weight
        return replace(sums, moment=moment, weight=weight)
    sums = replace(sums, transported=totals["transported"] / scales.shape)
    rows, columns = _band(settings, sums.gram.shape[-1])
    sums.gram[..., rows, columns] = sums.gram[..., columns, rows] = totals["gram"] / scales.gram
    sums.n_warps[:] = totals["n_warps"] / scales.count
    if "sines" in totals:
        moved = totals["sines"] @ _sines(settings.atom_length).T / scales.sine
        samples = np.arange(settings.atom_length)
        sums.warp[:] = sums.n_warps[:, None, None] * samples + moved
    if "mixing" in totals:
        still = sums.n_warps[:, None] * neutral_mixing(settings)
        sums.mixing[:] = still + totals["mixing"] / scales.mixing
    return sums


def nothing_like(sums: Sums) -> Sums:
    """Return zeros of the same shapes."""
    return Sums(**{name: np.zeros_like(x)[()] for name, x in vars(sums).items()})


def _personal(summary: programs.Summary, settings: Settings, scales: Scales) -> dict[str, Any]:
    gram, active = np.asarray(summary.gram), np.asarray(summary.n_warps, float)
    rows: dict[str, Any] = {
        "transported": scales.shape * np.asarray(summary.transported),
        "gram": scales.gram * gram[..., *_band(settings, gram.shape[-1])],
        "n_warps": scales.count * active,
    }
    if settings.warps and settings.centering != "off":
        still = active[..., None, None] * np.arange(settings.atom_length)
        moved = np.asarray(summary.warp, float) - still
        rows["sines"] = scales.sine * moved @ _sines(settings.atom_length)
    if summary.mixing.shape[-1]:
        still = active[..., None] * neutral_mixing(settings)
        rows["mixing"] = scales.mixing * (np.asarray(summary.mixing, float) - still)
    return rows


@partial(program, static_argnames=("transform", "centres"))
def _summarize_each(transform, dictionary, statistics: Statistics, params, centres: bool):
    """Return the `Summary` of each subject alone, with every subject counting once."""

    def alone(statistics, params):
        own, at = jax.tree.map(lambda x: x[None], (statistics, params))
        return programs.summarize(transform, dictionary, own, at, True, centres, False, 0)

    return jax.vmap(alone)(statistics, params)


@program
def _balance_each(statistics: Statistics, dictionary):
    """Return moment and weight of each subject alone, with every subject counting once."""

    def alone(statistics):
        one = jax.tree.map(lambda x: x[None], statistics)
        return programs.add_up(one, dictionary, True)

    return jax.vmap(alone)(statistics)


def _band(settings: Settings, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries of a Gram matrix that are released: above the diagonal, within reach."""
    rows, columns = np.triu_indices(side)
    near = columns - rows <= reach_of(settings)
    return rows[near], columns[near]


def _sines(length: int) -> np.ndarray:
    """Return orthonormal sines (L, N_SINES), which vanish at the ends as displacements do."""
    phase = np.pi * np.arange(length)[:, None] / (length - 1)
    return np.sin(phase * np.arange(1, N_SINES + 1)) * np.sqrt(2 / (length - 1))


def neutral_mixing(settings: Settings) -> np.ndarray:
    """Return the parameters (M,) that mix no channels."""
    part = settings.channel_part
    assert part is not None
    return np.asarray(part[0].neutral(jnp.zeros((settings.atom_length, settings.n_channels))))
