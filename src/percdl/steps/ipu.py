"""IPU: the individual parameters update (Alg. 1, line 7), on the two sufficient statistics."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from percdl.steps.compilation import is_on_cpu
from percdl.steps.prior import (
    Posterior,
    Prior,
    coordinates,
    prior_price,
    sine_projection,
    sine_table,
)
from percdl.steps.types import pick
from percdl.transforms.base import Atom, Point, Transform, WarpTransform, divide

# Levenberg-Marquardt damping, relative to the mean curvature: its start, its growth after a
# refused step and its decay after an accepted one.
DAMPING_START, DAMPING_UP, DAMPING_DOWN = 1e-2, 6.0, 0.2
DAMPING_RANGE = (1e-6, 1e4)
# Maximum Polyak step. The paper replaces the unknown infimum by zero; on noisy data the true
# minimum is positive, and the Polyak step overshoots.
MAX_POLYAK_STEP = 1.0


class Quadratic(NamedTuple):
    """The quadratic model of a fit that a Gauss-Newton step minimizes, one system per warp."""

    curvature: Float[Array, "B C m m"]
    pull: Float[Array, "B C m"]
    coupling: Float[Array, "B C m"]
    power: Float[Array, " B"]


def explained_energy(
    atoms: Float[Array, "*batch L P"],
    moment: Float[Array, "*batch L P"],
    weight: Float[Array, "*batch L Q"],
) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"], Float[Array, "*batch"]]:
    """Return the energy that ``atoms`` explain at their best common amplitude c, c, and <w, g^2>.

    ``max over c >= 0 of 2 c <m, g> - c^2 <w, g^2> = max(<m, g>, 0)^2 / <w, g^2>``.
    """
    match = jnp.sum(moment * atoms, axis=(-2, -1))
    power = jnp.sum(weight * atoms**2, axis=(-2, -1))
    amplitude = divide(jnp.maximum(match, 0), power)
    return amplitude * match, amplitude, power


def total_price(
    transform: Transform,
    params: Float[Array, "*batch M"],
    atom: Atom | None = None,
    prior: Prior | None = None,
) -> Float[Array, "*batch"]:
    """Return the price of the parameters: zero for most transforms without a prior."""
    price = transform.price(params)
    total = jnp.zeros(params.shape[:-1], params.dtype) if price is None else price
    if prior is None or atom is None:
        return total
    c = coordinates(_warps_of(transform, params, atom), prior.precision.shape[-1])
    return total + prior_price(prior, c)


def _warps_of(transform: Transform, params: Float[Array, "*batch M"], atom: Atom):
    """Return the warps (..., C, L) of a transform that has a part that warps time."""
    part = transform.warp_part(*atom.shape)
    assert part is not None
    warp, at = part
    return warp.warp(params[..., at], *atom.shape)


def _expect(transform, fit: Quadratic, best, basis, turn, atom, prior: Prior) -> Quadratic:
    """Add the prior on the warps to the model of a fit."""
    m = prior.precision.shape[-1]
    if isinstance(transform, WarpTransform):
        table = jnp.asarray(sine_projection(atom.shape[0], m), fit.pull.dtype)
        slopes = jnp.einsum("bcml,jl->bcmj", basis, table)
    else:

        def moved(step, params):
            step = transform.step(params, step[None], turn)
            return coordinates(_warps_of(transform, step, atom), m)

        still = jnp.zeros(fit.pull.shape[-1], fit.pull.dtype)
        slopes = jnp.moveaxis(jax.vmap(jax.jacfwd(moved), (None, 0))(still, best.params), -1, -2)
    noise = prior.noise[:, None, None, None]
    weighed = jnp.einsum("bcmj,cij->bcmi", slopes, prior.precision) * noise
    bend = jnp.einsum("bcmi,bcni->bcmn", weighed, slopes)
    slope = jnp.einsum("bcmi,bci->bcm", weighed, best.coordinates)
    if bend.shape[1] != fit.curvature.shape[1]:  # all warps are in one system
        bend, slope = bend.sum(1, keepdims=True), slope.sum(1, keepdims=True)
    return fit._replace(curvature=fit.curvature + bend, pull=fit.pull - slope)


def find_posterior(
    transform: WarpTransform, atom: Atom, moment, weight, params, prior: Prior
) -> Posterior:
    """Return the Gaussian approximation of the posterior of the warps, at their fit.

    The curvature is that of Gauss-Newton, for displacements by sines instead of steps of the
    parameters, which are redundant. Cost O(B L m^2 + B m^3).
    """
    m = prior.precision.shape[-1]
    mean = coordinates(transform.warp(params, *atom.shape), m)
    table = jnp.asarray(sine_table(atom.shape[0], m), params.dtype)
    point = transform.evaluate(params, atom)
    basis = jnp.broadcast_to(table, (*mean.shape[:2], *table.shape))
    fit = _linearize(point, basis, moment, weight)
    lost = fit.coupling[..., :, None] * fit.coupling[..., None, :]
    known = fit.curvature - divide(
        lost, jnp.broadcast_to(fit.power[:, None, None, None], lost.shape)
    )
    noise = jnp.maximum(prior.noise, jnp.finfo(params.dtype).tiny)[:, None, None, None]
    eye = jnp.broadcast_to(jnp.eye(len(table), dtype=params.dtype), known.shape)
    ridge = 1e-12 * jnp.trace(known, axis1=-2, axis2=-1)[..., None, None] + noise * 1e-9
    system = known + noise * prior.precision + ridge * eye
    covariance = noise * solve_positive(system, eye)
    variance = jnp.einsum("jl,bcjk,kl->bcl", table, covariance, table)
    return Posterior(mean, covariance, variance)


def solve_parts(
    transform: Transform,
    atom: Atom,
    moment: Float[Array, "B L P"],
    weight: Float[Array, "B L Q"],
    params: Float[Array, "B M"],
) -> Float[Array, "B M"]:
    """Solve the parts of a transform that have a closed form, wherever that explains more."""
    solved = transform.solve_parts(params, atom, moment, weight)
    if solved is params:  # there are no such parts
        return params
    trial = transform.project(solved)
    reached, explained = (
        explained_energy(transform.apply(a, atom), moment, weight)[0] for a in (trial, params)
    )
    return jnp.where((reached > explained)[:, None], trial, params)


def gauss_newton(
    transform: Transform,
    atom: Atom,
    moment: Float[Array, "B L P"],
    weight: Float[Array, "B L Q"],
    params: Float[Array, "B M"],
    n_steps: int,
    tolerance: float = 1e-6,
    prior: Prior | None = None,
) -> tuple[Float[Array, "B M"], Float[Array, " B"]]:
    """Fit the parameters of B subjects at once; return them and the energy they explain.

    Minimizes ``<w, (c g)^2> - 2 <m, c g>``, ``g = f(atom, a)``, over ``a`` in Theta and the
    common amplitude c >= 0, which is profiled out (variable projection). Each iteration is a
    damped Gauss-Newton step projected onto Theta and kept only if it explains more, so the
    result is never worse than the start. The price of the parameters is subtracted from the
    energy they explain. A subject stops once its relative gain is below ``tolerance``. Cost
    O(B L M^2) per iteration, independent of N.
    """
    reach = partial(_reach, transform, atom, moment, weight, prior)

    def judge(state):
        turn, trial, best, damping, active = state
        reached = reach(trial)
        better = active & ((turn == 0) | (reached.explained > best.explained))
        settled = better & (reached.explained <= (1 + tolerance) * best.explained) & (turn > 0)
        best = pick(better, reached, best)
        factor = jnp.where(better, DAMPING_DOWN, DAMPING_UP)
        damping = jnp.where(turn == 0, damping, jnp.clip(damping * factor, *DAMPING_RANGE))
        # A refused step only raises the damping. Each subject stops by itself, so the
        # result does not depend on the other subjects.
        return turn, trial, best, damping, active & ~settled

    def propose(turn, best, damping):
        basis = transform.directions(best.point, turn)
        model = _linearize(best.point, basis, moment, weight)
        model = _charge(transform, model, best.params, turn)
        if prior is not None:
            model = _expect(transform, model, best, basis, turn, atom, prior)
        return transform.project(transform.step(best.params, _step(model, damping), turn))

    def judge_and_propose(state):
        turn, trial, best, damping, active = judge(state)
        goes_on = (turn < n_steps) & jnp.any(active)
        proposed = partial(propose, turn, best, damping)
        return turn + 1, jax.lax.cond(goes_on, proposed, lambda: trial), best, damping, active

    def propose_and_judge(_, state):
        turn, _, best, damping, active = state
        return judge((turn + 1, propose(turn, best, damping), best, damping, active))

    def unfinished(state):
        turn, *_, active = state
        return (turn <= n_steps) & jnp.any(active)

    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(reach, params))
    damping = jnp.full(moment.shape[0], DAMPING_START, moment.dtype)
    state = (0, params, nothing, damping, jnp.ones(moment.shape[0], bool))
    if is_on_cpu():  # the start is the first trial: each step is traced, and compiled, once
        _, _, best, _, _ = jax.lax.while_loop(unfinished, judge_and_propose, state)
    else:  # asking an accelerator in each turn whether to continue would wait for it
        _, _, best, _, _ = jax.lax.fori_loop(0, n_steps, propose_and_judge, judge(state))
    return best.params, best.explained


class _Reached(NamedTuple):
    """Parameters, the personal atoms there, and the energy they explain less their price.

    With a prior, also the coordinates of the warps.
    """

    params: Float[Array, "B M"]
    point: Point
    explained: Float[Array, " B"]
    coordinates: Float[Array, "B C m"] | None


def _reach(transform: Transform, atom: Atom, moment, weight, prior, params) -> _Reached:
    point = transform.evaluate(params, atom)
    explained = explained_energy(point.value, moment, weight)[0]
    explained -= total_price(transform, params)
    if prior is None:
        return _Reached(params, point, explained, None)
    warps = _warps_of(transform, params, atom) if point.warps is None else point.warps
    c = coordinates(warps, prior.precision.shape[-1])
    return _Reached(params, point, explained - prior_price(prior, c), c)


def _linearize(point: Point, basis, moment, weight) -> Quadratic:
    """Linearize the personal atoms and form the normal equations of each warp."""
    value, slope = point.value, point.slope
    if basis.shape[-1] != value.shape[-2]:  # directions of entries: as if of a single channel
        weight = jnp.broadcast_to(weight, moment.shape)
        value, slope, moment, weight = (
            x.reshape(x.shape[0], -1, 1) for x in (value, slope, moment, weight)
        )
    _, amplitude, power = explained_energy(value, moment, weight)
    c = amplitude[:, None, None]
    n_warps = basis.shape[1]
    force = _per_warp(c * (moment - c * weight * value) * slope, n_warps)
    leak = _per_warp(c * weight * value * slope, n_warps)
    root = jnp.sqrt(_per_warp(c**2 * weight * slope**2, n_warps))
    # Scaled by the root of the stiffness once, the basis serves all three products; where
    # the stiffness is zero so are force and leak.
    inverse = divide(jnp.ones_like(root), root)
    scaled = basis * root[..., None, :]
    sides = jnp.stack([force * inverse, leak * inverse], axis=2)
    pull, coupling = jnp.moveaxis(jnp.einsum("bcrl,bcml->bcrm", sides, scaled), 2, 0)
    return Quadratic(jnp.einsum("bcml,bcnl->bcmn", scaled, scaled), pull, coupling, power)


def _charge(transform: Transform, fit: Quadratic, params, turn) -> Quadratic:
    """Add the price of the parameters, quadratic or nearly so, to the model of a fit.

    Prices of different warps are not coupled, like their systems.
    """
    if transform.price(params) is None:
        return fit
    n_warps, size = fit.pull.shape[1:]
    still = jnp.zeros((n_warps, size), params.dtype)

    def price(step, params):
        return total_price(transform, transform.step(params, step, turn))

    slope = jax.vmap(jax.grad(price), (None, 0))(still, params)
    bend = jax.vmap(jax.hessian(price), (None, 0))(still, params)
    own = jnp.einsum("bcmcn->bcmn", bend)
    return fit._replace(curvature=fit.curvature + own / 2, pull=fit.pull - slope / 2)


def _per_warp(x: Float[Array, "B L P"], n_warps: int) -> Float[Array, "B C L"]:
    """Add up the channels that share a warp."""
    if n_warps == 1:
        return x.sum(-1)[:, None]
    return jnp.swapaxes(x, 1, 2)


def _step(fit: Quadratic, damping: Float[Array, " B"]) -> Float[Array, "B C m"]:
    """Solve ``(H - u u^T / power + damping) step = pull``.

    The rank-one term is what profiling out the amplitude leaves; Sherman-Morrison keeps the
    warps of different channels in separate small systems.
    """
    size = fit.curvature.shape[-1]
    scale = jnp.trace(fit.curvature, axis1=-2, axis2=-1).mean(-1) / size
    ridge = (damping * scale)[:, None, None, None]
    system = fit.curvature + ridge * jnp.eye(size, dtype=damping.dtype)
    solved = solve_positive(system, jnp.stack([fit.pull, fit.coupling], axis=-1))
    direct, coupled = solved[..., 0], solved[..., 1]
    gap = fit.power - jnp.sum(fit.coupling * coupled, axis=(1, 2))
    lift = divide(jnp.sum(fit.coupling * direct, axis=(1, 2)), gap)
    step = direct + lift[:, None, None] * coupled
    # A subject without activations has no curvature, and no solution; it stays where it is.
    return jnp.where(jnp.isfinite(step), step, 0)


def solve_positive(
    system: Float[Array, "*batch m m"], right: Float[Array, "*batch m r"]
) -> Float[Array, "*batch m r"]:
    """Solve a batch of symmetric positive definite systems; NaN where one is not.

    By elimination in all systems at once. LAPACK and its like on accelerators take small systems
    one by one, and on a CPU programs with LAPACK cannot run side by side (`compilation`). An
    accelerator, which reads all systems in every turn, eliminates four unknowns per turn.
    """
    width = 1 if is_on_cpu() else 4
    size, n_more = system.shape[-1], -system.shape[-1] % width
    rows = jnp.concatenate([system, right], -1)
    rows = jnp.moveaxis(rows.reshape(-1, *rows.shape[-2:]), 0, -1)
    if n_more:  # unknowns that are zero
        rows = jnp.pad(rows, ((0, n_more), (n_more, 0), (0, 0)))
        more = jnp.eye(n_more, rows.shape[1], dtype=rows.dtype)[..., None]
        rows = jnp.concatenate([rows[size:] + more, rows[:size]])
    solved = _eliminate(rows, width)[n_more:]
    return jnp.moveaxis(solved, -1, 0).reshape(right.shape)


def _eliminate(rows: Float[Array, "m n B"], width: int) -> Float[Array, "m r B"]:
    """Solve systems that are followed by their right sides, the first half of the unknowns first.

    Each turn of a loop eliminates ``width`` unknowns, and the second half has fewer entries to
    change.
    """
    size = len(rows)
    half = size if size <= 8 else -(-size // (2 * width)) * width
    turn_of_row = jnp.arange(size)[:, None, None] // width

    def eliminate(turn, rows):
        first = turn * width
        row = jax.lax.dynamic_slice_in_dim(rows, first, width, 0)
        column = jax.lax.dynamic_slice_in_dim(rows, first, width, 1)
        pivot = jax.lax.dynamic_slice_in_dim(row, first, width, 1)
        others = jnp.where(turn_of_row == turn, 0, column)
        return rows - _multiply(others, _multiply(_invert(pivot), row))

    rows = jax.lax.fori_loop(0, half // width, eliminate, rows, unroll=2)
    blocks = rows[:half].reshape(half // width, width, -1, rows.shape[-1])
    pivots = blocks[:, :, :half].reshape(*blocks.shape[:2], -1, width, rows.shape[-1])
    pivots = jnp.diagonal(pivots, axis1=0, axis2=2).transpose(0, 1, 3, 2)
    first = _multiply(_invert(pivots), blocks[:, :, half:].swapaxes(0, 1))
    first = first.swapaxes(0, 1).reshape(half, -1, rows.shape[-1])
    if half == size:
        return first
    second = _eliminate(rows[half:, half:], width)
    coupled = jnp.sum(first[:, : size - half, None] * second, axis=1)
    return jnp.concatenate([first[:, size - half :] - coupled, second])


def _multiply(
    left: Float[Array, "m w *turns B"], right: Float[Array, "w *turns n B"]
) -> Float[Array, "m *turns n B"]:
    """Multiply many small matrices, with the sum written out."""
    return sum(left[:, i, ..., None, :] * right[i] for i in range(len(right)))  # pyright: ignore


def _invert(matrix: Float[Array, "w w *turns B"]) -> Float[Array, "w w *turns B"]:
    """Invert many small positive definite matrices, entry by entry; NaN where one is not."""
    x = [[*row] for row in matrix]
    for k in range(len(x)):
        inverse = 1 / jnp.where(x[k][k] > 0, x[k][k], jnp.nan)
        row = [entry * inverse for entry in x[k]]
        row[k] = inverse
        x = [
            row if i == k
            else [-own[k] * row[j] + (own[j] if j != k else 0) for j in range(len(x))]
            for i, own in enumerate(x)
        ]  # fmt: skip
    return jnp.stack([jnp.stack(row) for row in x])


def polyak(
    transform: Transform,
    atom: Atom,
    moment: Float[Array, "B L P"],
    weight: Float[Array, "B L Q"],
    params: Float[Array, "B M"],
    n_steps: int,
) -> tuple[Float[Array, "B M"], Float[Array, " B"]]:
    """Fit as the paper does: Polyak steps, projected onto Theta (Section 2.3).

    Minimizes the unexplained share of the subject's segment energy, with an assumed infimum of 0.
    Returns the best parameters of all steps. Cost O(L M) per step and subject.
    """

    def fit_one(moment, weight, params):
        mean_energy = jnp.sum(divide(moment**2, weight))
        scale = jnp.where(mean_energy > 0, mean_energy, 1)

        def unexplained(params):
            explained = explained_energy(transform.apply(params, atom), moment, weight)[0]
            return 1 - (explained - total_price(transform, params)) / scale

        solver = optax.polyak_sgd(max_learning_rate=MAX_POLYAK_STEP)

        def advance(carry, _):
            params, state, best, lowest = carry
            value, gradient = jax.value_and_grad(unexplained)(params)
            better = value < lowest
            best = jnp.where(better, params, best)
            updates, state = solver.update(gradient, state, params, value=value)
            params = transform.project(jnp.asarray(optax.apply_updates(params, updates)))
            return (params, state, best, jnp.minimum(value, lowest)), None

        start = (params, solver.init(params), params, unexplained(params))
        (_, _, best, lowest), _ = jax.lax.scan(advance, start, length=n_steps)
        return best, (1 - lowest) * scale

    return jax.vmap(fit_one)(moment, weight, params)
