"""IPU on the two statistics: never worse than its start, and right on noise-free data."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.steps.ipu import explained_energy, gauss_newton, polyak
from percdl.steps.realignment import align
from percdl.transforms import TimeWarp
from percdl.transforms.time_warp import MAX_ROW_NORM

B, L, N_STEPS, N_POLYAK_STEPS = 32, 24, 6, 60
SHARED = TimeWarp(2, 6), 1
OWN = TimeWarp(2, 3, per_channel=True), 2  # with a weight for each channel

fast_newton = jax.jit(gauss_newton, static_argnums=(0, 5))
fast_polyak = jax.jit(polyak, static_argnums=(0, 5))
fast_align = jax.jit(align)


@partial(jax.jit, static_argnums=0)
def fast_apply(transform, params, atom):
    return transform.apply(params, atom)


@partial(jax.jit, static_argnums=0)
def fast_explained(transform, params, atom, moment, weight):
    return explained_energy(transform.apply(params, atom), moment, weight)


both = pytest.mark.parametrize(("transform", "n_channels"), [SHARED, OWN], ids=["shared", "own"])
solvers = pytest.mark.parametrize(
    ("solve", "n_steps", "transform", "n_channels"),
    [
        (fast_newton, N_STEPS, *SHARED),
        (fast_newton, N_STEPS, *OWN),
        (fast_polyak, N_POLYAK_STEPS, *OWN),
    ],
    ids=["newton-shared", "newton-own", "polyak-own"],
)


def an_atom(n_channels):
    time = np.linspace(0, 1, L)[:, None]
    return np.sin(4 * np.pi * time) * [1, 0.6][:n_channels] + 0.3 * np.sin(np.pi * time)


def warps(transform, n_channels, size, seed=0):
    """Return dense parameters, each row rescaled to l1 norm ``size`` at most (decision 5)."""
    rng = np.random.default_rng(seed)
    n_rows = transform.n_params(L, n_channels) // transform.width
    rows = rng.uniform(-1, 1, (B, n_rows, transform.width))
    rows = rows * np.minimum(1, size / np.abs(rows).sum(-1, keepdims=True))
    return rows.reshape(B, -1)


def statistics(transform, n_channels, params, noise=0.0, seed=1):
    """Return moment and weight (B, L, P) of subjects with those parameters, any amplitude."""
    rng = np.random.default_rng(seed)
    atoms = in_double(fast_apply, transform, params, an_atom(n_channels))
    amplitude = rng.uniform(0.5, 2, (B, 1, 1))
    weight = rng.uniform(0.5, 2, (B, 1, n_channels)) * np.ones_like(atoms)
    segment = amplitude * atoms + noise * rng.standard_normal(atoms.shape)
    return weight * segment, weight


def explained(transform, n_channels, params, moment, weight):
    return in_double(fast_explained, transform, params, an_atom(n_channels), moment, weight)[0]


def assert_in_theta(transform, params):
    rows = np.abs(params).reshape(-1, transform.width).sum(1)
    assert rows.max() <= MAX_ROW_NORM + 1e-9


def test_explained_energy_is_that_of_the_best_amplitude():
    moment, weight = statistics(*OWN, warps(*OWN, 0.9), noise=1.0)
    moment[0] *= -1  # a subject better left out: the amplitude may not be negative
    atoms = np.broadcast_to(an_atom(OWN[1]), moment.shape)
    neutral = np.zeros((B, OWN[0].n_params(L, OWN[1])))
    energy, amplitude, power = in_double(
        fast_explained, OWN[0], neutral, an_atom(OWN[1]), moment, weight
    )
    match = np.sum(moment * atoms, axis=(1, 2))
    grid = np.linspace(0, 4, 40_001)
    gains = 2 * grid * match[:, None] - grid**2 * power[:, None]
    assert_allclose(power, np.sum(weight * atoms**2, axis=(1, 2)))
    assert_allclose(energy, gains.max(1), atol=1e-6)
    assert_allclose(amplitude, grid[gains.argmax(1)], atol=1e-4)
    assert (amplitude >= 0).all()


def test_an_atom_that_is_never_seen_explains_nothing():
    nothing = np.zeros((1, L, 1))
    found = in_double(jax.jit(explained_energy), np.ones((1, L, 1)), nothing, nothing)
    assert_array_equal(np.concatenate(found), 0)


@solvers
def test_a_fit_is_never_worse_than_its_start(solve, n_steps, transform, n_channels):
    """On noise that no warp explains, from starts all over Theta."""
    moment, weight = statistics(transform, n_channels, warps(transform, n_channels, 0.9), 2.0)
    start = warps(transform, n_channels, 0.99, seed=2)
    before = explained(transform, n_channels, start, moment, weight)
    params, after = in_double(
        solve, transform, an_atom(n_channels), moment, weight, start, n_steps
    )
    assert (after >= before * (1 - 1e-12)).all()
    assert np.mean(after > 1.01 * before) > 0.5
    assert_allclose(after, explained(transform, n_channels, params, moment, weight), atol=1e-10)
    assert_in_theta(transform, params)


@both
def test_known_warps_are_recovered_from_an_aligned_start(transform, n_channels):
    size = 0.99 if transform is SHARED[0] else 0.6  # the alignment is common to all channels
    truth = warps(transform, n_channels, size)
    moment, weight = statistics(transform, n_channels, truth)
    atom = an_atom(n_channels)
    path = in_double(fast_align, atom, moment, weight)
    target = np.repeat(path[:, None], 1 if transform is SHARED[0] else n_channels, axis=1)
    start = in_double(jax.jit(transform.approximate), target)
    params, energy = in_double(fast_newton, transform, atom, moment, weight, start, N_STEPS)
    params, energy = in_double(fast_newton, transform, atom, moment, weight, params, N_STEPS)
    total = np.sum(moment**2 / weight, axis=(1, 2))
    assert np.mean(1 - energy / total < 1e-3) > 0.9
    assert_in_theta(transform, params)


@both
def test_a_start_near_the_truth_converges(transform, n_channels):
    truth = warps(transform, n_channels, 0.6)
    moment, weight = statistics(transform, n_channels, truth)
    start = truth + 0.01 * np.random.default_rng(3).standard_normal(truth.shape)
    _, energy = in_double(
        fast_newton, transform, an_atom(n_channels), moment, weight, start, N_STEPS
    )
    total = np.sum(moment**2 / weight, axis=(1, 2))
    before = explained(transform, n_channels, start, moment, weight)
    assert np.median(1 - before / total) > 1e-4
    assert np.max(1 - energy / total) < 2e-6


def test_polyak_improves_from_the_identity():
    truth = warps(*OWN, 0.6)
    moment, weight = statistics(*OWN, truth)
    start = np.zeros_like(truth)
    _, energy = in_double(
        fast_polyak, OWN[0], an_atom(OWN[1]), moment, weight, start, N_POLYAK_STEPS
    )
    total = np.sum(moment**2 / weight, axis=(1, 2))
    before = explained(*OWN, start, moment, weight)
    possible = before > 0  # an atom opposed to the segment has no slope to follow
    assert np.mean(possible) > 0.9
    assert (energy > before)[possible].all()
    assert np.median(1 - before / total) > 0.1
    assert np.median(1 - energy / total) < 0.01


@solvers
def test_the_amplitude_of_a_subject_does_not_matter(solve, n_steps, transform, n_channels):
    """Scaling its segments, or its code, changes nothing but the units."""
    moment, weight = statistics(transform, n_channels, warps(transform, n_channels, 0.8), 0.1)
    start, atom = np.zeros((B, transform.n_params(L, n_channels))), an_atom(n_channels)
    louder = 2.0 ** np.random.default_rng(4).integers(-4, 5, (B, 1, 1))  # exact in binary
    params, energy = in_double(solve, transform, atom, moment, weight, start, n_steps)
    for scaled, units in (
        ((louder * moment, weight), louder**2),
        ((louder * moment, louder**2 * weight), np.ones(B)),
    ):
        other, other_energy = in_double(solve, transform, atom, *scaled, start, n_steps)
        assert_allclose(other, params, atol=1e-9)
        assert_allclose(other_energy, units.ravel() * energy, rtol=1e-9)


@solvers
def test_a_subject_is_fitted_as_if_it_were_alone(solve, n_steps, transform, n_channels):
    """The result does not depend on the rest of the batch, or when it converges."""
    moment, weight = statistics(transform, n_channels, warps(transform, n_channels, 0.9), 0.3)
    start, atom = np.zeros((B, transform.n_params(L, n_channels))), an_atom(n_channels)
    together, _ = in_double(solve, transform, atom, moment, weight, start, n_steps)
    for s in range(6):
        only = (np.arange(B) == s)[:, None, None]
        alone, _ = in_double(solve, transform, atom, only * moment, only * weight, start, n_steps)
        assert_allclose(alone[s], together[s], atol=1e-9)


@solvers
def test_a_subject_without_activations_stays_where_it_is(solve, n_steps, transform, n_channels):
    moment, weight = statistics(transform, n_channels, warps(transform, n_channels, 0.9))
    moment[::2], weight[::2] = 0, 0
    start, atom = warps(transform, n_channels, 0.5, seed=5), an_atom(n_channels)
    params, energy = in_double(solve, transform, atom, moment, weight, start, n_steps)
    assert_array_equal(params[::2], start[::2])
    assert_array_equal(energy[::2], 0)
    assert np.isfinite(params).all()
    moved = np.abs(params - start).max(1) > 1e-3
    assert np.mean(moved[1::2]) > 0.7


@both
def test_missing_samples_do_not_count(transform, n_channels):
    """Where the weight is zero the atom is free: the rest alone decides."""
    truth = warps(transform, n_channels, 0.5)
    moment, weight = statistics(transform, n_channels, truth)
    hole = np.ones_like(moment)
    hole[:, 5:8, 0] = 0
    start = truth + 0.01 * np.random.default_rng(6).standard_normal(truth.shape)
    _, energy = in_double(
        fast_newton,
        transform,
        an_atom(n_channels),
        hole * moment,
        hole * weight,
        start,
        N_STEPS,
    )
    total = np.sum(hole * moment**2 / weight, axis=(1, 2))
    assert np.max(np.abs(1 - energy / total)) < 2e-6


def test_rough_warps_cost_what_they_bend():
    """The price is the mean square of each layer's second derivative, by finite differences."""
    warp = TimeWarp(2, 3, roughness=0.7)
    params = np.random.default_rng(0).uniform(-0.3, 0.3, (4, 6))
    time = np.linspace(0, 1, 4001)
    frequency = np.pi * np.arange(1, 4)
    layers = params.reshape(4, 2, 3, 1) * np.sin(frequency[:, None] * time) / frequency[:, None]
    bends = np.diff(layers.sum(2), 2, axis=-1) / (time[1] - time[0]) ** 2
    expected = 0.7 * (bends**2).mean(-1).sum(-1)
    assert_allclose(in_double(jax.jit(warp.price), params), expected, rtol=1e-3)
    assert TimeWarp(2, 3).price(jnp.zeros((4, 6))) is None


