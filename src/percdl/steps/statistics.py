"""The two sufficient statistics, the only bridge between codes and dictionaries (decision 7)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from percdl.steps.types import Events, Signals, Statistics


def segment_statistics(
    signals: Signals, events: Events, n_atoms: int, atom_length: int, margin: int
) -> Statistics:
    """Sum the segments of each subject and atom: ``m = sum_j z_j y_j``, ``w = sum_j z_j^2``.

    With these, for any personal atom g,
    ``sum_j |y_j - z_j g|^2 = const - 2 <m, g> + <w, g^2>``,
    so that IPU, CDU and PerCDU never look at a signal again. Cost O(N P).
    """
    window = atom_length + 2 * margin
    usable = _usable(signals, events, atom_length, margin)
    segments = _windows(signals.values, events.onset, window, margin) * usable[..., None]
    if signals.observed is None:
        seen = usable[..., None]
    else:
        seen = _windows(signals.observed, events.onset, window, margin) * usable[..., None]
    of_atom = jax.nn.one_hot(events.atom, n_atoms, dtype=segments.dtype)
    active = (events.amplitude != 0)[..., None] * of_atom
    scaled = active * events.amplitude[..., None]
    return Statistics(
        moment=jnp.einsum("sek,selp->sklp", scaled, segments),
        weight=jnp.einsum("sek,selq->sklq", scaled * events.amplitude[..., None], seen),
        count=active.sum(1).astype(jnp.int32),
    )


def _windows(x: Float[Array, "S N P"], onset, window: int, margin: int):
    """Cut the window of every event, array (S, E, window, P)."""
    padded = jnp.pad(x, ((0, 0), (margin, window), (0, 0)))
    cut = jax.vmap(lambda row, t: jax.lax.dynamic_slice_in_dim(row, t, window), (None, 0))
    return jax.vmap(cut)(padded, onset)


def _usable(signals: Signals, events: Events, atom_length: int, margin: int):
    """Return 1 for samples that are in the recording and under no other atom, (S, E, window)."""
    # A neighbour of the same atom moves along with the event, so its samples may be used.
    change = events.atom[:, 1:] != events.atom[:, :-1]
    end = signals.lengths[:, None]
    earliest = jnp.where(change, events.onset[:, :-1] + atom_length, 0)
    latest = jnp.where(change, jnp.minimum(events.onset[:, 1:], end), end)
    earliest = jnp.pad(earliest, ((0, 0), (1, 0)))
    latest = jnp.concatenate([latest, end], axis=1)
    time = events.onset[..., None] + jnp.arange(-margin, atom_length + margin)
    usable = (time >= earliest[..., None]) & (time < latest[..., None])
    return usable.astype(signals.values.dtype)
