"""The compiled programs of a local round, shared by every fit of the process."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from percdl.algorithm.settings import N_TRY_STEPS, FitOptions
from percdl.steps import percdu
from percdl.steps.centering import recenter_params
from percdl.steps.csc import CodingRules, encode
from percdl.steps.ipu import explained_energy, gauss_newton
from percdl.steps.polyak import polyak
from percdl.steps.realignment import best_window, search
from percdl.steps.statistics import at_shift, core, segment_statistics
from percdl.steps.types import Events, Signals, Statistics
from percdl.transforms.base import ClosedFormTransform, LinearTransform, Transform, WarpTransform


class Coded(NamedTuple):
    """The outcome of CSC on a chunk: events, objective of each recording, statistics."""

    events: Events
    objective: Float[Array, " S"]
    statistics: Statistics


class Personal(NamedTuple):
    """The outcome of IPU on a block: parameters before and after, what they explain, atoms.

    ``kept`` are the parameters of the round before, carried over to the new dictionary;
    with the old codes, rescaled by ``amplitude``, they explain ``kept_explained``.
    """

    params: Float[Array, "S K M"]
    explained: Float[Array, "S K"]
    atoms: Float[Array, "S K L P"]
    kept: Float[Array, "S K M"]
    kept_explained: Float[Array, "S K"]
    amplitude: Float[Array, "S K"]


class Summary(NamedTuple):
    """What a block adds to the sums of PerCDU and of centering."""

    gram: Float[Array, "K G L L"]
    transported: Float[Array, "K L P"]
    warp: Float[Array, "K C L"]
    n_warps: Float[Array, " K"]


@partial(jax.jit, static_argnames=("rules", "margin"))
def code(
    signals: Signals,
    energy: Array,
    atoms: Array,
    penalty: Array,
    rules: CodingRules,
    margin: int,
) -> Coded:
    """CSC and statistics of a chunk (Alg. 1, lines 3 and 8)."""
    events, gain = encode(signals, atoms, penalty, rules)
    n_atoms, length = atoms.shape[1:3]
    statistics = segment_statistics(signals, events, n_atoms, length, margin)
    return Coded(events, energy - gain, statistics)


@partial(jax.jit, static_argnames=("transform", "options"))
def personalize(
    transform: Transform,
    options: FitOptions,
    dictionary: Array,
    statistics: Statistics,
    params: Array,
    mean_warp: Array,
    recenters: Array,
    move: Array,
    shifts: Array,
    n_shifts: Array,
) -> Personal:
    """IPU of a block (Alg. 1, line 7), one atom after the other."""

    def one_atom(inputs):
        atom, moment, weight, params, mean_warp, move = inputs
        length, n_channels = atom.shape
        if isinstance(transform, WarpTransform):
            params = jax.lax.cond(
                recenters,
                lambda a: recenter_params(transform, a, mean_warp, n_channels),
                lambda a: a,
                params,
            )
        kept = transform.apply(params, atom)
        kept_explained, amplitude, _ = explained_energy(
            kept, core(moment, length), core(weight, length)
        )
        shift = jnp.broadcast_to(move, moment.shape[:1])
        start = (params, shift)
        if isinstance(transform, WarpTransform) and options.searches:

            def look(start):
                tries = (shifts, n_shifts, options.multistart, N_TRY_STEPS)
                return search(transform, atom, moment, weight, start, *tries)

            start = jax.lax.cond(n_shifts > 0, look, lambda start: start, start)
        if isinstance(transform, ClosedFormTransform):
            start = (params, best_window(transform, atom, moment, weight))
        at = at_shift(moment, start[1], length), at_shift(weight, start[1], length)
        fitted, explained = _fit(transform, options, atom, *at, start[0])
        return fitted, explained, transform.apply(fitted, atom), params, kept_explained, amplitude

    by_atom = [jnp.moveaxis(x, 1, 0) for x in (statistics.moment, statistics.weight, params)]
    results = jax.lax.map(one_atom, (dictionary, *by_atom, mean_warp, move))
    return Personal(*(jnp.moveaxis(x, 0, 1) for x in results))


def _fit(transform, options: FitOptions, atom, moment, weight, params):
    """Solve IPU for one atom by the means that the transform and the options allow."""
    if isinstance(transform, ClosedFormTransform):
        seen = jnp.sum(weight, axis=(1, 2)) > 0
        params = jnp.where(seen[:, None], transform.solve(atom, moment, weight), params)
        return params, explained_energy(transform.apply(params, atom), moment, weight)[0]
    solver = polyak if options.solver == "polyak" else gauss_newton
    return solver(transform, atom, moment, weight, params, options.n_steps)


@jax.jit
def choose(
    accept: Array, proposal: Coded, previous: Coded, amplitude: Array, kept: Array
) -> Coded:
    """Keep the proposal where accepted, elsewhere the previous codes at their best amplitude."""
    events, _, statistics = previous
    scale = jnp.take_along_axis(
        amplitude, jnp.minimum(events.atom, amplitude.shape[1] - 1), axis=1
    )
    old = Coded(
        events._replace(amplitude=events.amplitude * scale),
        kept,
        Statistics(
            statistics.moment * amplitude[..., None, None],
            statistics.weight * amplitude[..., None, None] ** 2,
            statistics.count,
        ),
    )

    def pick(new, old):
        return jnp.where(accept.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    return jax.tree.map(pick, proposal, old)


@partial(jax.jit, static_argnames=("transform", "by_subject"))
def summarize(
    transform: Transform,
    dictionary: Array,
    statistics: Statistics,
    params: Array,
    by_subject: bool,
) -> Summary:
    """Sum what PerCDU and centering need; subjects without an atom count for nothing there."""
    length, n_channels = dictionary.shape[1:]

    def one_atom(inputs):
        moment, weight, params = inputs
        active = (jnp.sum(weight, axis=(1, 2)) > 0).astype(moment.dtype)
        nothing = jnp.zeros(0, moment.dtype)
        gram = transported = warp = nothing
        if isinstance(transform, LinearTransform):
            gram, transported = percdu.transport(transform, params, moment, weight)
        if isinstance(transform, WarpTransform):
            warps = transform.warp(params, length, n_channels)
            warp = jnp.einsum("s,scl->cl", active, warps)
        return gram, transported, warp, active.sum()

    moment, weight = weigh(statistics, length, by_subject)
    by_atom = [jnp.moveaxis(x, 1, 0) for x in (moment, weight, params)]
    return Summary(*jax.lax.map(one_atom, tuple(by_atom)))


@partial(jax.jit, static_argnames=("by_subject",))
def add_up(statistics: Statistics, dictionary: Array, by_subject: bool):
    """Sum the wide statistics for CDU: moment, weight and count of each atom."""
    moment, weight = _balance(statistics, dictionary.shape[1], by_subject)
    return moment.sum(0), weight.sum(0), statistics.count.sum(0)


def weigh(statistics: Statistics, length: int, by_subject: bool):
    """Return the statistics of the atom's own window, balanced between subjects if asked."""
    moment, weight = _balance(statistics, length, by_subject)
    return core(moment, length), core(weight, length)


def _balance(statistics: Statistics, length: int, by_subject: bool):
    """Let every subject count once (Algorithm 2) instead of by its squared amplitudes."""
    moment, weight, _ = statistics
    if not by_subject:
        return moment, weight
    total = core(weight, length).mean((2, 3), keepdims=True)
    share = 1 / jnp.where(total > 0, total, 1)
    # Amplitudes divide out of the moment once, out of the weight twice.
    return moment * jnp.sqrt(share) * jnp.sqrt(share), weight * share
