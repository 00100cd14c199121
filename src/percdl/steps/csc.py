"""CSC: exact sparse coding with an l0 penalty and no overlap (Alg. 1, lines 3 and 8)."""

from __future__ import annotations

import math
from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Complex, Float, Int

from percdl.signals.reconstruction import make_basis
from percdl.steps.baseline import level_atoms, solve_baselines
from percdl.steps.coders import L0Coder
from percdl.steps.durations import dilate_atoms
from percdl.steps.types import Events, Signals, pick
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
    objective of the result is ``|x|^2 - gain``. Missing samples are left out of the norm. If the
    signals have pins, the code is the best one that agrees with them; a required activation that
    explains nothing has amplitude 0 and its price.

    Cost O(K N (P log N)) for the correlations and O(N) for the dynamic program, of which
    N / L steps are sequential; reading the onsets off it takes O((N / L)^2).
    """
    projection, norm = explain(signals, atoms, rules)
    amplitude = divide(projection, norm)
    n_atoms, length = atoms.shape[1:3]
    choose = partial(_choose_events, signals, norm, penalty, rules, n_atoms, length)
    if rules.signed:
        return choose(amplitude)
    if rules.polarity == "person":
        upright = choose(jnp.maximum(amplitude, 0))
        inverted = choose(jnp.minimum(amplitude, 0))
        return pick(upright[1] >= inverted[1], upright, inverted)
    return choose(jnp.maximum(amplitude, 0))


def explain(
    signals: Signals, atoms: Float[Array, "S_or_1 K L P"], rules: L0Coder
) -> tuple[Float[Array, "S C V"], Float[Array, "S C V"]]:
    """Return ``<y, g>`` and ``|g|^2`` of all windows y and all choices g of atom and length.

    Missing samples do not count. With a baseline, both are computed without the baseline.
    """
    lengths, pairs = rules.lengths(atoms.shape[2]), rules.pairs(*atoms.shape[1:3])
    if len(lengths) > 1:
        atoms = dilate_atoms(atoms, lengths, pairs)
    basis = make_basis(rules.n_terms, lengths)[[d for _, d in pairs]]
    if rules.n_terms and signals.observed is not None:
        return _correlate_beside(signals, atoms, basis, min(lengths))
    if rules.n_terms:
        atoms = level_atoms(atoms, basis)
    return correlate(signals, atoms, min(lengths))


def _choose_events(
    signals: Signals,
    norm: Float[Array, "S C V"],
    penalty: Float[Array, ""],
    rules: L0Coder,
    n_atoms: int,
    atom_length: int,
    amplitude: Float[Array, "S C V"],
) -> tuple[Events, Float[Array, " S"]]:
    """Return the disjoint activations with the largest total gain, and the gain."""
    lengths, pairs = rules.lengths(atom_length), rules.pairs(n_atoms, atom_length)
    choices, pins = by_length(pairs, len(lengths)), signals.pins
    allowed = None if pins is None else pins.allowed
    gain, best = choose_atoms(amplitude, norm, penalty, choices, allowed)
    positions = jnp.arange(gain.shape[-1])
    inside = positions <= (signals.lengths[:, None] - jnp.asarray(lengths))[..., None]
    gain = jnp.where(inside, gain, -jnp.inf)
    spans = tuple(length + rules.gap for length in lengths)
    covered = None if pins is None else pins.covered
    onset, which, total = select_disjoint(gain, spans, rules.max_activations, covered)
    rows = jnp.arange(len(onset))[:, None]
    where = jnp.maximum(onset, 0)
    choice = jnp.asarray(choices)[which, best[rows, which, where]]
    value = amplitude[rows, choice, where]
    atom = jnp.asarray([k for k, _ in pairs])[choice]
    events = _order_events(onset, atom, value, which, signals.values.shape[1])
    return events if len(lengths) > 1 else events._replace(length=None), total


def choose_atoms(
    amplitude: Float[Array, "S C V"],
    norm: Float[Array, "S C V"],
    penalty: Float[Array, ""],
    choices: Int[np.ndarray, "D n"],
    allowed: Bool[Array, "S C V"] | None = None,
) -> tuple[Float[Array, "S D V"], Int[Array, "S D V"]]:
    """Return the gain of the best activation of each length, and its position in the choices."""
    gain = amplitude * amplitude * norm - penalty
    if allowed is not None:
        gain = jnp.where(allowed, gain, -jnp.inf)
    by_length = gain[:, None] if len(choices) == 1 else gain[:, choices]
    return jnp.max(by_length, axis=2), jnp.argmax(by_length, axis=2)


def by_length(pairs: tuple[tuple[int, int], ...], n_lengths: int) -> Int[np.ndarray, "D n"]:
    """Return the choices of each length, padded to equal numbers by repeating the first."""
    found = [[c for c, (_, d) in enumerate(pairs) if d == each] for each in range(n_lengths)]
    most = max(map(len, found))
    return np.array([own + own[:1] * (most - len(own)) for own in found])


def correlate(signals: Signals, atoms: Float[Array, "S_or_1 K L P"], shortest: int | None = None):
    """Return ``<x[t:t+L], phi_k>`` and the norm of the observed part of the atom, (S, K, V).

    Positions go up to where an atom of the ``shortest`` length ends with the recording.
    """
    length = atoms.shape[2]
    n = signals.values.shape[1]
    spectrum = find_spectrum(signals.values) if signals.spectrum is None else signals.spectrum
    n_valid = n - (shortest or length) + 1
    projection = _cross_correlation(spectrum, atoms, n)[..., :n_valid]
    if signals.observed is None:
        norm = jnp.sum(atoms**2, axis=(2, 3))[..., None]
        return projection, jnp.broadcast_to(norm, projection.shape)
    groups = signals.observed.shape[2]
    power = atoms**2 if groups > 1 else jnp.sum(atoms**2, axis=3, keepdims=True)
    norm = _cross_correlation(find_spectrum(signals.observed), power, n)[..., :n_valid]
    return projection, _without_rounding(norm, atoms)


def _correlate_beside(
    signals: Signals,
    atoms: Float[Array, "S_or_1 C W P"],
    basis: Float[np.ndarray, "C W n"],
    shortest: int,
) -> tuple[Float[Array, "S C V"], Float[Array, "S C V"]]:
    """Return inner products and norms beside baselines, where samples are missing.

    With r, a and G the sums of samples, atom and baselines with the baselines, over the observed
    samples of a window, they are ``<y, g> - r G^-1 a`` and ``|g|^2 - a G^-1 a`` in each channel.
    """
    values, observed = signals.values, signals.observed
    assert observed is not None
    n, n_valid, n_terms = values.shape[1], values.shape[1] - shortest + 1, basis.shape[2]
    own = jnp.asarray(basis, values.dtype)
    pairs = jnp.einsum("cwn,cwm->cnmw", own, own).reshape(-1, own.shape[1])

    def sums(x: Float[Array, "S N"], kernels: Float[Array, "S_or_1 C W"]):
        spectrum = find_spectrum(x[..., None])
        return _cross_correlation(spectrum, kernels[..., None], n)[..., :n_valid]

    def add_channel(totals, p):
        x, seen = values[..., p], observed[..., p % observed.shape[2]]
        atom = atoms[..., p]
        weighed = jnp.moveaxis(atom[..., None] * own, 3, 2).reshape(len(atom), -1, own.shape[1])
        terms = jnp.swapaxes(own, 1, 2).reshape(1, -1, own.shape[1])
        shape = (len(x), len(own), n_terms)
        of_signal, of_atom = (
            jnp.moveaxis(each.reshape(*shape, n_valid), 2, 3)
            for each in (sums(x, terms), sums(seen, weighed))
        )
        gram = jnp.moveaxis(sums(seen, pairs[None]).reshape(*shape, n_terms, n_valid), 4, 2)
        found, known = solve_baselines(of_atom, gram)
        product = sums(x, atom) - jnp.sum(of_signal * found, -1)
        norm = sums(seen, atom**2) - jnp.sum(of_atom * found, -1)
        return (
            totals[0] + jnp.where(known, product, 0),
            totals[1] + jnp.where(known, norm, 0),
        ), None

    nothing = jnp.zeros((len(values), len(own), n_valid), values.dtype)
    (product, norm), _ = jax.lax.scan(add_channel, (nothing, nothing), jnp.arange(values.shape[2]))
    return product, _without_rounding(norm, atoms)


def _without_rounding(norm: Float[Array, "S C V"], atoms: Float[Array, "S_or_1 C W P"]):
    """Return norms without the small values that the FFT leaves where they are zero."""
    floor = 1e-4 * jnp.sum(atoms**2, axis=(2, 3))[..., None] * (1 / atoms.shape[2])
    return jnp.where(norm > floor, norm, 0)


def find_spectrum(values: Float[Array, "S N P"]) -> Complex[Array, "P S F"]:
    """Return Fourier transforms, channels first, so that a GPU adds them up at twice the speed."""
    return jnp.fft.rfft(jnp.moveaxis(values, 2, 0))


def _cross_correlation(
    spectrum: Complex[Array, "P S F"], atoms: Float[Array, "S_or_1 K L P"], n: int
):
    """Correlate along time and sum over channels, at all N positions.

    Circular wrap-around touches only positions beyond N - L, so the FFT needs no padding.
    """
    atoms_hat = jnp.fft.rfft(jnp.moveaxis(atoms, 3, 0), n)
    product = jnp.sum(spectrum[:, :, None] * jnp.conj(atoms_hat), axis=0)
    return jnp.fft.irfft(product, n)


def select_disjoint(
    gain: Float[Array, "S D V"],
    spans: tuple[int, ...],
    max_events: int | None = None,
    covered: Bool[Array, "S N"] | None = None,
) -> tuple[Int[Array, "S E"], Int[Array, "S E"], Float[Array, " S"]]:
    """Choose disjoint activations with the largest total gain (decision 8).

    An activation of length d takes ``spans[d]`` samples, in increasing order. The dynamic program
    is ``B[v] = max(B[v-1], max over d of B[v-spans[d]] + gain[d, v+spans[0]-spans[d]])``, B[v] the
    best total of all that has ended by ``v + spans[0]``. In a block of ``spans[0]`` positions all
    earlier totals are in earlier blocks, so a block needs a few additions and a running maximum.
    With ``max_events`` a further axis counts the events used. Recordings lie along the last axis,
    for the vector units of a CPU.

    A sample that must be ``covered`` is never left free: there, B[v] does not continue B[v-1].
    Totals may fall at such samples, but not between them.

    Returns the onsets in increasing order, -1 in empty slots, their lengths, and the totals.
    """
    n_rows, _, n_positions = gain.shape
    span, longest = spans[0], spans[-1]
    n_blocks = -(-n_positions // span)
    n_levels = 1 if max_events is None else max_events + 1
    # Lengths whose activations end together are adjacent.
    delays = [each - span for each in spans]
    blocks = jnp.stack(
        [_delay(gain[:, d], delay, n_blocks * span) for d, delay in enumerate(delays)]
    )
    blocks = jnp.moveaxis(blocks.reshape(len(spans), n_rows, n_blocks, span), (2, 3), (0, 2))[
        :, :, :, None
    ]

    ranks = resets = None
    start = jnp.zeros((longest, n_levels, n_rows), gain.dtype)
    if covered is not None:
        start, ranks, resets = _begin_covered(covered, start, n_blocks, span)

    def advance(before, inputs):
        gains, resets = inputs
        totals = [
            _predecessors(before[longest - each : longest - delay], max_events) + own
            for each, delay, own in zip(spans, delays, gains, strict=True)
        ]
        candidate = reduce(jnp.maximum, totals)
        if resets is None:
            after = jnp.maximum(running_maximum(candidate), before[-1:])
        else:
            after = _maximum_since(candidate, resets, before[-1:])
        which = None
        if len(spans) > 1:
            which = jnp.argmax(jnp.stack(totals), axis=0)
        return jnp.concatenate([before[span:], after]), (after, which)

    best, (totals, which) = jax.lax.scan(advance, start, (blocks, resets))
    return *_trace_back(totals, which, spans, max_events, ranks), best[-1, -1]


def _begin_covered(covered: Bool[Array, "S N"], start: Array, n_blocks: int, span: int):
    """Return the totals before the first block, and where totals restart.

    Position v of a total is the time v + span after which all samples are free. ``ranks``
    (blocks, span, S) counts the samples to cover before it; ``resets`` (blocks, span, 1, S) says
    whether the sample just before it must be covered.
    """
    size = n_blocks * span
    times = jnp.pad(covered, ((0, 0), (0, max(size + span - covered.shape[1], 0))))
    count = jnp.cumsum(times, axis=1)
    by_block = (len(times), n_blocks, span)
    ranks, resets = (
        jnp.moveaxis(x[:, span - 1 : span - 1 + size].reshape(by_block), 0, 2)
        for x in (count, times)
    )
    before = jnp.arange(span - len(start), span) - 1
    is_late = (before >= 0)[:, None] & (count.T[jnp.maximum(before, 0)] > 0)
    return jnp.where(is_late[:, None], -jnp.inf, start), ranks, resets[:, :, None]


def _maximum_since(x: Array, resets: Array, before: Array) -> Array:
    """Return the maximum of all entries since the last reset, or of ``before`` and all of them."""

    def join(first, second):
        return first[0] | second[0], jnp.where(
            second[0], second[1], jnp.maximum(first[1], second[1])
        )

    is_reset, most = jax.lax.associative_scan(join, (resets, x))
    return jnp.where(is_reset, most, jnp.maximum(most, before))


def _delay(x: Float[Array, "S V"], delay: int, size: int) -> Float[Array, "S size"]:
    """Return x moved to later positions, padded before and after."""
    delayed = jnp.pad(x, ((0, 0), (delay, size)), constant_values=-jnp.inf)
    return delayed[:, :size]


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


def _trace_back(totals, which, spans, max_events, ranks=None):
    """Return the chosen onsets of the dynamic program and their lengths, last first.

    ``totals`` (blocks, span, levels, S) never decreases along time and increases at each event,
    so the last event up to a position is where its total first occurs. With ``ranks``
    (blocks, span, S), this holds among equal ranks, and a rank above 0 implies an event.
    """
    n_blocks, span, n_levels, n_rows = totals.shape
    rows = jnp.arange(n_rows)
    step_down = 0 if max_events is None else 1
    n_slots = count_slots(n_blocks * span, span, max_events)

    def jump(state, _):
        position, level = state
        value = totals[position // span, position % span, level, rows]
        last, is_none = totals[:, -1, level, rows], value <= 0
        if ranks is None:
            block = jnp.sum(last < value, axis=0)
            offset = jnp.sum(totals[block, :, level, rows] < value[:, None], axis=1)
        else:
            rank, ends = ranks[position // span, position % span, rows], ranks[:, -1, rows]
            is_none &= rank == 0
            block = jnp.sum((ends < rank) | ((ends == rank) & (last < value)), axis=0)
            same = ranks[block, :, rows] == rank[:, None]
            smaller = totals[block, :, level, rows] < value[:, None]
            offset = jnp.sum((ranks[block, :, rows] < rank[:, None]) | (same & smaller), axis=1)
        length = 0 if which is None else which[block, offset, level, rows]
        end = block * span + offset + span
        onset = jnp.where((position < 0) | is_none, -1, end - jnp.asarray(spans)[length])
        # After an empty slot the position stays negative, and the value read there is unused.
        return (onset - span, level - step_down), (onset, jnp.broadcast_to(length, onset.shape))

    state = (jnp.full(n_rows, n_blocks * span - 1), jnp.full(n_rows, n_levels - 1))
    _, (onsets, lengths) = jax.lax.scan(jump, state, length=n_slots)
    return onsets[::-1].T, lengths[::-1].T


def _order_events(onset, atom, amplitude, length, n_times) -> Events:
    """Return events with empty slots at the end, with amplitude 0 and onset N."""
    taken = onset >= 0
    # Empty slots come first in `onset`; a stable roll by their number puts them last.
    order = (jnp.arange(onset.shape[1]) + (~taken).sum(1, keepdims=True)) % onset.shape[1]
    columns = (jnp.where(taken, onset, n_times), atom, jnp.where(taken, amplitude, 0), length)
    return Events(*(jnp.take_along_axis(a, order, axis=1) for a in columns))
