"""The compiled programs that fit and sum blocks of subjects, shared by all fits of a process."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from percdl.algorithm.settings import (
    N_TRY_STEPS,
    PATIENCE,
    PATIENCE_MISPLACED,
    FitOptions,
    SumOptions,
)
from percdl.steps.centering import WarpMoments, recenter_params, sum_warps
from percdl.steps.compilation import program
from percdl.steps.ipu import (
    explained_energy,
    find_posterior,
    gauss_newton,
    polyak,
    solve_parts,
    total_price,
)
from percdl.steps.joint import descend
from percdl.steps.prior import Posterior, Prior, estimate_noise
from percdl.steps.realignment import best_window, search
from percdl.steps.statistics import at_shift, core
from percdl.steps.types import Statistics
from percdl.steps.windows import MOVES, prefer_windows
from percdl.transforms.base import ClosedFormTransform, Transform, WarpTransform, divide


class Prepared(NamedTuple):
    """The subjects of a block before IPU.

    The parameters of the previous round, adapted to the new dictionary; the energy that they
    explain with the old codes rescaled by ``amplitude``, minus their price; and the unexplained
    share of the mean segments. Another window fits ``misplaced`` subjects better. ``noise`` is
    the variance of a sample of the mean segments around the personal atoms.
    """

    params: Float[Array, "S K M"]
    explained: Float[Array, "S K"]
    price: Float[Array, "S K"]
    amplitude: Float[Array, "S K"]
    misfit: Float[Array, "S K"]
    misplaced: Bool[Array, "S K"]
    noise: Float[Array, "S K"]


class Fitted(NamedTuple):
    """The outcome of IPU: parameters, the energy they explain minus their price, personal atoms.

    ``prior`` is the part of the price due to the prior; the objective does not contain it.
    """

    params: Float[Array, "S K M"]
    explained: Float[Array, "S K"]
    price: Float[Array, "S K"]
    prior: Float[Array, "S K"]
    atoms: Float[Array, "S K L P"]


class Tally(NamedTuple):
    """The numbers that every round reports, per recording or summed over recordings.

    The objective after CSC, after IPU with the codes before, and if nothing were explained; the
    energy of the samples; the number of activations of each atom.
    """

    objective: Array
    objective_fitted: Array
    unexplained: Array
    energy: Array
    count: Array


class Summary(NamedTuple):
    """The sums of a block for PerCDU and centering."""

    gram: Float[Array, "K G n n"]
    transported: Float[Array, "K L P"]
    copies: Float[Array, "K L P"]
    warp: Float[Array, "K C L"]
    squared_displacement: Float[Array, "K C L"]
    inverse_warp: Float[Array, "K C L"]
    warp_sines: Float[Array, "K C L n"]
    squared_sines: Float[Array, "K C n"]
    warp_moment: Float[Array, "K C m m"]
    mixing: Float[Array, "K M"]
    n_warps: Float[Array, " K"]
    price: Float[Array, " K"]
    moment: Float[Array, "K Lw P"]
    weight: Float[Array, "K Lw Q"]
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
    precision: Array | None = None,
) -> Prepared:
    """Adapt the parameters of a block to a new dictionary, and measure how well they fit.

    The gauges are used if the dictionary was centred by them (``recenters``, ``remixes``).
    """
    shape = length, n_channels = dictionary.shape[1:]

    def one_atom(inputs):
        atom, wide_moment, wide_weight, params, gauge, mixing_gauge, precision = inputs
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
        prior, noise = None, jnp.zeros_like(energy)
        if precision is not None:
            prior = _prior(precision, energy, explained, weight, n_channels)
            noise = prior.noise
        wish = prefer_windows(profile, (wide_weight > 0).all(-1), length)
        misplaced = wish[:, MOVES.index(0)] == 0
        price = total_price(transform, params, atom, prior)
        return params, explained - price, price, amplitude, misfit, misplaced, noise

    arrays = (statistics.moment, statistics.weight, params)
    by_atom = [jnp.moveaxis(x, 1, 0) for x in arrays]
    results = jax.lax.map(one_atom, (dictionary, *by_atom, gauge, mixing_gauge, precision))
    return Prepared(*(jnp.moveaxis(x, 0, 1) for x in results))


def _prior(precision, energy, explained, weight, n_channels) -> Prior:
    """Return the prior, with the variance of the mean segments around the personal atoms."""
    n_seen = (weight > 0).sum((1, 2)) * (n_channels // weight.shape[2])
    return Prior(precision, estimate_noise(energy, explained, n_seen, precision.shape[-1]))


class Orders(NamedTuple):
    """The server's rule of which subjects to search, for each atom.

    ``move`` is the number of samples by which the window has moved. If ``everyone``, all subjects
    are searched, else those with an unexplained share of the mean segments above ``misfit``.
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
    precision: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Search better onsets, and a better start of the warps, for the subjects that need it.

    The search is the costly part of a round, and most subjects need it once: in the first
    personalization round, and after the window of an atom has moved. Later rounds search subjects
    whose mean segments are explained worse than the population's, until a search keeps their
    onsets, and subjects whose window cuts the pattern (`windows`), until five searches do. The
    rule compares with a number that the server broadcasts, so it does not depend on how subjects
    are split over sites. ``n_together`` subjects are searched at a time.

    Returns the parameters (S, K, M) and shifts (S, K) to start IPU from, and ``fruitless``
    (S, K), the number of consecutive searches that changed nothing.
    """

    def one_atom(inputs):
        (atom, moment, weight, params, explained, misfit, misplaced, noise, fruitless, order,
         shifts, precision) = inputs  # fmt: skip
        patience = jnp.where(misplaced, PATIENCE_MISPLACED, PATIENCE)
        unsettled = ((misfit > order.misfit) | misplaced) & (fruitless < patience)
        needed = (explained > 0) & (order.everyone | unsettled)
        shift = jnp.full(len(params), order.move, jnp.int32)
        begin = params, shift
        params, shift = _search_some(
            transform, align_first, n_together, atom, moment, weight, begin, needed, shifts,
            None if precision is None else Prior(precision, noise),
        )  # fmt: skip
        found_nothing = jnp.where(shift == order.move, fruitless + 1, 0)
        return params, shift, jnp.where(needed, found_nothing, fruitless)

    explained = prepared.explained + prepared.price
    arrays = (statistics.moment, statistics.weight, prepared.params, explained,
              prepared.misfit, prepared.misplaced, prepared.noise, fruitless)  # fmt: skip
    by_atom = (jnp.moveaxis(x, 1, 0) for x in arrays)
    results = jax.lax.map(one_atom, (dictionary, *by_atom, orders, shifts, precision))
    params, shift, fruitless = (jnp.moveaxis(x, 0, 1) for x in results)
    return params, shift, fruitless


def _search_some(
    transform, align_first, n_together, atom, moment, weight, start, needed, shifts, prior
) -> tuple[Array, Array]:
    """Search the subjects that need it, and leave the others unchanged.

    Channels are unmixed first with the initial parameters. To fill a group, the last subject is
    searched several times, with equal results.
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
        own = None if prior is None else prior._replace(noise=prior.noise[rows])
        found, moved = search(
            warp, atom, unmixed, weight[rows], begin, shifts, align_first, N_TRY_STEPS, own
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
    noise: Array | None = None,
    precision: Array | None = None,
) -> Fitted:
    """IPU of a block (Alg. 1, line 7), one atom after the other."""

    def one_atom(inputs):
        atom, moment, weight, params, shift, noise, precision = inputs
        prior = None if precision is None else Prior(precision, noise)
        if isinstance(transform, ClosedFormTransform):
            shift = best_window(transform, atom, moment, weight)
        at = [at_shift(x, shift, atom.shape[0]) for x in (moment, weight)]
        params, explained = _fit(transform, options, atom, at[0], at[1], params, prior)
        price = total_price(transform, params, atom, prior)
        charged = price - total_price(transform, params)
        return params, explained, price, charged, transform.apply(params, atom)

    arrays = (statistics.moment, statistics.weight, params, shift, noise)
    by_atom = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), arrays)
    results = jax.lax.map(one_atom, (dictionary, *by_atom, precision))
    return Fitted(*(jnp.moveaxis(x, 0, 1) for x in results))


