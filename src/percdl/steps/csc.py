"""CSC: exact sparse coding with an l0 penalty and no overlap (Alg. 1, lines 3 and 8)."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Int

from percdl.steps.coders import L0Coder
from percdl.steps.types import Events, Signals
from percdl.transforms.base import divide


def encode(
    signals: Signals,
    atoms: Float[Array, "S_or_1 K L P"],
    penalty: Float[Array, ""],
    rules: L0Coder = L0Coder(),  # noqa: B008  (a constant)
) -> tuple[Events, Float[Array, " S"]]:
    """Return the best non-overlapping code of each recording and its gain.

    Solves, exactly and per recording x, with its own or shared atoms,

    ``min over Z of |x - sum_k z_k * phi_k|^2 + penalty |Z|_0``

    over codes with disjoint supports (Eqs. 1 and 3 with the atoms fixed). The
    objective of the result is ``|x|^2 - gain``. Missing samples are left out of the norm.

    Cost O(K N (P log N)) for the correlations and O(N) for the dynamic program, of which
    N / L steps are sequential; reading the onsets off it takes O((N / L)^2).
    """
    projection, norm = correlate(signals, atoms)
    amplitude = divide(projection, norm)
    if not rules.signed:
        amplitude = jnp.maximum(amplitude, 0)
    gain = amplitude * amplitude * norm - penalty
    best = jnp.argmax(gain, axis=1)
    gain = jnp.max(gain, axis=1)
    positions = jnp.arange(gain.shape[1])
    inside = positions <= signals.lengths[:, None] - atoms.shape[2]
    gain = jnp.where(inside, gain, -jnp.inf)
    onset, total = select_disjoint(gain, atoms.shape[2] + rules.gap, rules.max_activations)
    return _gather_events(onset, best, amplitude, signals.values.shape[1]), total


def correlate(signals: Signals, atoms: Float[Array, "S_or_1 K L P"]):
    """Return ``<x[t:t+L], phi_k>`` and the norm of the observed part of the atom, (S, K, V)."""
    length = atoms.shape[2]
    n = signals.values.shape[1]
    spectrum = find_spectrum(signals.values) if signals.spectrum is None else signals.spectrum
    projection = _cross_correlation(spectrum, atoms, n)
    if signals.observed is None:
        norm = jnp.sum(atoms**2, axis=(2, 3))[..., None]
        return projection, jnp.broadcast_to(norm, projection.shape)
    groups = signals.observed.shape[2]
    power = atoms**2 if groups > 1 else jnp.sum(atoms**2, axis=3, keepdims=True)
    norm = _cross_correlation(find_spectrum(signals.observed), power, n)
    # Rounding of the FFT leaves small values where the true norm is zero.
    floor = 1e-4 * jnp.sum(atoms**2, axis=(2, 3))[..., None] * (1 / length)
    return projection, jnp.where(norm > floor, norm, 0)


def find_spectrum(values: Float[Array, "S N P"]) -> Complex[Array, "S P F"]:
    """Return the Fourier transforms of signals."""
    return jnp.fft.rfft(jnp.swapaxes(values, 1, 2))


def _cross_correlation(
    spectrum: Complex[Array, "S P F"], atoms: Float[Array, "S_or_1 K L P"], n: int
):
    """Correlate along time and sum over channels; valid positions only, V = N - L + 1.

    Circular wrap-around touches only positions beyond N - L, so the FFT needs no padding.
    """
    atoms_hat = jnp.fft.rfft(jnp.swapaxes(atoms, 2, 3), n)
    product = jnp.sum(spectrum[:, None] * jnp.conj(atoms_hat), axis=2)
    return jnp.fft.irfft(product, n)[..., : n - atoms.shape[2] + 1]


def select_disjoint(
    gain: Float[Array, "S V"], span: int, max_events: int | None = None
) -> tuple[Int[Array, "S E"], Float[Array, " S"]]:
    """Choose positions at least ``span`` apart with the largest total gain (decision 8).

    The dynamic program is ``B[v] = max(B[v-1], B[v-span] + gain[v])``, B[v] the best total
    with onsets up to v. In a block of ``span`` positions ``B[v-span]`` lies in the block
    before, so a block is one addition and one running maximum. With ``max_events`` a second
    axis counts the events used. Recordings lie along the last axis, for the vector units of
    a CPU.

    Returns the onsets in increasing order, -1 in empty slots, and the totals.
    """
    n_rows, n_positions = gain.shape
    n_blocks = -(-n_positions // span)
    padded = jnp.pad(gain, ((0, 0), (0, n_blocks * span - n_positions)), constant_values=-jnp.inf)
    blocks = padded.T.reshape(n_blocks, span, 1, n_rows)
    n_levels = 1 if max_events is None else max_events + 1

    def advance(before, gains):
        candidate = running_maximum(_predecessors(before, max_events) + gains)
        after = jnp.maximum(candidate, before[-1:])
        return after, after

    start = jnp.zeros((span, n_levels, n_rows), gain.dtype)
    best, totals = jax.lax.scan(advance, start, blocks)
    return _trace_back(totals, max_events), best[-1, -1]


def count_slots(n_positions: int, span: int, max_events: int | None) -> int:
    """Return how many events at least ``span`` apart fit into the given positions."""
    n_blocks = -(-n_positions // span)
    return n_blocks if max_events is None else min(n_blocks, max_events)


def running_maximum(x: Array) -> Array:
    """Return the maximum of all entries up to each one, along the first axis.

    In two levels of about sqrt(n) steps, three times faster on a CPU than the log(n) passes
    of `jax.lax.cummax`.
    """
    n, rest = x.shape[0], x.shape[1:]
    width = math.isqrt(n - 1) + 1
    n_groups = -(-n // width)
    filler = ((0, n_groups * width - n), *((0, 0) for _ in rest))
    groups = jnp.pad(x, filler, constant_values=-jnp.inf).reshape(n_groups, width, *rest)
    within = [groups[:, 0]]
    for index in range(1, width):
        within.append(jnp.maximum(within[-1], groups[:, index]))
    earlier = [jnp.full(rest, -jnp.inf, x.dtype)]
    for index in range(n_groups - 1):
        earlier.append(jnp.maximum(earlier[-1], within[-1][index]))
    both = jnp.maximum(jnp.stack(within, 1), jnp.stack(earlier)[:, None])
    return both.reshape(n_groups * width, *rest)[:n]


def _predecessors(before, max_events):
    """Return the total before an event: at the same level, or with one event fewer."""
    if max_events is None:
        return before
    nothing = jnp.full_like(before[:, :1], -jnp.inf)
    return jnp.concatenate([nothing, before[:, :-1]], axis=1)


def _trace_back(totals, max_events):
    """Return the chosen onsets of the dynamic program, last first.

    ``totals`` (blocks, span, levels, S) never decreases along time and increases at each event,
    so the last event up to a position is where its total first occurs.
    """
    n_blocks, span, n_levels, n_rows = totals.shape
    rows = jnp.arange(n_rows)
    step_down = 0 if max_events is None else 1
    n_slots = count_slots(n_blocks * span, span, max_events)

    def jump(state, _):
        position, level = state
        value = totals[position // span, position % span, level, rows]
        block = jnp.sum(totals[:, -1, level, rows] < value, axis=0)
        offset = jnp.sum(totals[block, :, level, rows] < value[:, None], axis=1)
        onset = jnp.where((position < 0) | (value <= 0), -1, block * span + offset)
        # After an empty slot the position stays negative, and the value read there is unused.
        return (onset - span, level - step_down), onset

    state = (jnp.full(n_rows, n_blocks * span - 1), jnp.full(n_rows, n_levels - 1))
    _, onsets = jax.lax.scan(jump, state, length=n_slots)
    return onsets[::-1].T


def _gather_events(onset, best, amplitude, n_times) -> Events:
    """Look up atom and amplitude of each onset, and move empty slots to the end."""
    taken = onset >= 0
    where = jnp.maximum(onset, 0)
    rows = jnp.arange(onset.shape[0])[:, None]
    atom = best[rows, where]
    value = jnp.where(taken, amplitude[rows, atom, where], 0)
    # Empty slots come first in `onset`; a stable roll by their number puts them last.
    order = (jnp.arange(onset.shape[1]) + (~taken).sum(1, keepdims=True)) % onset.shape[1]
    onset = jnp.where(taken, onset, n_times)
    return Events(*(jnp.take_along_axis(a, order, axis=1) for a in (onset, atom, value)))
