"""The server half of a round: from sums over subjects to the next dictionary (lines 4 and 9)."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.settings import Settings
from percdl.steps import overlap
from percdl.steps.centering import WarpMoments, find_gauge, smooth_warp
from percdl.steps.compilation import program
from percdl.steps.dictionary import (
    DAMPING,
    normalize,
    personal_explained,
    population_explained,
    update_personal,
    update_population,
)
from percdl.steps.joint import average_copies
from percdl.steps.prior import coordinates, estimate_precision
from percdl.steps.windows import elect_windows, move_windows, settle_windows
from percdl.transforms.base import WarpTransform

# A large population's mean warp is known well enough to remove all of it more than once; both
# numbers were chosen on the paper's synthetic cohorts.
LARGE, N_WHOLE_LARGE = 512, 3
# Windows move only if at least this many rounds are left to fit the moved atoms.
ROUNDS_AFTER_MOVE = 2


def population_update(
    sums: Sums, broadcast: Broadcast, settings: Settings, moves: np.ndarray | None = None
) -> tuple[Broadcast, float]:
    """CDU (Alg. 1, line 4): the next broadcast, and the objective after the half-step.

    Windows move by ``moves`` (K,), or to the largest energy. If the objective
    after the step cannot be computed from the sums, the one before the step is returned.
    """
    if sums.ztz.size:
        dictionary = overlap.update_dictionary(sums.ztz, sums.ztx, broadcast.dictionary, 1.0)
        objective = sums.energy - overlap.explained(sums.ztz, sums.ztx, dictionary)
        return Broadcast(normalize(dictionary), move=broadcast.move), objective
    objective = sums.objective
    if not settings.by_subject:
        objective = sums.energy - population_explained(*_own_window(sums, settings))
    dictionary, move = update_population(sums.moment, sums.weight, broadcast.dictionary, moves)
    return Broadcast(normalize(dictionary), move=move), objective


def personal_update(
    sums: Sums, broadcast: Broadcast, settings: Settings, rounds_left: int
) -> tuple[Broadcast, float]:
    """PerCDU and centering (Alg. 1, line 9): the next broadcast, the objective after PerCDU.

    Then the windows of the atoms follow the subjects' votes.
    """
    dictionary, objective = _update(sums, broadcast, settings)
    gauge, mixing = _find_gauges(sums, settings, rounds_left)
    dictionary = _center(dictionary, gauge, mixing, settings)
    move = np.zeros(len(dictionary), int)
    if settings.shifts and settings.margin and rounds_left >= ROUNDS_AFTER_MOVE:
        noise = _noise(sums, settings)
        move = elect_windows(sums.moment, sums.weight, noise, settings.atom_length)
        dictionary = _settle(move_windows(dictionary, move), sums, settings)
    misfit = None
    if settings.shifts:
        misfit = sums.misfit[:, 0] / np.maximum(sums.misfit[:, 1], np.finfo(float).tiny)
    gauge = gauge if settings.refits else None
    precision = _precision(sums, settings)
    return Broadcast(normalize(dictionary), move, gauge, mixing, misfit, precision), objective


def fix_gauge(sums: Sums, broadcast: Broadcast, settings: Settings) -> Broadcast:
    """Centre once more at the end, because the final fit has moved the mean warp a little.

    Parameters are not adapted, because they are recomputed afterwards.
    """
    gauge = _gauge(sums, 0) if settings.warps else None
    mixing = _mean_mixing(sums, settings)
    centred = _center(broadcast.dictionary, gauge, mixing, settings)
    if settings.shifts and settings.margin:
        centred = _settle(centred, sums, settings)
    return Broadcast(normalize(centred), precision=_precision(sums, settings))


def _update(sums: Sums, broadcast: Broadcast, settings: Settings) -> tuple[np.ndarray, float]:
    """Return the next dictionary and the objective with it, codes and parameters fixed.

    In closed form it is the dictionary of least objective. If the objective after the step cannot
    be computed from the sums, the one before the step is returned.
    """
    before, transform = broadcast.dictionary, settings.transform
    if not transform.shares_structure:
        # Without shared structure the common atom is only a summary, the barycenter.
        return update_population(*_own_window(sums, settings), before)[0], sums.objective
    if settings.update == "robust":
        return average_copies(sums.copies, sums.n_warps, before), sums.objective
    if not transform.linear:
        # The sums are those of f linearized at the old atom, so the new objective is unknown.
        damped = update_personal(sums.gram, sums.transported, before, DAMPING)
        return damped, sums.objective
    dictionary = update_personal(sums.gram, sums.transported, before)
    if settings.by_subject:  # the sums have no unit then
        return dictionary, sums.objective
    return dictionary, sums.energy - personal_explained(sums.gram, sums.transported, dictionary)


def _find_gauges(
    sums: Sums, settings: Settings, rounds_left: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the warp (K, C, L) and the mixture of channels (K, M) to centre with, if any."""
    if settings.centering == "off":
        return None, None
    if settings.centering == "paper":
        return (_mean_warp(sums) if settings.warps else None), None
    gauge = _gauge(sums, rounds_left) if settings.warps else None
    return gauge, _mean_mixing(sums, settings)


