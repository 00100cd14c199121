"""The server half of a round: from sums over subjects to the next dictionary (lines 4 and 9)."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.settings import Settings
from percdl.steps import cdu, percdu
from percdl.steps.centering import smooth_warp
from percdl.transforms.base import LinearTransform, WarpTransform

# A large population's mean warp is known well enough to remove all of it more than once.
LARGE, N_WHOLE_LARGE = 512, 3


def population_update(
    sums: Sums, broadcast: Broadcast, settings: Settings
) -> tuple[Broadcast, float]:
    """CDU (Alg. 1, line 4): the next broadcast, and the objective after the half-step."""
    core = _own_window(sums, settings)
    objective = sums.energy - cdu.explained(*core)
    dictionary, move = cdu.update_dictionary(sums.moment, sums.weight, broadcast.dictionary)
    return Broadcast(cdu.normalize(dictionary), move=move), objective


def personal_update(
    sums: Sums, broadcast: Broadcast, settings: Settings, rounds_left: int
) -> tuple[Broadcast, float]:
    """PerCDU and centering (Alg. 1, line 9): the next broadcast, the objective after PerCDU."""
    if isinstance(settings.transform, LinearTransform):
        dictionary = percdu.update_dictionary(sums.gram, sums.transported, broadcast.dictionary)
        objective = sums.energy - percdu.explained(sums.gram, sums.transported, dictionary)
    else:
        # Without shared structure the common atom is only a summary, the barycenter.
        dictionary, _ = cdu.update_dictionary(*_own_window(sums, settings), broadcast.dictionary)
        objective = sums.objective
    mean_warp = None
    if isinstance(settings.transform, WarpTransform) and settings.centering != "off":
        mean_warp = _mean_warp(sums, rounds_left if settings.centering == "refit" else 0)
        dictionary = _center(dictionary, mean_warp, settings.transform)
    answer = Broadcast(
        cdu.normalize(dictionary),
        mean_warp=mean_warp if settings.centering == "refit" else None,
        misfit=sums.misfit[:, 0] / np.maximum(sums.misfit[:, 1], np.finfo(float).tiny),
    )
    return answer, objective


def fix_gauge(sums: Sums, broadcast: Broadcast, settings: Settings) -> Broadcast:
    """Centre once more, at the very end: the closing fit has moved the mean warp a little.

    As in a round before the last: a small population's mean warp is removed whole only once.
    """
    assert isinstance(settings.transform, WarpTransform)
    mean_warp = _mean_warp(sums, rounds_left=1)
    centred = _center(broadcast.dictionary, mean_warp, settings.transform)
    return Broadcast(cdu.normalize(centred), mean_warp=mean_warp)


def _own_window(sums: Sums, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    inner = slice(settings.margin, settings.margin + settings.atom_length)
    return sums.moment[:, inner], sums.weight[:, inner]


def _n_whole(sums: Sums) -> int:
    """Return in how many of the last rounds the whole mean warp is removed."""
    return N_WHOLE_LARGE if sums.n_warps.max() >= LARGE else 1


def _mean_warp(sums: Sums, rounds_left: int) -> np.ndarray:
    """Return the mean warp of each atom (K, C, L), as much of it as is to be removed now.

    It is the identity for atoms nobody has.
    """
    samples = np.arange(sums.warp.shape[-1], dtype=float)
    n_warps = sums.n_warps[:, None, None]
    mean = np.where(n_warps > 0, sums.warp / np.maximum(n_warps, 1), samples)
    return mean if rounds_left < _n_whole(sums) else smooth_warp(mean)


def _center(dictionary: np.ndarray, mean_warp: np.ndarray, transform: WarpTransform) -> np.ndarray:
    """Return ``phi o mean_warp`` (decision 6)."""
    with jax.enable_x64(True):
        return np.asarray(_resample(transform, dictionary, mean_warp))


@partial(jax.jit, static_argnames="transform")
def _resample(transform: WarpTransform, dictionary: jax.Array, warps: jax.Array) -> jax.Array:
    return jax.lax.map(lambda pair: transform.resample(*pair), (dictionary, warps))
