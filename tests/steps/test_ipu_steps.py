"""Each Gauss-Newton iteration is a damped dense least-squares problem."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose

from percdl.steps import ipu
from percdl.steps.ipu import explained_energy, gauss_newton, polyak, solve_parts, solve_positive
from percdl.transforms import Custom, TimeWarp
from percdl.transforms.base import Transform

B, L, P, N_STEPS, TOLERANCE = 6, 16, 2, 4, 0.1
TIME = np.linspace(0, 1, L)[:, None]
ATOM = np.sin(4 * np.pi * TIME) * [1, 0.6] + 0.3 * np.sin(np.pi * TIME)


@partial(jax.jit, static_argnums=0)
def fast_apply(transform, params, atom):
    return transform.apply(params, atom)


@partial(jax.jit, static_argnums=0)
def fast_project(transform, params):
    return transform.project(params)


class Dense:
    """The fit of one subject, from ``apply`` and ``project`` alone."""

    def __init__(self, transform, moment, weight):
        self.transform = transform
        self.moment, self.weight = moment, weight

    def apply(self, params):
        return in_double(fast_apply, self.transform, params, ATOM)

    def explained(self, params):
        value = self.apply(params[None])[0]
        match, power = np.sum(self.moment * value), np.sum(self.weight * value**2)
        amplitude = max(match, 0) / power
        return amplitude * match, amplitude, value

    def step(self, params, damping, amplitude, value):
        """Move amplitude and parameters together, at the price of the parameters' way.

        The price is ``damping`` times the mean curvature. Derivatives are finite differences.
        """
        ways = 1e-5 * np.eye(len(params))
        ends = self.apply(params + np.stack([ways, -ways])).reshape(2, len(ways), -1)
        root = np.sqrt(self.weight).ravel()
        slopes = amplitude * root * (ends[0] - ends[1]) / 2e-5
        ridge = np.sqrt(damping * np.sum(slopes**2) / len(params))
        off = self.moment.ravel() / root - amplitude * root * value.ravel()
        rows = np.column_stack([slopes.T, root * value.ravel()])
        rows = np.vstack([rows, np.eye(len(params), len(params) + 1) * ridge])
        return np.linalg.lstsq(rows, np.append(off, np.zeros(len(params))), rcond=None)[0][:-1]

    def fit(self, params, n_steps, tolerance):
        """Return the parameters, and how often a step was refused."""
        damping, n_refused = 1e-2, 0
        before, *point = self.explained(params)
        for _ in range(n_steps):
            step = self.step(params, damping, *point)
            trial = in_double(fast_project, self.transform, params + step)
            after, *there = self.explained(trial)
            if after > before:
                settled = after <= (1 + tolerance) * before
                params, before, point, damping = trial, after, there, damping / 5
                if settled:
                    break
            else:
                damping, n_refused = damping * 6, n_refused + 1
        return params, n_refused


CURVED = Custom(lambda phi, a: phi + 3 * a[0] * phi**2 + jnp.sin(9 * a[1]) * phi**3, 2)


@pytest.mark.parametrize(
    ("transform", "on_cpu"),
    [
        (TimeWarp(2, 3), True),
        (TimeWarp(2, 3), False),
        (TimeWarp(2, 3, per_channel=True), True),
        (CURVED, True),
    ],
    ids=["shared", "shared, as on an accelerator", "own", "entries"],
)
def test_steps_are_dense_least_squares(transform, on_cpu, monkeypatch):
    """Accepted or refused, and until a subject gains less than the tolerance."""
    monkeypatch.setattr(ipu, "is_on_cpu", lambda: on_cpu)
    rng = np.random.default_rng(0)
    truth, start = rng.uniform(-0.3, 0.3, (2, B, transform.n_params(L, P)))
    weight = rng.uniform(0.5, 2, (B, L, P))
    segment = in_double(fast_apply, transform, truth, ATOM)
    moment = weight * (segment + 0.3 * rng.standard_normal(segment.shape))
    fit = jax.jit(partial(gauss_newton, transform, n_steps=N_STEPS, tolerance=TOLERANCE))
    found, _ = in_double(fit, ATOM, moment, weight, start)
    n_refused = 0
    for s in range(B):
        dense = Dense(transform, moment[s], weight[s])
        expected, refused = dense.fit(start[s], N_STEPS, TOLERANCE)
        assert_allclose(found[s], expected, atol=1e-5)
        n_refused += refused
    assert n_refused > 0


def test_layers_of_a_deep_warp_first_move_with_their_neighbours():
    """Four layers in pairs, which other turns mix."""
    transform = TimeWarp(4, 16)
    moment = np.roll(ATOM, 1, axis=0)[None]
    fit = jax.jit(partial(gauss_newton, transform), static_argnums=4)
    start = 0.01 * np.random.default_rng(1).standard_normal((1, transform.n_params(L, P)))
    found, _ = in_double(fit, ATOM, moment, np.ones_like(moment), start, 1)
    first, second, third, last = (found - start).reshape(4, -1)
    assert_allclose(first, second, atol=1e-12)
    assert_allclose(third, last, atol=1e-12)
    assert np.abs(first - third).max() > 1e-4


def test_energy_is_explained_in_any_unit():
    """Where nothing was seen nothing is explained, and the slope there is zero, not undefined."""
    small = 2.0**-20
    value = np.stack([ATOM, ATOM])
    weight = np.stack([np.ones_like(ATOM), np.zeros_like(ATOM)])

    def total(value, moment, weight):
        return explained_energy(value, moment, weight)[0].sum()

    energy, slope = in_double(
        jax.jit(jax.value_and_grad(total)), value, small * weight * ATOM, small * weight
    )
    assert_allclose(energy, small * np.sum(ATOM**2))
    assert_allclose(slope, 0, atol=1e-12 * small)


def test_polyak_steps_are_projected_gradients():
    """As long as ``left / |gradient|^2``, at most one; the best parameters met are kept."""
    transform = TimeWarp(2, 3)
    rng = np.random.default_rng(2)
    start = rng.uniform(-0.3, 0.3, (B, transform.n_params(L, P)))
    weight = rng.uniform(0.5, 2, (B, L, P)) * (rng.random((B, L, P)) < 0.8)
    moment = weight * (ATOM + 0.2 * rng.standard_normal((B, L, P)))
    total = np.sum(moment**2 / np.where(weight > 0, weight, 1), axis=(1, 2))

    def left(params, atom, moment, weight, total):
        explained = explained_energy(transform.apply(params, atom), moment, weight)[0]
        return jnp.sum(1 - explained / total), 1 - explained / total

    slope = jax.jit(jax.grad(left, has_aux=True))
    params, visited = start, []
    for _ in range(N_STEPS):
        gradient, value = in_double(slope, params, ATOM, moment, weight, total)
        visited.append((value, params))
        length = np.minimum(value / np.sum(gradient**2, axis=1), 1)
        params = in_double(fast_project, transform, params - length[:, None] * gradient)
    values = np.array([value for value, _ in visited])
    best = values.argmin(0)
    fit = jax.jit(partial(polyak, transform, n_steps=N_STEPS))
    found, energy = in_double(fit, ATOM, moment, weight, start)
    assert_allclose(found, [visited[n][1][s] for s, n in enumerate(best)], atol=1e-9)
    assert_allclose(energy, (1 - values.min(0)) * total)
    assert len(set(best)) > 1


class Tilt(Transform):
    """Atoms plus a multiple of a ramp; what it takes for the solution is not always better."""

    def n_params(self, atom_length, n_channels):
        return 1

    def neutral(self, atom):
        return jnp.zeros(1, atom.dtype)

    def apply(self, params, atom):
        return atom + params[..., None] * jnp.linspace(-1, 1, len(atom))[:, None]

    def project(self, params):
        return jnp.clip(params, -0.5, 0.5)

    def solve_parts(self, params, atom, moment, weight):
        return -3 * params


def test_a_closed_form_is_taken_where_it_explains_more():
    """Wherever its projection onto Theta does, whatever the amplitude there."""
    truth, start = np.array([[0.5], [-0.5], [-0.5]]), np.full((3, 1), 0.25)
    moment = ATOM + truth[..., None] * np.linspace(-1, 1, L)[:, None]
    moment[2] *= 0  # explains nothing either way
    solve = jax.jit(partial(solve_parts, Tilt()))
    found = in_double(solve, ATOM, moment, np.ones_like(moment), start)
    assert_allclose(found, [[0.25], [-0.5], [0.25]])


@pytest.mark.parametrize("on_cpu", [True, False], ids=["cpu", "accelerator"])
@pytest.mark.parametrize("size", [1, 7, 15, 40])
def test_a_batch_of_systems_is_solved_and_an_indefinite_one_is_not(size, on_cpu, monkeypatch):
    monkeypatch.setattr(ipu, "is_on_cpu", lambda: on_cpu)
    rng = np.random.default_rng(size)
    factor, right = rng.normal(size=(5, 2, size, size + 3)), rng.normal(size=(5, 2, size, 3))
    system = factor @ factor.swapaxes(2, 3) * 10.0 ** np.arange(-4, 6, 2)[:, None, None, None]
    system[3, 1, -1, -1] = -1
    found = in_double(jax.jit(partial(solve_positive)), system, right)
    solved = np.ones((5, 2), bool)
    solved[3, 1] = False
    assert_allclose(found[solved], np.linalg.solve(system, right)[solved], rtol=1e-8, atol=1e-12)
    assert np.isnan(found[3, 1]).all()