def _mean_mixing(sums: Sums, settings: Settings) -> np.ndarray | None:
    """Return the mean mixture of channels (K, M) over the subjects that have each atom."""
    part = settings.channel_part
    if part is None:
        return None
    mixer, _ = part
    with jax.enable_x64(True):
        neutral = mixer.neutral(jnp.zeros((settings.atom_length, settings.n_channels)))
        return np.asarray(mixer.project(jnp.asarray(_mean(sums, sums.mixing, neutral))))


def _precision(sums: Sums, settings: Settings) -> np.ndarray | None:
    """Return the inverse covariance (K, C, m, m) of the warps in the population, if estimated.

    Sums with noise for privacy hold no moments.
    """
    if not sums.warp_moment.any():
        return None
    moment = _mean(sums, sums.warp_moment, 0)
    mean = coordinates(_mean_warp(sums), moment.shape[-1])
    n_subjects = np.broadcast_to(sums.n_warps[:, None], moment.shape[:2])
    return estimate_precision(moment, mean, n_subjects, settings.atom_length)


def _noise(sums: Sums, settings: Settings) -> np.ndarray:
    """Return the variance (K,) of a sample around the personal atoms."""
    n_samples = sums.n_warps * settings.atom_length * settings.n_channels
    return sums.misfit[:, 0] / np.maximum(n_samples, 1)


def _settle(dictionary: np.ndarray, sums: Sums, settings: Settings) -> np.ndarray:
    """Return atoms of norm one in windows that begin where the patterns begin."""
    weight = _own_window(sums, settings)[1].mean((1, 2)) / np.maximum(sums.n_warps, 1)
    information = weight / np.maximum(_noise(sums, settings), np.finfo(float).tiny)
    return settle_windows(normalize(dictionary), information, sums.n_warps)


def _own_window(sums: Sums, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    inner = slice(settings.margin, settings.margin + settings.atom_length)
    return sums.moment[:, inner], sums.weight[:, inner]


def _gauge(sums: Sums, rounds_left: int) -> np.ndarray:
    """Return the warp (K, C, L) to read each atom at, all of it in the last round."""
    mean = _mean_warp(sums)
    if rounds_left > 0:
        n_whole = N_WHOLE_LARGE if sums.n_warps.max() >= LARGE else 1
        return mean if rounds_left < n_whole else smooth_warp(mean)
    means = [_mean(sums, getattr(sums, name), 0) for name in WarpMoments._fields]
    n_subjects = np.broadcast_to(sums.n_warps[:, None], mean.shape[:-1])
    gauge = find_gauge(WarpMoments(*means), n_subjects)
    return np.where(n_subjects[..., None] > 0, gauge, mean)  # the identity for unused atoms


def _mean_warp(sums: Sums) -> np.ndarray:
    """Return the mean warps (K, C, L); the identity for unused atoms."""
    return _mean(sums, sums.warp, np.arange(sums.warp.shape[-1]))


def _mean(sums: Sums, total: np.ndarray, otherwise: ArrayLike) -> np.ndarray:
    """Return the mean of a sum (K, ...) over the subjects that have each atom, if any."""
    n_subjects = sums.n_warps.reshape(-1, *np.ones(total.ndim - 1, int))
    mean = np.array(np.broadcast_to(otherwise, total.shape), float)
    return np.divide(total, n_subjects, out=mean, where=n_subjects > 0)


def _center(
    dictionary: np.ndarray, gauge: np.ndarray | None, mixing: np.ndarray | None, settings: Settings
) -> np.ndarray:
    """Return the atoms read at the warp of the gauge (decision 6), its channels mixed."""
    warp, mixer = settings.warp_part, settings.channel_part
    with jax.enable_x64(True):
        if warp is not None and gauge is not None:
            dictionary = np.asarray(resample(warp[0], dictionary, gauge))
        if mixer is not None and mixing is not None:
            pairs = zip(jnp.asarray(mixing), jnp.asarray(dictionary), strict=True)
            dictionary = np.stack([mixer[0].apply(a, atom) for a, atom in pairs])
    return dictionary


@partial(program, static_argnames=("transform",))
def resample(transform: WarpTransform, dictionary: jax.Array, warps: jax.Array) -> jax.Array:
    """Return the atoms (K, L, P) read at warps (K, C, L), in samples."""
    return jax.lax.map(lambda pair: transform.resample(*pair), (dictionary, warps))