def _segment_energy(moment, weight):
    """Return the energy of the mean segments at each sample, all that any atom could explain."""
    return divide(moment**2, weight).sum(-1)


def _fit(transform, options: FitOptions, atom, moment, weight, params, prior):
    """Solve IPU for one atom by the method that the transform and the options allow."""
    if isinstance(transform, ClosedFormTransform):
        seen = jnp.sum(weight, axis=(1, 2)) > 0
        params = jnp.where(seen[:, None], transform.solve(atom, moment, weight), params)
        explained = explained_energy(transform.apply(params, atom), moment, weight)[0]
        return params, explained - total_price(transform, params)
    params = solve_parts(transform, atom, moment, weight, params)
    if options.solver == "polyak":
        return polyak(transform, atom, moment, weight, params, options.n_steps)
    return gauss_newton(transform, atom, moment, weight, params, options.n_steps, prior=prior)


def summarize(
    transform: Transform,
    options: SumOptions,
    dictionary: Array,
    statistics: Statistics,
    params: Array,
    precision: Array | None = None,
) -> Summary:
    """Return the sums for the dictionary update and, if enabled, for centering and searching.

    These are the two sums of PerCDU or, with steps of joint descent, the copies. Subjects without
    an atom do not count there.
    """
    shape = length, n_channels = dictionary.shape[1:]

    def one_atom(inputs):
        atom, wide_moment, wide_weight, params, precision = inputs
        moment, weight = core(wide_moment, length), core(wide_weight, length)
        active = (jnp.sum(weight, axis=(1, 2)) > 0).astype(moment.dtype)
        nothing = jnp.zeros(0, moment.dtype)
        gram = transported = copies = warp_moment = mixing = nothing
        of_warps = WarpMoments(*(nothing,) * 5)
        explained = explained_energy(transform.apply(params, atom), moment, weight)[0]
        profile = _segment_energy(wide_moment, wide_weight)
        energy = core(profile[..., None], length).sum((1, 2))
        variance = None
        if (part := transform.warp_part(*shape)) is not None:
            warp, at = part
            warps = warp.warp(params[:, at], length, n_channels)
            of_warps = of_warps._replace(warp=jnp.einsum("s,scl->cl", active, warps))
            if options.centres:
                of_warps = sum_warps(warps, active)
            if precision is not None:
                prior = _prior(precision, energy, explained, weight, n_channels)
                unmixed = transform.unmix(params, moment)
                known = find_posterior(warp, atom, unmixed, weight, params[:, at], prior)
                variance, warp_moment = _sum_posterior(known, active, precision)
        if options.copy_steps:
            _, moved = descend(transform, atom, moment, weight, params, options.copy_steps)
            copies = jnp.einsum("s,slp->lp", active, moved)
        elif transform.shares_structure:
            extra = () if variance is None else (variance,)
            gram, transported = transform.normal_equations(params, atom, moment, weight, *extra)
        if (part := transform.channel_part(*shape)) is not None and options.centres:
            mixing = active @ params[:, part[1]]
        wide = (nothing, nothing)
        misfit = nothing
        if options.searches:
            wide = wide_moment.sum(0), wide_weight.sum(0)
            misfit = jnp.stack([(energy - explained).sum(), energy.sum()])
        price = active @ total_price(transform, params)
        return (
            gram, transported, copies, *of_warps, warp_moment, mixing, active.sum(), price, *wide,
            misfit,
        )  # fmt: skip

    moment, weight = _balance(statistics, length, options.by_subject)
    by_atom = [jnp.moveaxis(x, 1, 0) for x in (moment, weight, params)]
    return Summary(*jax.lax.map(one_atom, (dictionary, *by_atom, precision)))


