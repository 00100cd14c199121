"""The first dictionary, when no motif is at hand: segments of the data that explain most of it."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from percdl.steps.csc import CodingRules, encode
from percdl.steps.types import Signals


def choose_segments(
    signals: Signals,
    n_atoms: int,
    atom_length: int,
    penalty: float,
    rules: CodingRules,
    rng: np.random.Generator,
    n_candidates: int = 24,
) -> np.ndarray:
    """Pick segments of the recordings as atoms (K, L, P), greedily by what they explain.

    Candidates are drawn with a probability proportional to their energy. Each is tried as
    the next atom by coding all the recordings with it, exactly; the one that explains most
    is kept. Cost O(K * n_candidates) codings.
    """
    candidates = draw_segments(signals, atom_length, n_candidates, rng)
    # Unused slots hold zero atoms, which are never activated: one program for every step.
    chosen = np.zeros((n_atoms, *candidates.shape[1:]), candidates.dtype)
    for k in range(n_atoms):
        trials = np.repeat(chosen[None], len(candidates), axis=0)
        trials[:, k] = candidates
        gains = np.asarray(_total_gains(signals, jnp.asarray(trials), penalty, rules))
        chosen[k] = candidates[int(np.argmax(gains))]
    return chosen


def draw_segments(
    signals: Signals, atom_length: int, n_segments: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw windows (n, L, P) at unit norm, the likelier the more energy they hold."""
    values = np.asarray(signals.values)
    power = np.cumsum(np.pad((values**2).sum(2, dtype=float), ((0, 0), (1, 0))), axis=1)
    energy = power[:, atom_length:] - power[:, :-atom_length]
    inside = np.arange(energy.shape[1]) <= np.asarray(signals.lengths)[:, None] - atom_length
    energy = np.where(inside, energy, 0).clip(0)
    flat = rng.choice(energy.size, size=n_segments, p=energy.ravel() / energy.sum())
    rows, starts = np.unravel_index(flat, energy.shape)
    segments = np.stack(
        [values[r, t : t + atom_length] for r, t in zip(rows, starts, strict=True)]
    )
    return segments / np.sqrt((segments**2).sum((1, 2), keepdims=True))


@partial(jax.jit, static_argnames=("rules",))
def _total_gains(signals: Signals, dictionaries, penalty, rules: CodingRules):
    """Return what each dictionary explains of all recordings together."""

    def gain(dictionary):
        return encode(signals, dictionary[None], penalty, rules)[1].sum()

    return jax.lax.map(gain, dictionaries)
