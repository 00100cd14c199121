"""IPU: the individual parameters update (Alg. 1, line 7), on the two sufficient statistics."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from percdl.transforms.base import Atom, Params, WarpTransform

# Levenberg-Marquardt damping, relative to the mean curvature: its start, its growth after a
# refused step and its decay after an accepted one.
DAMPING_START, DAMPING_UP, DAMPING_DOWN = 1e-2, 6.0, 0.2
DAMPING_RANGE = (1e-6, 1e4)


class Quadratic(NamedTuple):
    """What Gauss-Newton needs to know of the fit at some parameters."""

    explained: Float[Array, " B"]
    curvature: Float[Array, "B C m m"]
    pull: Float[Array, "B C m"]
    coupling: Float[Array, "B C m"]
    power: Float[Array, " B"]


def explained_energy(value, moment, weight):
    """Return the energy explained by atoms ``value`` at their best common amplitude.

    ``max over c >= 0 of 2 c <m, g> - c^2 <w, g^2> = max(<m, g>, 0)^2 / <w, g^2>``.
    """
    match = jnp.sum(moment * value, axis=(-2, -1))
    power = jnp.sum(weight * value**2, axis=(-2, -1))
    amplitude = jnp.where(power > 0, jnp.maximum(match, 0) / jnp.where(power > 0, power, 1), 0)
    return amplitude * match, amplitude, power


def gauss_newton(
    transform: WarpTransform,
    atom: Atom,
    moment: Float[Array, "B Lw P"],
    weight: Float[Array, "B Lw Q"],
    params: Params,
    shift: Float[Array, " B"],
    n_steps: int,
    tolerance: float = 1e-6,
) -> tuple[Params, Float[Array, " B"], Float[Array, " B"]]:
    """Fit the parameters of B subjects at once; return them, the shifts, the energy explained.

    Minimizes ``<w, (c g)^2> - 2 <m, c g>``, ``g = f(atom, a)`` moved by ``shift`` samples,
    over ``a`` in Theta, the common amplitude c >= 0, which is profiled out (variable
    projection), and, when the statistics have a margin, the shift. Each iteration is a
    damped Gauss-Newton step projected onto Theta and kept only if it explains more, so the
    result is never worse than the start. Stops once no subject gains more than
    ``tolerance``. Cost O(B L M^2) an iteration, independent of N.
    """
    margin = (moment.shape[1] - atom.shape[0]) // 2
    # In this unit a step of the shift moves samples about as far as a step of a parameter.
    unit = (atom.shape[0] - 1) / jnp.pi
    n_params = params.shape[1]

    def model(z):
        return _quadratic_model(transform, atom, moment, weight, z[:, :n_params], z[:, n_params:] * unit)

    def confine(z):
        inside = jnp.clip(z[:, n_params:], -margin / unit, margin / unit)
        return jnp.concatenate([transform.project(z[:, :n_params]), inside], axis=1)

    def advance(state):
        step, z, fit, damping, _ = state
        trial = confine(z + _damped_step(fit, damping))
        trial_fit = model(trial)
        better = trial_fit.explained > fit.explained
        gain = jnp.where(better, trial_fit.explained - fit.explained, 0)
        active = jnp.any(gain > tolerance * fit.explained)
        damping = jnp.clip(
            damping * jnp.where(better, DAMPING_DOWN, DAMPING_UP), *DAMPING_RANGE
        )
        keep = lambda new, old: jnp.where(  # noqa: E731
            better.reshape(-1, *[1] * (new.ndim - 1)), new, old
        )
        fit = jax.tree.map(keep, trial_fit, fit)
        return step + 1, keep(trial, z), fit, damping, active

    def unfinished(state):
        step, _, _, _, active = state
        return (step < n_steps) & (active | (step < 3))

    damping = jnp.full(moment.shape[0], DAMPING_START, moment.dtype)
    z = jnp.concatenate([params, shift[:, None] / unit], axis=1) if margin else params
    state = (0, z, model(z), damping, True)
    _, z, fit, _, _ = jax.lax.while_loop(unfinished, advance, state)
    shift = z[:, n_params] * unit if margin else shift
    return z[:, :n_params], shift, fit.explained


def _quadratic_model(transform, atom, moment, weight, params, shift) -> Quadratic:
    """Linearize the personal atoms and form the normal equations of each warp."""
    margin = (moment.shape[1] - atom.shape[0]) // 2
    samples = jnp.arange(-margin, atom.shape[0] + margin, dtype=params.dtype)
    samples = samples - shift if margin else samples
    value, slope, basis, speed = transform.linearize(params, atom, samples)
    if margin:
        inside = ((samples > -0.5) & (samples < atom.shape[0] - 0.5)).astype(params.dtype)[..., None]
        value, slope = value * inside, slope * inside
        unit = (atom.shape[0] - 1) / jnp.pi
        basis = jnp.concatenate([basis, -unit * speed[..., None]], axis=-1)
    explained, amplitude, power = explained_energy(value, moment, weight)
    c = amplitude[:, None, None]
    by_warp = lambda x: _per_warp(x, basis.shape[1])  # noqa: E731
    force = by_warp(c * (moment - c * weight * value) * slope)
    leak = by_warp(c * weight * value * slope)
    stiffness = by_warp(c**2 * weight * slope**2)
    weighted = basis * stiffness[..., None]
    return Quadratic(
        explained=explained,
        curvature=jnp.einsum("bclm,bcln->bcmn", weighted, basis),
        pull=jnp.einsum("bcl,bclm->bcm", force, basis),
        coupling=jnp.einsum("bcl,bclm->bcm", leak, basis),
        power=power,
    )


def _per_warp(x: Float[Array, "B L P"], n_warps: int) -> Float[Array, "B C L"]:
    """Add up the channels that share a warp."""
    if n_warps == 1:
        return x.sum(-1)[:, None]
    return jnp.swapaxes(x, 1, 2)


def _damped_step(fit: Quadratic, damping) -> Float[Array, "B M"]:
    """Solve ``(H - u u^T / power + damping) step = pull``.

    The rank-one term is what profiling out the amplitude leaves; Sherman-Morrison keeps the
    warps of different channels in separate small systems.
    """
    n = fit.curvature.shape[-1]
    scale = jnp.trace(fit.curvature, axis1=-2, axis2=-1).mean(-1) / n
    shift = damping * scale + jnp.finfo(damping.dtype).tiny ** 0.5
    system = fit.curvature + shift[:, None, None, None] * jnp.eye(n, dtype=damping.dtype)
    right = jnp.stack([fit.pull, fit.coupling], axis=-1)
    factor = jnp.linalg.cholesky(system)
    half = jax.lax.linalg.triangular_solve(factor, right, left_side=True, lower=True)
    solved = jax.lax.linalg.triangular_solve(
        factor, half, left_side=True, lower=True, transpose_a=True
    )
    direct, coupled = solved[..., 0], solved[..., 1]
    gap = fit.power - jnp.sum(fit.coupling * coupled, axis=(1, 2))
    lift = jnp.sum(fit.coupling * direct, axis=(1, 2)) / jnp.where(gap > 0, gap, jnp.inf)
    step = direct + lift[:, None, None] * coupled
    step = jnp.where(jnp.isfinite(step), step, 0)
    return step.reshape(step.shape[0], -1)