def _sum_posterior(known: Posterior, active: Array, precision: Array) -> tuple[Array, Array]:
    """Return the variance of each warp in time, and the sum of the second moments.

    Without a prior, as in the first round, the variance is zero.
    """
    counts = (active > 0) & jnp.any(precision != 0)
    variance = jnp.where(counts[:, None, None], known.variance, 0)
    spread = jnp.where(counts[:, None, None, None], known.covariance, 0).sum(0)
    return variance, jnp.einsum("s,scm,scn->cmn", active, known.mean, known.mean) + spread


@partial(program, static_argnames=("transform", "options"))
def add_personal(
    transform: Transform,
    options: SumOptions,
    dictionary: Array,
    statistics: Statistics,
    params: Array,
    tally: Tally,
    precision: Array | None = None,
) -> tuple[Summary, Tally]:
    """Sum a block for PerCDU, centering and searching, in double precision; see `summarize`."""
    dictionary, statistics, params, tally, precision = _in_double(
        (dictionary, statistics, params, tally, precision)
    )
    summary = summarize(transform, options, dictionary, statistics, params, precision)
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
    """Return terms in double precision, for any precision of the fit.

    The grouping of subjects then changes sums by far less than the rounding of the dictionary, so
    a fit in single precision is the same for chunks of any size.
    """
    return jax.tree.map(lambda term: term.astype(float), terms)


def _add_tally(tally: Tally) -> Tally:
    return Tally(*(term.sum(0) for term in tally))


@partial(program, static_argnames=("transform", "n_rows"))
def neutral_params(transform: Transform, n_rows: int, dictionary: Array) -> Array:
    """Return neutral parameters (n_rows, K, M), which do not change the atoms."""
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
