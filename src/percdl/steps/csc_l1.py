"""CSC with an l1 penalty, for activations that may overlap."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Complex, Float, Int

from percdl.steps.coders import L1Coder
from percdl.steps.types import Signals, pick
from percdl.transforms.base import divide

# Rounding hides a duality gap of this many units in the last place of the energy.
ROUNDING = 4
_DEFAULT = L1Coder()


class Problem(NamedTuple):
    """The problems of a chunk, with the spectra of recordings and atoms.

    ``values`` and ``weights`` (None means all one) have their samples last; activations are
    allowed at the positions ``inside``.
    """

    values: Float[Array, "S P N"]
    weights: Float[Array, "S Q N"] | None
    values_hat: Complex[Array, "S P F"]
    atoms_hat: Complex[Array, "S_or_1 K P F"]
    inside: Bool[Array, "S K V"]
    penalty: Float[Array, "S_or_1 1 1"]
    signed: bool


class Point(NamedTuple):
    """Activations and their objective.

    ``correlation`` is that of the residual with the atoms, half the gradient of the squared
    error. The objective exceeds the minimum by at most ``gap``, the duality gap.
    """

    activations: Float[Array, "S K V"]
    correlation: Float[Array, "S K V"]
    objective: Float[Array, " S"]
    gap: Float[Array, " S"]


class Search(NamedTuple):
    """State of FISTA: the last two points, its sequence t_n, the number of steps taken."""

    now: Point
    before: Point
    pace: Float[Array, " S"]
    n_done: Int[Array, ""]


def encode_l1(
    signals: Signals,
    atoms: Float[Array, "S_or_1 K L P"],
    penalty: Float[Array, "*S_or_none"],
    signed: bool = False,
    start: Float[Array, "S K V"] | None = None,
    n_steps: int | Int[Array, ""] = _DEFAULT.n_steps,
    tolerance: float | Float[Array, ""] = _DEFAULT.tolerance,
) -> tuple[Float[Array, "S K V"], Float[Array, " S"]]:
    """Return the activations that minimize the l1-penalized squared error, and their objective.

    Solves, per recording x, with its own or shared atoms,

    ``min over z of |x - sum_k z_k * phi_k|^2 + penalty |z|_1``

    over non-negative (or ``signed``) activations at the positions where the whole atom fits.
    Supports may overlap. The norm weights each sample by ``signals.observed``, in [0, 1], and
    ``signals.values`` are the samples times these weights; missing samples do not count.

    The method is FISTA (Beck and Teboulle, 2009), restarted if its momentum points uphill
    (O'Donoghue and Candes, 2015). A recording stops when the duality gap shows that its objective
    is minimal up to a share ``tolerance`` (or to rounding), so its result does not depend on the
    other recordings. Without a penalty the gap is useless and all steps are taken. For any number
    of steps, the objective does not exceed that of the start: a step never increases the
    objective plus half the curvature times the squared length of the last move (Chambolle and
    Dossal, 2015).

    ``penalty`` is for all recordings or per recording, see `largest_useful_penalty`; ``start``
    holds the initial activations, by default zero. At most ``n_steps`` steps are taken. Cost
    O(K N (P + log N)) per step, O((K + P) N log N + K P N) if samples are missing.
    """
    problem = _pose(signals, atoms, penalty, signed)
    step = partial(_step, problem, 1 / _curvature(problem.atoms_hat))
    nothing = jnp.zeros(problem.inside.shape, atoms.dtype)
    first = _look(problem, nothing if start is None else _allow(problem, start))
    rounding = ROUNDING * jnp.finfo(atoms.dtype).eps * _energy(problem, problem.values)

    def rests(point: Point):
        return point.gap <= tolerance * point.objective + rounding

    def goes_on(search: Search):
        return (search.n_done < n_steps) & ~jnp.all(rests(search.now))

    def advance(search: Search):
        now, before, pace = pick(rests(search.now), search[:3], step(search))
        return Search(now, before, pace, search.n_done + 1)

    search = Search(first, first, jnp.ones_like(first.gap), jnp.asarray(0))
    last = jax.lax.while_loop(goes_on, advance, search).now
    return last.activations, last.objective


def largest_useful_penalty(
    signals: Signals, atoms: Float[Array, "S_or_1 K L P"], signed: bool = False
) -> Float[Array, " S"]:
    """Return the smallest penalty at which all activations of a recording are zero.

    That is ``2 max <x[t:t+L], phi_k>`` over atoms and positions, in absolute value if ``signed``.
    """
    problem = _pose(signals, atoms, jnp.zeros(()), signed)
    return 2 * _steepest(problem, _correlate(problem, problem.values_hat))


def _pose(signals: Signals, atoms, penalty, signed: bool) -> Problem:
    """Compute everything that does not change between steps."""
    n_times, n_atoms, length = signals.values.shape[1], *atoms.shape[1:3]
    values = jnp.swapaxes(signals.values, 1, 2)
    seen = signals.observed
    positions = jnp.arange(n_times - length + 1)
    inside = positions <= signals.lengths[:, None, None] - length
    return Problem(
        values=values,
        weights=None if seen is None else jnp.swapaxes(seen, 1, 2),
        values_hat=jnp.fft.rfft(values),
        # At an allowed position an atom ends before the FFT wraps around, so no padding is needed.
        atoms_hat=jnp.fft.rfft(jnp.swapaxes(atoms, 2, 3), n_times),
        inside=jnp.broadcast_to(inside, (len(values), n_atoms, len(positions))),
        penalty=jnp.reshape(penalty, (-1, 1, 1)),
        signed=signed,
    )


def _curvature(atoms_hat: Complex[Array, "S_or_1 K P F"]) -> Float[Array, "S_or_1 K 1"]:
    """Return a bound of the curvature of the squared error, for the step size of each atom.

    The curvature is twice the Gram matrix ``G_kj = sum_p phi_kp conj(phi_jp)`` of the spectra, at
    each frequency, and a diagonal matrix of absolute row sums exceeds a Hermitian one. For one
    atom this is twice the largest squared spectral norm, exactly.
    """
    gram = jnp.einsum("skpf,sjpf->skjf", atoms_hat, jnp.conj(atoms_hat))
    largest = 2 * jnp.max(jnp.sum(jnp.abs(gram), axis=2), axis=2, keepdims=True)
    return jnp.where(largest > 0, largest, 1)


def _step(problem: Problem, rate: Float[Array, "S_or_1 K 1"], search: Search):
    """Return the next points and pace of FISTA; the momentum is reset if it points uphill.

    The correlation is linear in the activations, so momentum applies to it as well.
    """
    now, before, pace, _ = search
    next_pace = (1 + jnp.sqrt(1 + 4 * pace**2)) / 2
    momentum = ((pace - 1) / next_pace)[:, None, None]
    ahead = now.activations + momentum * (now.activations - before.activations)
    correlation = now.correlation + momentum * (now.correlation - before.correlation)
    moved = ahead + 2 * rate * correlation
    shrunk = jnp.sign(moved) * jnp.maximum(jnp.abs(moved) - rate * problem.penalty, 0)
    after = _look(problem, _allow(problem, shrunk))
    uphill = (ahead - after.activations) * (after.activations - now.activations) / rate
    next_pace = jnp.where(jnp.sum(uphill, axis=(1, 2)) > 0, 1, next_pace)
    return after, now, next_pace


def _allow(problem: Problem, activations: Float[Array, "S K V"]):
    """Set activations that are not allowed to zero."""
    allowed = activations if problem.signed else jnp.maximum(activations, 0)
    return jnp.where(problem.inside, allowed, 0)


def _look(problem: Problem, activations: Float[Array, "S K V"]) -> Point:
    """Return the point at some activations; one pass of convolutions and correlations."""
    residual_hat, error = _residual(problem, activations)
    correlation = _correlate(problem, residual_hat)
    objective = error + jnp.sum(problem.penalty * jnp.abs(activations), axis=(1, 2))
    gap = _duality_gap(problem, activations, correlation, error)
    return Point(activations, correlation, objective, gap)


def _residual(problem: Problem, activations: Float[Array, "S K V"]):
    """Return the spectrum of the weighted residual, and the weighted squared error."""
    n_times = problem.values.shape[2]
    activations_hat = jnp.fft.rfft(activations, n_times)
    fit_hat = jnp.sum(activations_hat[:, :, None] * problem.atoms_hat, axis=1)
    if problem.weights is None:
        residual_hat = problem.values_hat - fit_hat
        return residual_hat, _spectral_energy(residual_hat, n_times)
    residual = problem.values - problem.weights * jnp.fft.irfft(fit_hat, n_times)
    return jnp.fft.rfft(residual), _energy(problem, residual)


def _energy(problem: Problem, weighted: Float[Array, "S P N"]) -> Float[Array, " S"]:
    """Return the weighted energy of values that are already multiplied by the weights."""
    energy = weighted**2 if problem.weights is None else divide(weighted**2, problem.weights)
    return jnp.sum(energy, axis=(1, 2))


def _spectral_energy(x_hat: Complex[Array, "S P F"], n_times: int) -> Float[Array, " S"]:
    """Return the energy of real signals with these spectra (Parseval)."""
    frequency = jnp.arange(x_hat.shape[2])
    # All frequencies except zero and Nyquist count twice.
    multiplicity = jnp.where((frequency == 0) | (2 * frequency == n_times), 1, 2)
    power = jnp.real(x_hat) ** 2 + jnp.imag(x_hat) ** 2
    return jnp.sum(power * multiplicity, axis=(1, 2)) / n_times


def _correlate(problem: Problem, x_hat: Complex[Array, "S P F"]) -> Float[Array, "S K V"]:
    """Return ``<x[t:t+L], phi_k>`` at allowed positions, zero elsewhere."""
    n_times, n_positions = problem.values.shape[2], problem.inside.shape[2]
    product = jnp.sum(x_hat[:, None] * jnp.conj(problem.atoms_hat), axis=2)
    return jnp.where(problem.inside, jnp.fft.irfft(product, n_times)[..., :n_positions], 0)


def _steepest(problem: Problem, correlation: Float[Array, "S K V"]) -> Float[Array, " S"]:
    """Return the largest correlation that an allowed activation can use."""
    usable = jnp.abs(correlation) if problem.signed else correlation
    return jnp.max(usable, axis=(1, 2), initial=0)


def _duality_gap(problem: Problem, activations, correlation, error) -> Float[Array, " S"]:
    """Return the gap between the objective and the dual objective at a multiple of the residual.

    With the residual r scaled by c until ``2 c <r[t:t+L], phi_k> <= penalty``, the gap is
    ``(1 - c)^2 |r|^2 + sum(penalty |z| - 2 c z <r[t:t+L], phi_k>)``. No term is negative, so
    single precision suffices. Any c that is small enough gives a bound; this is the best.
    """
    penalty = jnp.squeeze(problem.penalty, (1, 2))
    steepest = _steepest(problem, correlation)
    most = jnp.where(steepest > 0, penalty / (2 * steepest), jnp.inf)
    explained = jnp.sum(activations * correlation, axis=(1, 2))
    c = jnp.clip(1 + divide(explained, error), 0, most)
    used = 2 * c[:, None, None] * activations * correlation
    slack = jnp.maximum(problem.penalty * jnp.abs(activations) - used, 0)
    return (1 - c) ** 2 * error + jnp.sum(slack, axis=(1, 2))
