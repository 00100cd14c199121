"""Denoising of sums at the server; it costs no privacy, as it only uses released sums.

The amount of noise is public. An atom whose sums are below the noise keeps its shape. For the
others, the difference to the old atom is shrunk by the share that noise explains (the James-Stein
estimator), so an update that could be noise changes nothing. A ridge as large as the noise of the
Gram matrix keeps the system positive; it pulls towards the old atom.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.settings import Settings
from percdl.federated.privacy import Privacy, count_releases
from percdl.federated.private_rounds import N_SINES, Scales, neutral_mixing, reach_of, scales_of
from percdl.runtimes.protocol import Rounds
from percdl.steps.centering import MIN_SPEED, expected_inverse
from percdl.steps.windows import move_windows

# Standard deviations by which the sum of an atom's weights must exceed the noise.
SEEN = 3.0
# Standard deviations by which the gain of a window must exceed the noise.
WORTH_A_MOVE = 2.0
# Least weight of a sample, relative to the mean: avoids division by noise around zero.
LEAST_WEIGHT = 0.2


class Denoised(Rounds):
    """Runtime of the server over ``n_sites`` sites with noisy sums: it denoises every total."""

    def __init__(
        self,
        runtime: Rounds,
        settings: Settings,
        privacy: Privacy,
        n_masks: int = 0,
        n_sites: int = 1,
    ):
        noise = privacy.calibrated(count_releases(settings)).deviation(settings.n_atoms)
        self._runtime = runtime
        self._options = settings, n_masks, noise * n_sites**0.5

    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Run a round everywhere; return sums without noise, as far as possible."""
        sums = self._runtime.run_round(kind, broadcast)
        return sums if kind == "recenter" else denoise(sums, broadcast, *self._options)


def denoise(
    sums: Sums, broadcast: Broadcast, settings: Settings, n_masks: int, deviation: float
) -> Sums:
    """Return sums that the server's half of a round can work with.

    ``broadcast`` is the one that the noisy sums answer, ``deviation`` the standard deviation of
    the noise in the total.
    """
    scales = scales_of(settings, n_masks)
    # Counts are not released; zeros would mean that no subject uses an atom.
    sums = replace(sums, counts=np.ones(settings.n_atoms))
    if sums.gram.size:
        clear = _clear_personal(sums, broadcast.dictionary, settings, scales, deviation)
        return _clear_gauge(clear, sums, settings, scales, deviation)
    return _clear_population(sums, broadcast.dictionary, settings, scales, deviation)


def _clear_population(
    sums: Sums, dictionary: np.ndarray, settings: Settings, scales: Scales, deviation: float
) -> Sums:
    """Return moments and weights of the atoms above the noise, shrunk towards the old atoms.

    An atom moves to another window if its gain in energy exceeds the noise; samples outside the
    window are set to zero.
    """
    moment, weight = np.zeros_like(sums.moment), np.zeros_like(sums.weight)
    flat = deviation / scales.weight
    for k, atom in enumerate(dictionary):
        mean = sums.weight[k].mean()
        if mean <= SEEN * deviation:
            continue
        clean = mean + _shrink(sums.weight[k] - mean, flat**2 * sums.weight[k].size)
        clean = np.maximum(clean, min(LEAST_WEIGHT * mean, flat))
        move = _find_window(sums.moment[k], mean, settings.margin, deviation)
        here = slice(settings.margin + move, settings.margin + move + settings.atom_length)
        old = clean[here] * move_windows(dictionary[k : k + 1], np.array([move]))[0]
        noise = deviation**2 * (atom.size + (atom**2).sum())
        weight[k, here] = clean[here]
        moment[k, here] = old + _shrink(sums.moment[k, here] - old, noise)
    return replace(sums, moment=moment, weight=weight)


def _find_window(moment: np.ndarray, weight: float, margin: int, rough: float) -> int:
    """Return by how many samples to move a window within a noisy moment (Lw, P)."""
    squares = (moment**2).sum(1)
    length = len(squares) - 2 * margin
    starts = np.arange(2 * margin + 1)[:, None]
    inside = (starts <= np.arange(len(squares))) & (np.arange(len(squares)) < starts + length)
    energy = inside @ squares / weight
    # Only the samples that two windows do not share matter for the noise of their difference.
    variance = 2 * rough**4 * moment.shape[1] + 4 * rough**2 * squares
    spread = np.sqrt((inside ^ inside[margin]) @ variance) / weight
    gain = energy - energy[margin] - WORTH_A_MOVE * spread
    best = int(gain.argmax())
    return best - margin if gain[best] > 1e-6 * energy[margin] else 0