def test_a_higher_price_makes_smoother_warps_of_a_penalized_optimum():
    rng = np.random.default_rng(1)
    time = np.linspace(0, 1, 20)
    atom = np.stack([np.sin(5 * time), np.cos(4 * time)], axis=1)
    moment = atom + 0.3 * rng.standard_normal((6, 20, 2))
    weight, start = np.ones((6, 20, 1)), np.zeros((6, 8))
    rough = []
    for price in (0.0, 1e-3, 1e-1, 1e3):
        warp = TimeWarp(2, 4, roughness=price)
        fit = jax.jit(partial(gauss_newton, warp, n_steps=80, tolerance=0.0))
        found, explained = in_double(fit, atom, moment, weight, start)
        rough.append((np.tile(np.arange(1, 5), 2) * found) ** 2 @ np.ones(8))
        if price:
            # No change of the parameters does better, beyond what more steps would.
            worth = jax.jit(partial(net, warp))
            for seed in range(5):
                change = 0.05 * np.random.default_rng(seed).standard_normal(found.shape)
                rival = in_double(worth, found + change, atom, moment, weight)
                assert (rival <= explained * (1 + 1e-4)).all()
    assert (np.diff(np.mean(rough, axis=1)) < 0).all()
    assert np.abs(found).max() < 1e-3


def net(warp, params, atom, moment, weight):
    explained = explained_energy(warp.apply(params, atom), moment, weight)[0]
    return explained - warp.price(params)
