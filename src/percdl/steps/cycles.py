"""Single cycles: gain, shift and small warp of each event, relative to its person.

A cycle e of a person with the personal atom g is

``y_e(t) = exp(gain_e) g(t - delay_e(t))``, ``delay_e(t) = b_0 + sum_j b_j sin(j pi t)``,

a displacement of the person's warp: ``psi_e(t) = psi_s(t - delay_e(t))``. The numbers of a cycle,
``own = (gain, b_0, b_1, ...)``, are Gaussian around those of the person, ``own ~ N(0, Lambda)``,
and Lambda is estimated from the cohort by EM (`estimate_price`). The noise of each cycle is the
mean square of its residual in each channel, so noisy cycles are shrunk more.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from percdl.signals.reconstruction import make_basis
from percdl.steps.baseline import solve_baselines
from percdl.steps.compilation import program
from percdl.steps.ipu import DAMPING_DOWN, DAMPING_RANGE, DAMPING_START, DAMPING_UP, solve_positive
from percdl.steps.prior import GUESS_WEIGHT, sine_table
from percdl.steps.types import Signals, pick
from percdl.transforms import interpolation as interp
from percdl.transforms.base import divide

# Bound on the slope of the delay, below one: a cycle never runs backwards.
STEEPEST = 0.9
# Steps of Gauss-Newton of a cycle, and between two estimates of the price.
N_STEPS, N_STEPS_EM = 8, 2
N_ROUNDS_EM = 16
# First guess of the standard deviations: of the log gain, and of a displacement in durations.
FIRST_GAIN, FIRST_DELAY = 0.2, 0.02
# Degrees of freedom of the t-distribution that weighs cycles in the price.
FREEDOM = 8.0
# Units of rounding by which a cost may rise. Near the minimum, rounding would otherwise decide on
# steps as large as its square root, and equal models would give results that differ by as much.
ROUNDING = 16
# Least noise of a channel, as a share of the mean energy of a sample.
LEAST_NOISE = 1e-8


class Cut(NamedTuple):
    """Segments of B events, where they are observed, and the atoms of their persons."""

    segment: Float[Array, "B L P"]
    seen: Float[Array, "B L Q"]
    atom: Float[Array, "B L P"]


class FittedCycles(NamedTuple):
    """Log gain and delay of B cycles (in samples), their covariance, and energies."""

    own: Float[Array, "B q"]
    covariance: Float[Array, "B q q"]
    left: Float[Array, " B"]
    energy: Float[Array, " B"]


def delay_table(atom_length: int, n_sines: int) -> Float[np.ndarray, "r L"]:
    """Return the basis of a cycle's delays: a constant, then sines; None without sines."""
    if n_sines == 0:
        return np.zeros((0, atom_length))
    return np.vstack([np.ones(atom_length), sine_table(atom_length, n_sines)])


@program
def cut_cycles(
    signals: Signals,
    atoms: Float[Array, "S K L P"],
    row: Int[Array, " B"],
    atom: Int[Array, " B"],
    onset: Int[Array, " B"],
    duration: Float[Array, " B"],
    amplitude: Float[Array, " B"],
) -> Cut:
    """Cut events of a chunk, each read at L samples from its first to its last.

    Samples are interpolated like atoms, so an event as long as the atom is cut without change.
    Events of amplitude 0 fill the batch; they have no atom.
    """
    atom_length = atoms.shape[2]
    ahead = ((duration - 1) / (atom_length - 1))[:, None] * jnp.arange(atom_length)
    whole = jnp.floor(ahead)
    _, weights, _ = interp.stencil(ahead - whole, 2, "cubic")
    near = (onset[:, None] + whole.astype(onset.dtype))[..., None] + jnp.arange(-1, 3)
    inside = (near >= 0) & (near < signals.lengths[row][:, None, None])
    at = jnp.clip(near, 0, signals.values.shape[1] - 1)
    there = inside[..., None]
    if signals.observed is not None:
        there = there & (signals.observed[row[:, None, None], at] > 0)
    # A sample at the edge of a gap is not missing if only its two outer neighbours are.
    needed = jnp.abs(weights[..., None]) > 1e-3
    values = jnp.where(there, signals.values[row[:, None, None], at], 0)
    seen = jnp.all(there | ~needed, axis=2).astype(values.dtype)
    segment = jnp.einsum("blo,blop->blp", weights, values) * seen
    scale = amplitude[:, None, None]
    own = jnp.where(scale == 0, 0, atoms[row, atom] * scale)
    return Cut(segment, seen, own)


