"""The compiled programs that fit and sum blocks of subjects, shared by all fits of a process."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from percdl.algorithm.settings import N_TRY_STEPS, FitOptions
from percdl.steps.centering import invert_warps, recenter_params
from percdl.steps.compilation import program
from percdl.steps.ipu import explained_energy, gauss_newton, solve_parts, total_price
from percdl.steps.joint import descend
from percdl.steps.polyak import polyak
from percdl.steps.realignment import best_window, search
from percdl.steps.statistics import at_shift, core
from percdl.steps.types import Statistics
from percdl.steps.windows import MOVES, prefer_windows
from percdl.transforms.base import ClosedFormTransform, Transform
from percdl.transforms.division import divide


class Prepared(NamedTuple):
    """Where the subjects of a block stand before IPU.

    The parameters of the round before, carried over to the new dictionary; what they explain
    with the old codes rescaled by ``amplitude``, less their price; and the share of the mean
    segments that they leave unexplained. ``misplaced`` subjects would rather have another window.
    """

    params: Float[Array, "S K M"]
    explained: Float[Array, "S K"]
    amplitude: Float[Array, "S K"]
    misfit: Float[Array, "S K"]
    misplaced: Bool[Array, "S K"]


class Fitted(NamedTuple):
    """The outcome of IPU: parameters, what they explain less their price, personal atoms."""

    params: Float[Array, "S K M"]
    explained: Float[Array, "S K"]
    price: Float[Array, "S K"]
    atoms: Float[Array, "S K L P"]


class Summary(NamedTuple):
    """What a block adds to the sums of PerCDU and of centering."""

    gram: Float[Array, "K G n n"]
    transported: Float[Array, "K L P"]
    copies: Float[Array, "K L P"]
    warp: Float[Array, "K C L"]
    squared_displacement: Float[Array, "K C L"]
    inverse_warp: Float[Array, "K C L"]
    mixing: Float[Array, "K M"]
    n_warps: Float[Array, " K"]
    price: Float[Array, " K"]
    votes: Float[Array, "K 3"]
    misfit: Float[Array, "K 2"]


@partial(program, static_argnames=("transform",))
def prepare(
    transform: Transform,
    dictionary: Array,
    statistics: Statistics,
    params: Array,
    gauge: Array,
    mixing_gauge: Array,
    recenters: Array,
) -> Prepared:
    """Carry the parameters of a block over to a new dictionary, and see how well they fit."""
    shape = length, n_channels = dictionary.shape[1:]

    def one_atom(inputs):
        atom, wide_moment, wide_weight, params, gauge, mixing_gauge = inputs
        moment, weight = core(wide_moment, length), core(wide_weight, length)
        if (part := transform.warp_part(*shape)) is not None:
            warp, at = part
            carry = partial(recenter_params, warp, gauge=gauge, n_channels=n_channels)
            carried = jax.lax.cond(recenters, carry, lambda a: a, params[:, at])
            params = params.at[:, at].set(carried)
        if (part := transform.channel_part(*shape)) is not None:
            mixer, at = part
            params = params.at[:, at].set(mixer.relative(params[:, at], mixing_gauge))
        params = solve_parts(transform, atom, moment, weight, params)
        explained, amplitude, _ = explained_energy(transform.apply(params, atom), moment, weight)
        profile = _segment_energy(wide_moment, wide_weight)
        energy = core(profile[..., None], length).sum((1, 2))
        misfit = 1 - divide(explained, energy)
        wish = prefer_windows(profile, (wide_weight > 0).all(-1), length)
        misplaced = wish[:, MOVES.index(0)] == 0
        return params, explained - total_price(transform, params), amplitude, misfit, misplaced

    arrays = (statistics.moment, statistics.weight, params)
    by_atom = [jnp.moveaxis(x, 1, 0) for x in arrays]
    results = jax.lax.map(one_atom, (dictionary, *by_atom, gauge, mixing_gauge))
    return Prepared(*(jnp.moveaxis(x, 0, 1) for x in results))


@partial(program, static_argnames=("transform", "align_first"))
def seek(
    transform: Transform,
    align_first: bool,
    atom: Array,
    moment: Array,
    weight: Array,
    start: tuple[Array, Array],
    shifts: Array,
) -> tuple[Array, Array]:
    """Look for better onsets, and a better start of the warps, of one atom in some subjects.

    Channels are unmixed first, as the parameters to start from say.
    """
    part = transform.warp_part(*atom.shape)
    assert part is not None
    (warp, at), (params, shift) = part, start
    unmixed = transform.unmix(params, moment)
    begin = params[:, at], shift
    found, moved = search(warp, atom, unmixed, weight, begin, shifts, align_first, N_TRY_STEPS)
    return params.at[:, at].set(found), moved


@partial(program, static_argnames=("transform", "options"))
def fit(
    transform: Transform,
    options: FitOptions,
    dictionary: Array,
    statistics: Statistics,
    params: Array,
    shift: Array,
) -> Fitted:
    """IPU of a block (Alg. 1, line 7), one atom after the other."""

    def one_atom(inputs):
        atom, moment, weight, params, shift = inputs
        if isinstance(transform, ClosedFormTransform):
            shift = best_window(transform, atom, moment, weight)
        at = [at_shift(x, shift, atom.shape[0]) for x in (moment, weight)]
        params, explained = _fit(transform, options, atom, at[0], at[1], params)
        return params, explained, total_price(transform, params), transform.apply(params, atom)

    arrays = (statistics.moment, statistics.weight, params, shift)
    results = jax.lax.map(one_atom, (dictionary, *(jnp.moveaxis(x, 1, 0) for x in arrays)))
    return Fitted(*(jnp.moveaxis(x, 0, 1) for x in results))


def _segment_energy(moment, weight):
    """Return the energy of the mean segments at each sample, all that any atom could explain."""
    return divide(moment**2, weight).sum(-1)


def _fit(transform, options: FitOptions, atom, moment, weight, params):
    """Solve IPU for one atom by the means that the transform and the options allow."""
    if isinstance(transform, ClosedFormTransform):
        seen = jnp.sum(weight, axis=(1, 2)) > 0
        params = jnp.where(seen[:, None], transform.solve(atom, moment, weight), params)
        explained = explained_energy(transform.apply(params, atom), moment, weight)[0]
        return params, explained - total_price(transform, params)
    params = solve_parts(transform, atom, moment, weight, params)
    solver = polyak if options.solver == "polyak" else gauss_newton
    return solver(transform, atom, moment, weight, params, options.n_steps)


@partial(program, static_argnames=("transform", "by_subject", "centres", "searches", "copy_steps"))
def summarize(
    transform: Transform,
    dictionary: Array,
    statistics: Statistics,
    params: Array,
    by_subject: bool,
    centres: bool,
    searches: bool,
    copy_steps: int,
) -> Summary:
    """Sum what the dictionary update needs, and centering and searching if there are any.

    That is the two sums of PerCDU or, with ``copy_steps`` of joint descent, the copies. Subjects
    without an atom count for nothing there.
    """
    shape = length, n_channels = dictionary.shape[1:]

    def one_atom(inputs):
        atom, wide_moment, wide_weight, params = inputs
        moment, weight = core(wide_moment, length), core(wide_weight, length)
        active = (jnp.sum(weight, axis=(1, 2)) > 0).astype(moment.dtype)
        nothing = jnp.zeros(0, moment.dtype)
        gram = transported = copies = nothing
        warp_sums, mixing = (nothing,) * 3, nothing
        if copy_steps:
            _, moved = descend(transform, atom, moment, weight, params, copy_steps)
            copies = jnp.einsum("s,slp->lp", active, moved)
        elif transform.shares_structure:
            gram, transported = transform.normal_equations(params, atom, moment, weight)
        if (part := transform.channel_part(*shape)) is not None and centres:
            mixing = active @ params[:, part[1]]
        if (part := transform.warp_part(*shape)) is not None:
            warp, at = part
            warps = warp.warp(params[:, at], length, n_channels)
            warp_sums = (jnp.einsum("s,scl->cl", active, warps), nothing, nothing)
            if centres:
                kinds = (warps, (warps - jnp.arange(length)) ** 2, invert_warps(warps))
                warp_sums = tuple(jnp.einsum("s,scl->cl", active, x) for x in kinds)
        votes = misfit = nothing
        if searches:
            explained = explained_energy(transform.apply(params, atom), moment, weight)[0].sum()
            profile = _segment_energy(wide_moment, wide_weight)
            votes = active @ prefer_windows(profile, (wide_weight > 0).all(-1), length)
            energy = core(profile[..., None], length).sum()
            misfit = jnp.stack([energy - explained, energy])
        price = active @ total_price(transform, params)
        return gram, transported, copies, *warp_sums, mixing, active.sum(), price, votes, misfit

    moment, weight = _balance(statistics, length, by_subject)
    by_atom = [jnp.moveaxis(x, 1, 0) for x in (moment, weight, params)]
    return Summary(*jax.lax.map(one_atom, (dictionary, *by_atom)))


@partial(program, static_argnames=("by_subject",))
def add_up(statistics: Statistics, dictionary: Array, by_subject: bool):
    """Sum the wide statistics for CDU: moment and weight of each atom."""
    moment, weight = _balance(statistics, dictionary.shape[1], by_subject)
    return moment.sum(0), weight.sum(0)


def _balance(statistics: Statistics, length: int, by_subject: bool):
    """Let every subject count once (Alg. 2, phase 1) instead of by its squared amplitudes."""
    moment, weight, _ = statistics
    if not by_subject:
        return moment, weight
    total = core(weight, length).mean((2, 3), keepdims=True)
    share = divide(jnp.ones_like(total), total)
    # Amplitudes divide out of the moment once, out of the weight twice.
    return moment * jnp.sqrt(share) * jnp.sqrt(share), weight * share