def _clear_personal(
    sums: Sums, dictionary: np.ndarray, settings: Settings, scales: Scales, deviation: float
) -> Sums:
    """Return the systems of the atoms above the noise, positive, shrunk towards the old atoms."""
    gram, right, n_warps = (np.zeros_like(x) for x in (sums.gram, sums.transported, sums.n_warps))
    n_gram, side = gram.shape[1], gram.shape[-1]
    near = min(2 * reach_of(settings) + 1, side)
    entry = deviation / scales.gram
    # About the largest eigenvalue of the noise.
    ridge = entry * near**0.5
    for k, atom in enumerate(dictionary):
        level = np.trace(sums.gram[k], axis1=1, axis2=2).mean() / side
        if level <= SEEN * deviation * n_gram**0.5:
            continue
        old = _multiply(sums.gram[k], atom)
        noise = deviation**2 * atom.size + entry**2 * near * (atom**2).sum()
        gram[k] = sums.gram[k] + ridge * np.eye(side)
        right[k] = old + _shrink(sums.transported[k] - old, noise) + ridge * atom
        # Such an atom has subjects, though their noisy number may be negative.
        n_warps[k] = sums.n_warps[k] if deviation == 0 else max(sums.n_warps[k], level)
    return replace(sums, gram=gram, transported=right, n_warps=n_warps)


def _clear_gauge(
    clear: Sums, noisy: Sums, settings: Settings, scales: Scales, deviation: float
) -> Sums:
    """Return sums of warps and mixtures for the number of subjects now assumed."""
    n_warps, samples = clear.n_warps[:, None, None], np.arange(settings.atom_length)
    if settings.warps and settings.centering != "off":
        moved = noisy.warp - noisy.n_warps[:, None, None] * samples
        noise = (deviation / scales.sine) ** 2 * N_SINES
        moved = np.stack([[_shrink(row, noise, N_SINES) for row in rows] for rows in moved])
        mean = samples + _keep_pace(moved / np.maximum(n_warps, 1))
        inverse = expected_inverse(mean, np.zeros_like(mean))
        clear = replace(clear, warp=n_warps * mean)
        if noisy.inverse_warp.size:
            # As if all warps were equal to their mean.
            square = n_warps * (mean - samples) ** 2
            clear = replace(clear, inverse_warp=n_warps * inverse, squared_displacement=square)
    if noisy.mixing.size:
        neutral = neutral_mixing(settings)
        mixed = noisy.mixing - noisy.n_warps[:, None] * neutral
        noise = (deviation / scales.mixing) ** 2 * neutral.size
        mixed = np.stack([_shrink(row, noise) for row in mixed])
        clear = replace(clear, mixing=clear.n_warps[:, None] * neutral + mixed)
    return clear


def _shrink(difference: np.ndarray, noise: float, freedom: int | None = None) -> np.ndarray:
    """Return the part of a difference that noise of this expected square does not explain.

    The margin ``doubt`` is larger for fewer numbers, whose squared noise varies more.
    """
    doubt = 1 + 2 * math.sqrt(2 / (difference.size if freedom is None else freedom))
    square = float((difference**2).sum())
    return difference * (max(0.0, 1 - doubt * noise / square) if square > 0 else 0.0)


def _keep_pace(moved: np.ndarray) -> np.ndarray:
    """Return displacements (..., L), in samples, scaled so that time runs forward."""
    slowing = -np.diff(moved).min(-1, keepdims=True)
    return moved * np.minimum(1, (1 - MIN_SPEED) / np.maximum(slowing, 1 - MIN_SPEED))


def _multiply(systems: np.ndarray, atom: np.ndarray) -> np.ndarray:
    """Return the product of Gram matrices (G, n, n) and an atom (L, P)."""
    if systems.shape[-1] == atom.size:
        return (systems[0] @ atom.ravel()).reshape(atom.shape)
    groups = np.broadcast_to(systems, (atom.shape[1], *systems.shape[1:]))
    return np.einsum("pij,jp->ip", groups, atom)
