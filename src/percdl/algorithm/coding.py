"""The compiled programs that code chunks of recordings, shared by all fits of a process."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from percdl.algorithm.programs import Fitted, Prepared
from percdl.steps.baseline import remove_baselines
from percdl.steps.compilation import program
from percdl.steps.csc import L0Coder, encode, find_spectrum
from percdl.steps.csc_l1 import L1Coder, encode_l1
from percdl.steps.overlap import overlap_statistics, overlapping_statistics
from percdl.steps.robust import encode_robustly
from percdl.steps.statistics import core, segment_statistics
from percdl.steps.types import Events, Signals, Statistics, pick

# Codes are refused only if they are worse by more than rounding, relative to the energy.
ROUNDING = 1e-6


class Coded(NamedTuple):
    """The outcome of CSC on a chunk: events, statistics, energy and objective of each recording.

    ``unexplained`` is what the objective would be if the activations explained nothing. The
    energy is that of the recording without the baselines of its activations.
    ``overlap`` holds the statistics ztx and ztz, if activations may overlap.
    """

    events: Events
    statistics: Statistics
    energy: Float[Array, " S"]
    unexplained: Float[Array, " S"]
    objective: Float[Array, " S"]
    overlap: tuple[Array, Array] | None = None


@program
def measure_energy(signals: Signals) -> Array:
    """Sum the squared samples of each recording."""
    return jnp.einsum("snp,snp->s", signals.values, signals.values)


@program
def keep_spectrum(signals: Signals) -> Signals:
    """Return signals with their Fourier transforms, which every round needs."""
    return signals._replace(spectrum=find_spectrum(signals.values))


@partial(program, static_argnames=("rules", "margin"))
def code(
    signals: Signals,
    energy: Array,
    atoms: Array,
    penalty: Array,
    delta: Array | None,
    start: Array | None,
    rules: L0Coder | L1Coder,
    margin: int,
) -> Coded:
    """CSC and statistics of a chunk (Alg. 1, lines 3 and 8), for Huber's loss with a delta.

    ``start`` (S, K V) holds the initial activations of a code with overlap.
    """
    if isinstance(rules, L1Coder):
        return _code_overlapping(signals, energy, atoms, penalty, start, rules)
    n_atoms, length = atoms.shape[1:3]
    is_pinned = signals.pins is not None
    if delta is not None:
        events, signals, energy, loss = encode_robustly(signals, atoms, penalty, delta, rules)
    else:
        events, gain = encode(signals, atoms, penalty, rules)
    lengths = rules.lengths(length)
    if rules.n_terms:
        signals = remove_baselines(signals, events, atoms, rules, margin)
    statistics = segment_statistics(signals, events, n_atoms, length, margin, lengths, atoms)
    price = penalty * statistics.count.sum(1)
    if is_pinned:  # a required activation has its price, even if it explains nothing
        price = penalty * jnp.sum(events.onset < signals.values.shape[1], axis=1)
    objective = energy - gain if delta is None else loss + price
    unexplained = energy + price
    if rules.n_terms:
        energy = jnp.einsum("snp,snp->s", signals.values, signals.values)
    if rules.n_terms or len(lengths) > 1:
        unexplained = objective + _met(statistics, atoms)
    return Coded(events, statistics, energy, unexplained, objective)


def _met(statistics: Statistics, atoms: Array) -> Array:
    """Return the energy that the atoms of the coding explain, from the statistics.

    If the statistics are those of a bound, it equals the objective at these atoms.
    """
    moment, weight = (core(x, atoms.shape[2]) for x in statistics[:2])
    return jnp.sum(2 * moment * atoms - weight * atoms**2, axis=(1, 2, 3))


def _code_overlapping(signals: Signals, energy, atoms, penalty, start, coder: L1Coder) -> Coded:
    """Code with an l1 penalty; every position of every atom is an event, most of amplitude 0."""
    n_rows, n_times, _ = signals.values.shape
    n_atoms, length = atoms.shape[1:3]
    n_positions = n_times - length + 1
    if start is not None:
        start = start.reshape(n_rows, n_atoms, n_positions)
    activations, objective = encode_l1(
        signals, atoms, penalty, coder.signed, start, coder.n_steps, coder.tolerance
    )
    statistics = overlapping_statistics(signals, activations, atoms)
    onset, atom = jnp.meshgrid(jnp.arange(n_positions), jnp.arange(n_atoms))
    places = (jnp.tile(x.ravel(), (n_rows, 1)) for x in (onset, atom))
    events = Events(*places, amplitude=activations.reshape(n_rows, -1))
    overlap = None
    if signals.observed is None:
        overlap = overlap_statistics(signals, activations, length)
    unexplained = objective + _met(statistics, atoms)
    return Coded(events, statistics, energy, unexplained, objective, overlap)


@partial(program, static_argnames=("always",))
def judge(
    proposal: Coded, previous: Coded, before: Prepared, fitted: Fitted, always: bool
) -> tuple[Bool[Array, " S"], Float[Array, " S"]]:
    """Return which new codes are no worse than the old, and the objective between IPU and CSC.

    Old codes count at their best amplitude, new parameters with their price. With ``always``, all
    new codes are accepted, because they are known to be better.
    """
    reached = previous.unexplained - before.explained.sum(1)
    objective = proposal.objective + fitted.price.sum(1)
    taken = (objective <= reached + ROUNDING * previous.energy) | always
    return taken, previous.unexplained - (fitted.explained + fitted.prior).sum(1)


@program
def accept(
    taken: Array, proposal: Coded, previous: Coded, before: Prepared, fitted: Fitted
) -> tuple[Coded, Array]:
    """Return accepted codes and parameters, else the old ones at their best amplitude."""
    kept = keep(previous, before.amplitude, before.explained + before.price)
    return pick(taken, (proposal, fitted.params), (kept, before.params))


def keep(coded: Coded, amplitude: Array, explained: Array) -> Coded:
    """Return old codes at the best common amplitude (S, K) that new atoms have for them."""
    events, statistics, energy, unexplained, _, overlap = coded
    scale = jnp.take_along_axis(amplitude, events.atom, axis=1)
    factor = amplitude[..., None, None]
    return Coded(
        events._replace(amplitude=events.amplitude * scale),
        Statistics(statistics.moment * factor, statistics.weight * factor**2, statistics.count),
        energy,
        unexplained,
        unexplained - explained.sum(1),
        overlap,
    )