@partial(program, static_argnames=("n_terms",))
def level_cycles(cut: Cut, n_terms: int) -> Cut:
    """Return segments without their baselines, fitted together with the personal atoms."""
    segment, seen, atom = cut
    basis = jnp.asarray(make_basis(n_terms, (atom.shape[1],))[0], atom.dtype)
    gram = jnp.einsum("ln,lm,blq->bqnm", basis, basis, seen)
    rest = segment - atom * seen
    found, _ = solve_baselines(jnp.einsum("ln,blp->bpn", basis, rest), gram)
    return Cut(segment - jnp.einsum("ln,bpn->blp", basis, found) * seen, seen, atom)


@program
def fit_cycles(
    cut: Cut, table: Float[Array, "r L"], price: Float[Array, "q q"], own: Float[Array, "B q"]
) -> FittedCycles:
    """Fit the numbers of B cycles, from a start; ``price`` is the inverse of Lambda."""
    return _fit(cut, table, price, own, N_STEPS)


def guess_covariance(n_delays: int, length: int) -> Float[np.ndarray, "q q"]:
    """Return Lambda before any cycle is seen, for some delays of atoms of this length."""
    order = np.maximum(np.arange(n_delays), 1)
    return np.diag(np.append(FIRST_GAIN, FIRST_DELAY * length / order) ** 2)


@program
def estimate_price(
    cut: Cut, table: Float[Array, "r L"], own: Float[Array, "B q"], counts: Float[Array, " B"]
) -> Float[Array, "q q"]:
    """Return the inverse of Lambda by EM, from those of B cycles selected by ``counts``."""
    size = own.shape[1]
    guess = jnp.asarray(guess_covariance(*table.shape), own.dtype)

    def turn(_, state):
        covariance, own = state
        inverse = jnp.linalg.inv(covariance)
        known = _fit(cut, table, inverse, own, N_STEPS_EM)
        terms = known.own[:, :, None] * known.own[:, None, :] + known.covariance
        # Weights of a t-distribution, so that a few outliers do not affect the price of all.
        far = jnp.einsum("bij,ij->b", terms, inverse)
        share = counts * (FREEDOM + size) / (FREEDOM + far)
        total = jnp.einsum("b,bij->ij", share, terms)
        weak = jnp.diag(jnp.diag(covariance)) * GUESS_WEIGHT
        floor = 1e-4 * guess
        return (total + weak) / (counts.sum() + GUESS_WEIGHT) + floor, known.own

    covariance, _ = jax.lax.fori_loop(0, N_ROUNDS_EM, turn, (guess, own))
    return jnp.linalg.inv(covariance)


class _Place(NamedTuple):
    """Numbers of cycles, the model there, its slope in time, and the residual."""

    own: Float[Array, "B q"]
    model: Float[Array, "B L P"]
    slope: Float[Array, "B L P"]
    rest: Float[Array, "B L P"]


def _fit(cut: Cut, table, price, own, n_steps: int) -> FittedCycles:
    """Minimize ``|rest|^2 / noise + own^T price own`` by damped Gauss-Newton.

    The noise of a step is that at its start, and a step is accepted only if the cost does not
    rise. Cost O(B L (P + q^2)) per step.
    """
    size, eps = own.shape[1], jnp.finfo(own.dtype).eps

    def cost(at, noise):
        price_of = jnp.einsum("bi,ij,bj->b", at.own, price, at.own)
        return price_of + jnp.sum(at.rest**2 / noise[:, None], axis=(1, 2))

    def advance(_, state):
        best, damping = state
        noise = _noise(cut, best.rest, size)
        system, pull = _linearize(cut, table, price, noise, best)
        bend = jnp.einsum("bii->bi", system)[:, :, None] * jnp.eye(size, dtype=own.dtype)
        step = solve_positive(system + damping[:, None, None] * bend, pull[..., None])[..., 0]
        step = jnp.where(jnp.isfinite(step), step, 0)
        trial = _reach(cut, table, _keep_increasing(best.own + step, table.shape[1]))
        better = cost(trial, noise) <= cost(best, noise) * (1 + ROUNDING * eps)
        factor = jnp.where(better, DAMPING_DOWN, DAMPING_UP)
        return pick(better, trial, best), jnp.clip(damping * factor, *DAMPING_RANGE)

    start = _reach(cut, table, own), jnp.full(len(own), DAMPING_START, own.dtype)
    best, _ = jax.lax.fori_loop(0, n_steps, advance, start)
    noise = _noise(cut, best.rest, size)
    system, _ = _linearize(cut, table, price, noise, best)
    eye = jnp.broadcast_to(jnp.eye(size, dtype=own.dtype), system.shape)
    energy = jnp.sum(cut.seen * cut.segment**2, axis=(1, 2))
    left = jnp.sum(best.rest**2, axis=(1, 2))
    return FittedCycles(best.own, solve_positive(system, eye), left, energy)


