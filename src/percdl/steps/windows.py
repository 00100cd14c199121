"""Move the window of an atom whose ends are too loud.

A warp keeps the ends of an atom fixed. If the window of an atom is off by one sample, it begins
(or ends) in the silence beside the pattern and cuts the pattern at the other end. Every subject
can be fitted like that, a little worse, so neither codes nor warps correct it. But the ends are
louder than those of the neighbouring window. Near its ends a warp is close to the identity, so
the mean segment of all subjects shows it, with far less noise than that of any one of them.

Onsets are whole samples. If noise makes them uncertain, some subjects get the sample before the
true one, others the sample after it, and the atom can end anywhere in between: the fit is equally
good, and the rounds do not correct it. `settle_windows` moves the window by the missing fraction.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.interpolate import CubicSpline

MOVES = (-1, 0, 1)
# Another window is better if its ends have less than this share of the energy...
QUIETER = 0.5
# ... if it loses at most this share of the energy inside...
MOST_LOST = 1e-3
# ... and if the difference of the energies is this many times its standard error.
SIGNIFICANCE = 3.0
# The samples beside each end of an atom that a line is fitted to. The end itself may be silent.
RAMP = slice(1, 4)
# Variance of the line at the end, for samples of variance one.
RAMP_VARIANCE = 7 / 3
# Error, in samples and without noise, of the zeros of the lines of one subject's atom, because
# patterns are curved; for n subjects it is 1 / sqrt(n) of it.
RAMP_ERROR = 0.8


def elect_windows(
    moment: Float[np.ndarray, "K Lw P"],
    weight: Float[np.ndarray, "K Lw Q"],
    noise: Float[np.ndarray, " K"],
    atom_length: int,
) -> Int[np.ndarray, " K"]:
    """Return the move of each atom's window, in samples.

    ``moment`` and ``weight`` are sums over all subjects on a window with equal margins on both
    sides; without margins a window stays. ``noise`` is the variance of a sample. No window moves
    to or from an end that was never observed.
    """
    margin = (moment.shape[1] - atom_length) // 2
    if margin == 0:
        return np.zeros(len(moment), int)
    seen = np.all(weight > 0, axis=-1)
    weight = np.broadcast_to(np.where(weight > 0, weight, 1), moment.shape)
    energy = ((moment / weight) ** 2).sum(-1)
    error = noise[:, None] / weight.mean(-1)  # variance of the mean segment at each sample
    first = margin + np.array(MOVES)
    last = first + atom_length - 1
    variance = (error[:, first] + error[:, last]) / 2
    expected = 2 * moment.shape[-1] * variance
    ends = energy[:, first] + energy[:, last]
    clear = np.maximum(ends - expected, 0)
    # A squared normal number of mean m and variance v has variance 4 m^2 v + 2 v^2.
    spread = 4 * clear * variance + 2 * expected * variance
    running = np.cumsum(np.pad(energy, ((0, 0), (1, 0))), axis=1)
    inside = running[:, last + 1] - running[:, first]
    known = seen[:, first] & seen[:, last]
    now = [MOVES.index(0)]
    fine = known & known[:, now] & (clear < QUIETER * clear[:, now])
    fine &= inside >= (1 - MOST_LOST) * inside[:, now]
    fine &= ends[:, now] - ends > SIGNIFICANCE * np.sqrt(spread + spread[:, now])
    best = np.argmin(np.where(fine, ends, np.inf), axis=1)
    return np.where(fine.any(1), np.array(MOVES)[best], 0)


def prefer_windows(
    energy: Float[Array, "S Lw"], seen: Bool[Array, "S Lw"], atom_length: int
) -> Float[Array, "S 3"]:
    """Return one vote of each subject, for one of `MOVES`.

    ``energy`` is that of a subject's mean segment at each sample of a window with equal margins on
    both sides; without margins a window stays. Samples that were never ``seen`` are not silent:
    no window moves to or from such an end.
    """
    margin = (energy.shape[1] - atom_length) // 2
    stay = jnp.tile(jnp.asarray([0, 1, 0], energy.dtype), (len(energy), 1))
    if margin == 0:
        return stay
    firsts = [margin + move for move in MOVES]
    ends = jnp.stack([energy[:, i] + energy[:, i + atom_length - 1] for i in firsts], 1)
    known = jnp.stack([seen[:, i] & seen[:, i + atom_length - 1] for i in firsts], 1)
    inside = jnp.stack([energy[:, i : i + atom_length].sum(1) for i in firsts], 1)
    fine = (ends < QUIETER * ends[:, 1:2]) & (inside >= (1 - MOST_LOST) * inside[:, 1:2])
    fine &= known & known[:, 1:2]
    best = jnp.argmin(jnp.where(fine, ends, jnp.inf), axis=1)
    wish = (best[:, None] == jnp.arange(3)).astype(energy.dtype)
    return jnp.where(fine.any(1, keepdims=True), wish, stay)


def move_windows(
    dictionary: Float[np.ndarray, "K L P"], moves: Int[np.ndarray, " K"]
) -> Float[np.ndarray, "K L P"]:
    """Return the atoms in the moved windows; the end sample is repeated."""
    samples = np.arange(dictionary.shape[1])
    inside = np.clip(samples + moves[:, None], 0, samples[-1])
    return np.take_along_axis(dictionary, inside[..., None], axis=1)


def settle_windows(
    dictionary: Float[np.ndarray, "K L P"],
    information: Float[np.ndarray, " K"],
    n_subjects: Float[np.ndarray, " K"],
) -> Float[np.ndarray, "K L P"]:
    """Return the atoms in windows moved by a fraction of a sample, to where the pattern begins.

    A line through the first samples of an atom and one through the last reach zero where the
    pattern begins and ends; the move is the least-squares compromise. It is shrunk, because well
    known onsets leave little to correct. ``information`` is the inverse variance of a sample of
    one subject's mean segment, in units of the atom. An atom with loud ends keeps its window.
    """
    if dictionary.shape[1] < 2 * RAMP.stop:
        return dictionary
    moved = dictionary.copy()
    for k, atom in enumerate(dictionary):
        first, last = _fit_line(atom), _fit_line(atom[::-1])
        value, slope = np.concatenate([first[0], last[0]]), np.concatenate([first[1], -last[1]])
        before, error = _onset_variances(slope, float(information[k]), float(n_subjects[k]))
        if not np.isfinite(error):
            continue
        trust = before / (before + error)
        move = float(np.clip(-trust * (value @ slope) / (slope @ slope), -1, 1))
        if np.sum((value + move * slope) ** 2) < QUIETER * np.sum(value**2):
            moved[k] = _read_extended(atom, first[1], last[1], move)
    return moved


def window_variance(atom: Float[np.ndarray, "L P"], information: float, n_subjects: int) -> float:
    """Return the variance of the window of an atom after `settle_windows`, in squared samples.

    A window that is too short to be settled is off by two roundings: its own and the onsets'.
    """
    if len(atom) < 2 * RAMP.stop:
        return 1 / 6
    slope = np.concatenate([_fit_line(atom)[1], _fit_line(atom[::-1])[1]])
    before, error = _onset_variances(slope, information, n_subjects)
    return 1 / (1 / before + 1 / error)


def _onset_variances(slope, information: float, n_subjects: float) -> tuple[float, float]:
    """Return the variance of the common onset before it is settled, and the error of the lines.

    Before, it is that of one subject's onset, at most a squared sample.
    """
    known = information * (slope @ slope)
    with np.errstate(divide="ignore"):
        error = np.divide(np.divide(RAMP_VARIANCE, known) + RAMP_ERROR**2, n_subjects)
    return float(1 / (1 + known)), float(error)


def _fit_line(atom: Float[np.ndarray, "L P"]) -> Float[np.ndarray, "2 P"]:
    """Return the value at the first sample, and the slope, of the line through the next few."""
    return np.polynomial.polynomial.polyfit(np.arange(len(atom))[RAMP], atom[RAMP], 1)


def _read_extended(atom, first, last, move: float) -> Float[np.ndarray, "L P"]:
    """Return an atom read ``move`` samples later; lines extend it beyond its ends.

    At the end that moves inwards the atom is silent up to where its line begins.
    """
    beyond = np.arange(-2, 1)[:, None]
    before = atom[0] + (beyond - max(move, 0)) * first
    after = (atom[-1] + (beyond - max(-move, 0)) * last)[::-1]
    wide = np.concatenate([before, atom[1:-1], after])
    return CubicSpline(np.arange(-2, len(atom) + 2), wide)(np.arange(len(atom)) + move)
