"""The prior on warps: its coordinates, its price, the posterior and the M-step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from double import in_double
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

from percdl.steps.ipu import explained_energy, find_posterior, gauss_newton, total_price
from percdl.steps.prior import (
    Prior,
    coordinates,
    estimate_precision,
    n_coordinates,
    prior_price,
    sine_table,
)
from percdl.transforms import Compose, Gain, TimeWarp

L, B = 25, 6
WARP = TimeWarp(2, 6)
M = n_coordinates(L, WARP.n_params(L, 1))
ATOM = (np.sin(4 * np.pi * np.linspace(0, 1, L)) + np.linspace(0, 1, L))[:, None]

fast_apply = jax.jit(lambda transform, *args: transform.apply(*args), static_argnums=0)
fast_warp = jax.jit(lambda params: WARP.warp(params, L, 1))
fast_sums = jax.jit(lambda transform, *args: transform.normal_equations(*args), static_argnums=0)
fast_fit = jax.jit(gauss_newton, static_argnums=(0, 5, 6))


def statistics(noise, seed=0, transform=WARP, n_channels=1):
    """Return moments and weights of segments of warped atoms, and the parameters."""
    rng = np.random.default_rng(seed)
    atom = np.tile(ATOM, (1, n_channels))
    params = rng.uniform(-0.15, 0.15, (B, transform.n_params(*atom.shape)))
    segments = in_double(fast_apply, transform, params, atom)
    segments = segments + noise * rng.standard_normal(segments.shape)
    return atom, 3 * segments, np.full((B, L, 1), 3.0), params


def prior(noise, spread=1.0):
    precision = np.diag(np.arange(1.0, M + 1) ** 2 / spread**2)[None]
    return Prior(precision, np.full(B, noise**2 / 3))


@given(hnp.arrays(float, M, elements=st.floats(-1, 1)))
def test_coordinates_count_the_sines_of_a_displacement(c):
    warp = np.arange(L) + c @ sine_table(L, M)
    assert_allclose(in_double(coordinates, warp, M), c, atol=1e-12)


def test_the_identity_costs_nothing_and_the_price_is_quadratic():
    some = prior(0.5)
    still = np.broadcast_to(np.arange(float(L)), (B, 1, L))
    move = np.random.default_rng(1).standard_normal((B, 1, M)) @ sine_table(L, M)
    paths = [in_double(coordinates, still + k * move, M) for k in range(3)]
    none, once, twice = (in_double(prior_price, some, c) for c in paths)
    assert_allclose(none, 0, atol=1e-20)
    assert_allclose(twice, 4 * once)


@pytest.mark.parametrize(
    ("transform", "n_channels"),
    [(WARP, 1), (TimeWarp(2, 6, per_channel=True), 2), (Compose(TimeWarp(2, 6), Gain()), 2)],
    ids=["shared", "own", "composed"],
)
def test_a_fit_with_a_prior_ends_where_the_penalized_gain_is_stationary(transform, n_channels):
    atom, moment, weight, params = statistics(0.1, 0, transform, n_channels)
    n_warps = transform.warp_part(L, n_channels)[0].n_warps(n_channels)
    some = prior(0.3)
    some = some._replace(precision=np.tile(some.precision, (n_warps, 1, 1)))
    found, gain = in_double(fast_fit, transform, atom, moment, weight, params, 60, 0.0, some)

    def gain_at(params, atom, moment, weight, some):
        explained = explained_energy(transform.apply(params, atom), moment, weight)[0]
        gains = explained - total_price(transform, params, atom, some)
        return jnp.sum(gains), gains

    slope = jax.jit(jax.grad(gain_at, has_aux=True))
    (after, end), (before, start) = (
        in_double(slope, x, atom, moment, weight, some) for x in (found, params)
    )
    sizes = [np.abs(x).max(1) for x in (after, before)]
    assert (sizes[0] < 0.1 * sizes[1]).all()
    assert np.median(sizes[0] / sizes[1]) < 0.02
    assert_allclose(gain, end)
    assert (end >= start).all()


def test_the_prior_shrinks_warps_and_vanishes_with_the_noise():
    atom, moment, weight, params = statistics(0.2)

    def fitted(some):
        found = in_double(fast_fit, WARP, atom, moment, weight, params, 40, 0.0, some)[0]
        return in_double(coordinates, in_double(fast_warp, found), M), found

    free, firm = fitted(prior(1e-9))[0], fitted(prior(0.5, spread=0.2))[0]
    assert (np.abs(firm).sum((1, 2)) < np.abs(free).sum((1, 2))).all()
    alone = in_double(fast_fit, WARP, atom, moment, weight, params, 40)[0]
    warps = [in_double(fast_warp, x) for x in (alone, fitted(prior(1e-9))[1])]
    assert_allclose(*warps, atol=1e-3)


def test_the_posterior_covers_what_is_drawn():
    """Refits of the same subject with other noise scatter as the posterior says, without prior."""
    noise, n_draws = 0.05, 400
    rng = np.random.default_rng(0)
    clean = in_double(fast_apply, WARP, np.full((1, WARP.n_params(L, 1)), 0.05), ATOM)
    start = np.full((n_draws, WARP.n_params(L, 1)), 0.05)
    moment = 3 * (clean + noise * rng.standard_normal((n_draws, L, 1)))
    weight = np.full((n_draws, L, 1), 3.0)
    weak = Prior(np.eye(M)[None] * 25.0, np.full(n_draws, 3 * noise**2))

    def both(moment, weight, start, some):
        found, _ = gauss_newton(WARP, jnp.asarray(ATOM), moment, weight, start, 20, prior=some)
        return find_posterior(WARP, jnp.asarray(ATOM), moment, weight, found, some)

    known = in_double(jax.jit(both), moment, weight, start, weak)
    # A fit with a prior varies less than the truth given the fit: V J^T W J V <= V.
    scatter = known.mean[:, 0].std(0)
    assert (scatter <= 1.15 * np.sqrt(np.diagonal(known.covariance[:, 0].mean(0)))).all()
    assert (scatter[:3] >= 0.5 * np.sqrt(np.diagonal(known.covariance[:, 0].mean(0)))[:3]).all()
    assert_allclose(
        known.variance[:, 0],
        np.einsum("jl,bjk,kl->bl", sine_table(L, M), known.covariance[:, 0], sine_table(L, M)),
        rtol=1e-9,
        atol=1e-12,
    )


def test_the_covariance_of_a_large_population_is_found():
    rng = np.random.default_rng(0)
    spread = np.tril(rng.standard_normal((M, M))) / np.arange(1, M + 1)[:, None]
    truth = spread @ spread.T
    draws = rng.multivariate_normal(np.zeros(M), truth, 20000)
    precision = estimate_precision(draws.T @ draws / 20000, draws.mean(0), np.array(20000.0), L)
    assert_allclose(np.linalg.inv(precision), truth, atol=0.1 * np.trace(truth) / M)


def test_two_subjects_have_a_covariance():
    """A guess that falls with the order stands in for the subjects that are missing."""
    draws = np.random.default_rng(0).standard_normal((2, M)) / np.arange(1, M + 1)
    precision = estimate_precision(draws.T @ draws / 2, draws.mean(0), np.array(2.0), L)
    values = np.linalg.eigvalsh(precision)
    assert values[0] > 0
    assert values[-1] < 1 / (1e-4 * L) ** 2 * 1.001


def test_expected_sums_are_the_mean_over_the_posterior():
    """The two-point rule agrees with draws of a warp that is uncertain at each sample."""
    atom, moment, weight, params = statistics(0.0)
    deviation = 0.2 * np.sin(np.pi * np.arange(L) / (L - 1))
    variance = np.broadcast_to(deviation**2, (B, 1, L))
    gram, transported = in_double(fast_sums, WARP, params, atom, moment, weight, variance)
    warps = in_double(fast_warp, params)
    rng = np.random.default_rng(0)
    draws = [warps + deviation * rng.standard_normal((B, 1, L)) for _ in range(100)]
    add = jax.jit(WARP._normal_equations)
    sums = [in_double(add, np.clip(draw, 0, L - 1), moment, weight) for draw in draws]
    mean_gram, mean_transported = (np.mean(part, axis=0) for part in zip(*sums, strict=True))
    assert_allclose(transported, mean_transported, atol=0.15 * np.abs(transported).std())
    assert_allclose(gram, mean_gram, atol=0.05 * np.abs(gram).max())
    plain = in_double(fast_sums, WARP, params, atom, moment, weight)
    still = in_double(fast_sums, WARP, params, atom, moment, weight, 0 * variance)
    for one, other in zip(plain, still, strict=True):
        assert_allclose(one, other, atol=1e-12)