def _reach(cut: Cut, table, own) -> _Place:
    length = table.shape[1]
    wanted = jnp.arange(length) - own[:, 1:] @ table
    position = jnp.clip(wanted, 0, length - 1)
    value, slope = jax.vmap(partial(interp.read, kind="cubic"))(cut.atom, position)
    slope = jnp.where((position == wanted)[..., None], slope, 0)
    gain = jnp.exp(jnp.clip(own[:, 0], -10, 10))[:, None, None]
    return _Place(own, gain * value, -gain * slope, cut.seen * (cut.segment - gain * value))


def _linearize(cut: Cut, table, price, noise, at: _Place) -> tuple[Array, Array]:
    """Return the normal matrix (B, q, q) of a step, and its right-hand side (B, q)."""
    weight = cut.seen / noise[:, None]
    leak = jnp.sum(weight * at.model * at.slope, axis=2) @ table.T
    bend = jnp.einsum("bl,jl,kl->bjk", jnp.sum(weight * at.slope**2, axis=2), table, table)
    power = jnp.sum(weight * at.model**2, axis=(1, 2))
    top = jnp.concatenate([power[:, None], leak], axis=1)[:, None]
    system = jnp.concatenate([top, jnp.concatenate([leak[:, :, None], bend], axis=2)], axis=1)
    pull_gain = jnp.sum(weight * at.rest * at.model, axis=(1, 2))
    pull = jnp.sum(weight * at.rest * at.slope, axis=2) @ table.T
    pull = jnp.concatenate([pull_gain[:, None], pull], axis=1)
    return system + price, pull - at.own @ price


def _noise(cut: Cut, rest: Float[Array, "B L P"], n_fitted: int) -> Float[Array, "B P"]:
    """Return the variance of each channel of each cycle around its model."""
    n_seen = jnp.broadcast_to(cut.seen.sum(1), rest[:, 0].shape)
    freedom = jnp.maximum(n_seen - n_fitted / rest.shape[2], n_seen / 2)
    energy = divide(jnp.sum(cut.segment**2, axis=1), n_seen).mean(1, keepdims=True)
    least = LEAST_NOISE * energy + jnp.finfo(rest.dtype).tiny
    return divide(jnp.sum(rest**2, axis=1), freedom) + least


def _keep_increasing(own: Float[Array, "B q"], length: int) -> Float[Array, "B q"]:
    """Shrink the sines of delays that would run backwards."""
    order = jnp.arange(own.shape[1]) - 1
    steep = jnp.pi / (length - 1) * jnp.sum(jnp.abs(own) * jnp.maximum(order, 0), axis=1)
    factor = jnp.minimum(1, STEEPEST / jnp.maximum(steep, STEEPEST))
    return jnp.where(order > 0, own * factor[:, None], own)


@program
def straighten(
    cut: Cut, table: Float[Array, "r L"], own: Float[Array, "B q"]
) -> tuple[Array, Array]:
    """Return segments without the delays of the cycles, and where they are observed."""
    at = jnp.clip(jnp.arange(table.shape[1]) + own[:, 1:] @ table, 0, table.shape[1] - 1)
    read = jax.vmap(partial(interp.read, kind="linear"))
    return read(cut.segment, at)[0], read(cut.seen, at)[0]


def read_delay(own: Any, at: Any, atom_length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return delay (E,), its slope (E,) and its derivatives (E, r) at times (E,), in samples."""
    order = np.arange(own.shape[1] - 1)
    angle = np.pi * order * np.asarray(at)[:, None] / (atom_length - 1)
    basis = np.where(order > 0, np.sin(angle), 1.0)
    bend = np.cos(angle) * np.pi * order / (atom_length - 1)
    delays = own[:, 1:]
    return (basis * delays).sum(1), (bend * delays).sum(1), basis


@program
def local_gains(
    cut: Cut,
    table: Float[Array, "r L"],
    own: Float[Array, "B q"],
    at: Float[Array, " B"],
    width: Float[Array, ""],
) -> tuple[Array, Array]:
    """Return the gain of each cycle near a time, and its standard error for white noise.

    Regresses the samples within ``width`` of ``at`` on the cycle's model there, beside a level
    of each channel. A gain of one is the wave as expected, zero is no wave.
    """
    fitted = _reach(cut, table, own)
    near = jnp.abs(jnp.arange(table.shape[1]) - at[:, None]) <= width
    weight = near[..., None] * jnp.broadcast_to(cut.seen, cut.segment.shape)
    count = weight.sum(1)

    def above(x):
        return weight * (x - divide(jnp.sum(weight * x, axis=1), count)[:, None])

    wave, seen = above(fitted.model), above(cut.segment)
    noise = divide(jnp.sum((seen - wave) ** 2, axis=1), jnp.maximum(count - 2, 0))
    noise = noise + LEAST_NOISE * divide(jnp.sum(seen**2, axis=1), count)
    power = divide(jnp.sum(wave**2, axis=1), noise).sum(1)
    gain = divide(divide(jnp.sum(wave * seen, axis=1), noise).sum(1), power)
    return gain, jnp.sqrt(divide(jnp.ones_like(power), power))
