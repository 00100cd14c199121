"""The two sufficient statistics, the only link between codes and dictionaries (decision 7)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from percdl.steps.types import Events, Signals, Statistics


def segment_statistics(
    signals: Signals, events: Events, n_atoms: int, atom_length: int, margin: int
) -> Statistics:
    """Sum the segments of each subject and atom: ``m = sum_j z_j y_j``, ``w = sum_j z_j^2``.

    With these, for any personal atom g,
    ``sum_j |y_j - z_j g|^2 = const - 2 <m, g> + <w, g^2>``,
    so IPU, CDU and PerCDU do not need the signals. The windows extend ``margin`` samples beyond
    the atom on both sides. Cost O(N P).
    """
    window = atom_length + 2 * margin
    segments = _windows(signals.values, events.onset, window, margin)
    if signals.observed is None:
        time = events.onset[..., None] + jnp.arange(-margin, atom_length + margin)
        inside = (time >= 0) & (time < signals.lengths[:, None, None])
        seen = inside.astype(segments.dtype)[..., None]
    else:
        seen = _windows(signals.observed, events.onset, window, margin)
    of_atom = jax.nn.one_hot(events.atom, n_atoms, dtype=segments.dtype)
    active = (events.amplitude != 0)[..., None] * of_atom
    scaled = active * events.amplitude[..., None]
    return Statistics(
        moment=jnp.einsum("sek,selp->sklp", scaled, segments),
        weight=jnp.einsum("sek,selq->sklq", scaled * events.amplitude[..., None], seen),
        count=active.sum(1).astype(jnp.int32),
    )


def at_shift(x: Float[Array, "B Lw P"], shift: Int[Array, " B"], atom_length: int):
    """Return the statistics of an atom's window, moved by ``shift`` samples."""
    margin = (x.shape[1] - atom_length) // 2
    if margin == 0:
        return x
    cut = jax.vmap(lambda row, t: jax.lax.dynamic_slice_in_dim(row, t, atom_length))
    return cut(x, margin + shift)


def core(x: Float[Array, "*batch Lw P"], atom_length: int):
    """Return the statistics of the atom's own window, without the margins."""
    margin = (x.shape[-2] - atom_length) // 2
    return x[..., margin : margin + atom_length, :]


def _windows(x: Float[Array, "S N P"], onset, window: int, margin: int):
    """Cut the window of every event, array (S, E, window, P)."""
    padded = jnp.pad(x, ((0, 0), (margin, window), (0, 0)))
    cut = jax.vmap(lambda row, t: jax.lax.dynamic_slice_in_dim(row, t, window), (None, 0))
    return jax.vmap(cut)(padded, onset)
