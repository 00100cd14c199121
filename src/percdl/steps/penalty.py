"""The penalty by BIC; docs/choosing.md derives it."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from percdl.signals.reconstruction import read_dilated
from percdl.steps.baseline import remove_baselines
from percdl.steps.compilation import program
from percdl.steps.csc import L0Coder, encode, explain
from percdl.steps.period import NORMAL_MAD
from percdl.steps.types import Events, Signals
from percdl.transforms.base import divide

# Smallest penalty, as a share of the largest useful one. Without it, rounding errors would be
# activations in signals without noise.
LEAST_RATIO = 1e-4


def choose_penalty(
    signals: Signals, dictionary: Float[np.ndarray, "K L P"], rules: L0Coder
) -> float:
    """Return ``sigma^2 (2 log(K V) + log(L P))``, in squared signal units.

    This is the BIC cost of the three unknowns of an activation (atom, position, amplitude), with
    the noise variance of the residual of a first code.
    """
    n_atoms, length, n_channels = dictionary.shape
    lengths = np.asarray(signals.lengths)
    n_positions = np.median(lengths[lengths >= length]) - length + 1
    unknowns = 2 * np.log(n_atoms * n_positions) + np.log(length * n_channels)
    least = LEAST_RATIO * float(largest_penalty(signals, dictionary, rules))
    return max(float(noise_variance(signals, dictionary, rules) * unknowns), least)


def noise_variance(
    signals: Signals, dictionary: Float[np.ndarray, "K L P"], rules: L0Coder
) -> float:
    """Return the variance of cycles around the mean cycle of the same person.

    The recordings are coded with zero penalty, and each person's segments are compared with their
    mean, because differences between people are not noise. The median magnitude is robust to
    places where no atom fits. Returns the mean over the channels that are observed.
    """
    length = dictionary.shape[1]
    events, values = _code_at_no_price(signals, dictionary, rules)
    rest = np.array(values, float)
    sizes = np.full(events.onset.shape, length)
    if events.length is not None:
        sizes = np.array(rules.lengths(length))[np.asarray(events.length)]
    for row, x in enumerate(rest):
        onsets, atoms, amplitudes = (np.asarray(part)[row] for part in events[:3])
        for k in np.unique(atoms[amplitudes != 0]):
            used = (atoms == k) & (amplitudes != 0)
            places = [
                slice(*span)
                for span in zip(onsets[used], onsets[used] + sizes[row, used], strict=True)
            ]
            in_common_time = [read_dilated(len(x[at]), length) @ x[at] for at in places]
            fits = _explain(np.stack(in_common_time), amplitudes[used], dictionary[k])
            for at, fit in zip(places, fits, strict=True):
                x[at] -= read_dilated(length, len(x[at])) @ fit
    seen = np.arange(rest.shape[1]) < np.asarray(signals.lengths)[:, None]
    seen = seen[..., None] if signals.observed is None else np.asarray(signals.observed) > 0
    seen = np.broadcast_to(seen, rest.shape)
    observed = [np.abs(rest[..., p][seen[..., p]]) for p in range(rest.shape[2])]
    deviation = [np.median(one) for one in observed if one.size]
    return float(np.mean(np.square(deviation)) / NORMAL_MAD**2)


def _explain(segments: np.ndarray, amplitudes: np.ndarray, atom: np.ndarray) -> np.ndarray:
    """Return the fit of segments (n, L, P) by their own mean shape, or by the atom if only one."""
    scale = amplitudes[:, None, None]
    if len(segments) > 1:
        atom = (scale * segments).sum(0) / (amplitudes**2).sum()
    return scale * atom


@partial(program, static_argnames=("rules",))
def _code_at_no_price(signals: Signals, dictionary, rules: L0Coder) -> tuple[Events, Array]:
    """Return events, and the recordings without their baselines."""
    atoms = dictionary[None]
    events, _ = encode(signals, atoms, jnp.zeros((), dictionary.dtype), rules)
    if rules.n_terms:
        signals = remove_baselines(signals, events, atoms, rules, atoms.shape[2])
    return events, signals.values


@partial(program, static_argnames=("rules",))
def largest_penalty(signals: Signals, dictionary, rules: L0Coder):
    """Return the largest penalty with an activation: the energy that the best one explains."""
    projection, norm = explain(signals, dictionary[None], rules)
    if not rules.signed and rules.polarity == "common":
        projection = jnp.maximum(projection, 0)
    gain = divide(projection**2, norm)
    shape = dictionary.shape[:2]
    own = np.array([rules.lengths(shape[1])[d] for _, d in rules.pairs(*shape)])
    inside = jnp.arange(gain.shape[2]) <= (signals.lengths[:, None] - own)[..., None]
    return jnp.max(jnp.where(inside, gain, 0))
