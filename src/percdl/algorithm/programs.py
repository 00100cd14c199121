"""The compiled programs that fit and sum blocks of subjects, shared by all fits of a process."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from percdl.algorithm.settings import N_TRY_STEPS, PATIENCE, PATIENCE_MISPLACED, FitOptions
from percdl.steps.centering import invert_warps, recenter_params
from percdl.steps.compilation import program
from percdl.steps.ipu import explained_energy, gauss_newton, polyak, solve_parts, total_price
from percdl.steps.joint import descend
from percdl.steps.realignment import best_window, search
from percdl.steps.statistics import at_shift, core
from percdl.steps.types import Statistics
from percdl.steps.windows import MOVES, prefer_windows
from percdl.transforms.base import ClosedFormTransform, Transform, WarpTransform, divide


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


class Tally(NamedTuple):
    """What every round reports, of each recording, or summed over recordings.

    The objective after CSC, after IPU with the codes before, and if nothing were explained; the
    energy of the samples; the number of activations of each atom.
    """

    objective: Array
    objective_fitted: Array
    unexplained: Array
    energy: Array
    count: Array


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
    remixes: Array,
) -> Prepared:
    """Carry the parameters of a block over to a new dictionary, and see how well they fit.

    The gauges count where the dictionary was centred by them (``recenters``, ``remixes``).
    """
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
            carry = partial(mixer.relative, gauge=mixing_gauge)
            carried = jax.lax.cond(remixes, carry, lambda a: a, params[:, at])
            params = params.at[:, at].set(carried)
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


class Orders(NamedTuple):
    """Whom to search, as the server says, for each atom.

    ``move`` says by how many samples the window has moved; ``everyone`` whether all subjects are
    searched, or only those whose mean segments are explained worse than ``misfit``, a share.
    """

    move: Int[Array, " K"]
    everyone: Bool[Array, " K"]
    misfit: Float[Array, " K"]


@partial(program, static_argnames=("transform", "align_first", "n_together"))
def seek(
    transform: Transform,
    align_first: bool,
    n_together: int,
    dictionary: Array,
    statistics: Statistics,
    prepared: Prepared,
    fruitless: Array,
    orders: Orders,
    shifts: Array,
) -> tuple[Array, Array, Array]:
    """Look for better onsets, and a better start of the warps, of the subjects that need it.

    The search is the costly part of a round, and most subjects need it once: in the first
    personalization round, and after the window of an atom has moved. Later, a subject is
    searched whose mean segments are explained worse than the population's, until a search has
    kept its onsets, and one whose window cuts the pattern (`windows`), until five have. The
    rule compares with a number that the server broadcasts, so it does not depend on how subjects
    are split over sites. They are searched ``n_together`` at a time.

    Returns the parameters (S, K, M) and shifts (S, K) to start IPU from, and ``fruitless``
    (S, K), how many searches in a row have changed nothing.
    """

    def one_atom(inputs):
        atom, moment, weight, params, explained, misfit, misplaced, fruitless, order = inputs
        patience = jnp.where(misplaced, PATIENCE_MISPLACED, PATIENCE)
        unsettled = ((misfit > order.misfit) | misplaced) & (fruitless < patience)
        needed = (explained > 0) & (order.everyone | unsettled)
        shift = jnp.full(len(params), order.move, jnp.int32)
        begin = params, shift
        params, shift = _search_some(
            transform, align_first, n_together, atom, moment, weight, begin, needed, shifts
        )
        found_nothing = jnp.where(shift == order.move, fruitless + 1, 0)
        return params, shift, jnp.where(needed, found_nothing, fruitless)

    arrays = (statistics.moment, statistics.weight, prepared.params, prepared.explained,
              prepared.misfit, prepared.misplaced, fruitless)  # fmt: skip
    by_atom = (jnp.moveaxis(x, 1, 0) for x in arrays)
    results = jax.lax.map(one_atom, (dictionary, *by_atom, orders))
    params, shift, fruitless = (jnp.moveaxis(x, 0, 1) for x in results)
    return params, shift, fruitless


def _search_some(
    transform, align_first, n_together, atom, moment, weight, start, needed, shifts
) -> tuple[Array, Array]:
    """Search the subjects that need it, and leave the others where they are.

    Channels are unmixed first, as the parameters to start from say. The last subject is
    searched several times where it takes that to fill a group; the results are equal.
    """
    part = transform.warp_part(*atom.shape)
    assert part is not None
    warp, at = part
    n_needed = jnp.sum(needed)
    everybody = jnp.arange(len(needed))
    rank = jnp.where(needed, jnp.cumsum(needed) - 1, len(needed))
    order = jnp.zeros_like(everybody).at[rank].set(everybody, mode="drop")

    def search_group(index, state):
        params, shift = state
        places = jnp.minimum(index * n_together + jnp.arange(n_together), n_needed - 1)
        rows = order[places]
        unmixed = transform.unmix(params[rows], moment[rows])
        begin = params[rows][:, at], shift[rows]
        found, moved = search(
            warp, atom, unmixed, weight[rows], begin, shifts, align_first, N_TRY_STEPS
        )
        return params.at[rows].set(params[rows].at[:, at].set(found)), shift.at[rows].set(moved)

    n_groups = (n_needed + n_together - 1) // n_together
    return jax.lax.fori_loop(0, n_groups, search_group, start)


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


@partial(program, static_argnames=("transform", "by_subject", "centres", "searches", "copy_steps"))
def add_personal(
    transform: Transform,
    dictionary: Array,
    statistics: Statistics,
    params: Array,
    tally: Tally,
    by_subject: bool,
    centres: bool,
    searches: bool,
    copy_steps: int,
) -> tuple[Summary, Tally]:
    """Sum a block for PerCDU, centering and searching, in double precision; see `summarize`."""
    dictionary, statistics, params, tally = _in_double((dictionary, statistics, params, tally))
    summary = summarize(
        transform, dictionary, statistics, params, by_subject, centres, searches, copy_steps
    )
    total, price = _add_tally(tally), summary.price.sum()
    return summary, total._replace(
        objective=total.objective + price, unexplained=total.unexplained + price
    )


@partial(program, static_argnames=("by_subject",))
def add_population(
    statistics: Statistics, dictionary: Array, tally: Tally, by_subject: bool
) -> tuple[Array, Array, Tally]:
    """Sum a block for CDU, in double precision: wide moments and weights of each atom."""
    statistics, tally = _in_double((statistics, tally))
    return *add_up(statistics, dictionary, by_subject), _add_tally(tally)


def add_up(statistics: Statistics, dictionary: Array, by_subject: bool) -> tuple[Array, Array]:
    """Sum the wide statistics for CDU: moment and weight of each atom."""
    moment, weight = _balance(statistics, dictionary.shape[1], by_subject)
    return moment.sum(0), weight.sum(0)


def _in_double(terms):
    """Return terms in double precision, whatever the fit is in.

    Sums then do not depend on how subjects are grouped, to far less than the next dictionary is
    rounded by: a fit in single precision is the same for chunks of any size.
    """
    return jax.tree.map(lambda term: term.astype(float), terms)


def _add_tally(tally: Tally) -> Tally:
    return Tally(*(term.sum(0) for term in tally))


@partial(program, static_argnames=("transform", "n_rows"))
def neutral_params(transform: Transform, n_rows: int, dictionary: Array) -> Array:
    """Return parameters (n_rows, K, M) that leave the atoms as they are."""
    start = jax.lax.map(transform.neutral, dictionary)
    return jnp.broadcast_to(start, (n_rows, *start.shape))


@partial(program, static_argnames=("transform",))
def apply_params(transform: Transform, params: Array, dictionary: Array) -> Array:
    """Return the personal atoms ``f(dictionary, params)`` (Eq. 2), array (S, K, L, P)."""
    return jax.vmap(transform.apply, (1, 0), 1)(params, dictionary)


@partial(program, static_argnames=("warp", "atom_length", "n_channels"))
def evaluate_warps(warp: WarpTransform, params: Array, atom_length: int, n_channels: int) -> Array:
    """Return psi at the sampling times, array (S, K, C, L), in samples."""
    return warp.warp(params, atom_length, n_channels)


@partial(program, static_argnames=("warp",))
def read_cycles(warp: WarpTransform, cycles: Array, at: Array) -> Array:
    """Return cycles (S, K, L, P) read at positions (S, K, C, L), as the warp reads atoms."""
    return jax.vmap(jax.vmap(warp.resample))(cycles, at)


def _balance(statistics: Statistics, length: int, by_subject: bool):
    """Let every subject count once (Alg. 2, phase 1) instead of by its squared amplitudes."""
    moment, weight, _ = statistics
    if not by_subject:
        return moment, weight
    total = core(weight, length).mean((2, 3), keepdims=True)
    share = divide(jnp.ones_like(total), total)
    # Amplitudes divide out of the moment once, out of the weight twice.
    return moment * jnp.sqrt(share) * jnp.sqrt(share), weight * share
