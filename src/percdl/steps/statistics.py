"""The two sufficient statistics, the only link between codes and dictionaries (decision 7)."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from percdl.steps.durations import make_readings
from percdl.steps.types import Events, Signals, Statistics


def segment_statistics(
    signals: Signals,
    events: Events,
    n_atoms: int,
    atom_length: int,
    margin: int,
    lengths: tuple[int, ...] = (),
    atoms: Float[Array, "S_or_1 K L P"] | None = None,
) -> Statistics:
    """Sum the segments of each subject and atom: ``m = sum_j z_j y_j``, ``w = sum_j z_j^2``.

    With these, for any personal atom g,
    ``sum_j |y_j - z_j g|^2 = const - 2 <m, g> + <w, g^2>``,
    so IPU, CDU and PerCDU do not need the signals. The windows extend ``margin`` samples beyond
    the atom on both sides. Cost O(N P).

    Events of several ``lengths``, coded with ``atoms``, have the statistics of a bound, see
    `durations`. Cost as many times higher.
    """
    of_atom = jax.nn.one_hot(events.atom, n_atoms, dtype=signals.values.dtype)
    active = (events.amplitude != 0)[..., None] * of_atom
    count = active.sum(1).astype(jnp.int32)
    amplitude = events.amplitude[..., None]
    if events.length is None:
        segments, seen = _cut(signals, events.onset, atom_length + 2 * margin, margin)
        scaled = active * amplitude
        moment = jnp.einsum("sek,selp->sklp", scaled, segments)
        weight = jnp.einsum("sek,selq->sklq", scaled * amplitude, seen)
        return Statistics(moment, weight, count)
    assert atoms is not None
    readings = make_readings(lengths, atom_length, margin)
    segments, seen = _cut(signals, events.onset, readings.contract.shape[2], readings.n_before)
    of_length = jax.nn.one_hot(events.length, len(lengths), dtype=active.dtype)
    scaled = jnp.einsum("sek,sed->sekd", active * amplitude, of_length)
    moment = jnp.einsum("sekd,sevp->skdvp", scaled, segments)
    weight = jnp.einsum("sekd,sevq->skdvq", scaled * amplitude[..., None], seen)
    fit = jnp.einsum("dwl,sklp->skdwp", jnp.asarray(readings.dilate, active.dtype), atoms)
    beside = (readings.n_before, readings.n_before)
    rest = moment - weight * jnp.pad(fit, ((0, 0), (0, 0), (0, 0), beside, (0, 0)))
    contract = partial(jnp.einsum, "dlv,skdvp->sklp", jnp.asarray(readings.contract, active.dtype))
    weight = contract(weight)
    wide = jnp.pad(atoms, ((0, 0), (0, 0), (margin, margin), (0, 0)))
    return Statistics(contract(rest) + weight * wide, weight, count)


def _cut(signals: Signals, onset, window: int, margin: int):
    """Cut the window of every event (S, E, window, P), and where it was observed."""
    segments = _windows(signals.values, onset, window, margin)
    if signals.observed is not None:
        return segments, _windows(signals.observed, onset, window, margin)
    time = onset[..., None] + jnp.arange(-margin, window - margin)
    inside = (time >= 0) & (time < signals.lengths[:, None, None])
    return segments, inside.astype(segments.dtype)[..., None]


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
