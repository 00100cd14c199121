"""Centering fixes the gauge: same personal atoms, and a mean warp that is the identity."""

from functools import partial

import jax
import numpy as np
import pytest
from double import in_double
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from scipy.interpolate import CubicSpline

from percdl.steps.centering import (
    WarpMoments,
    expected_inverse,
    find_gauge,
    invert_warps,
    recenter_params,
    smooth_warp,
    sum_warps,
)
from percdl.transforms import TimeWarp

B, L = 24, 25
SAMPLES = np.arange(L)
SINES = np.sin(np.pi * np.arange(1, L - 1) * SAMPLES[:, None] / (L - 1))
CASES = [(TimeWarp(2, 8), 1), (TimeWarp(2, 8, per_channel=True), 2)]

fast_recenter = jax.jit(recenter_params, static_argnums=(0, 3))
fast_sums, fast_invert = jax.jit(sum_warps), jax.jit(invert_warps)
every_case = pytest.mark.parametrize(("transform", "n_channels"), CASES, ids=["shared", "own"])

COEFFICIENTS = hnp.arrays(float, L - 2, elements=st.floats(-1, 1))


@given(COEFFICIENTS)
def test_smoothing_keeps_the_first_sines_and_drops_the_rest(coefficients):
    warp = SAMPLES + SINES @ coefficients
    kept = np.where(np.arange(L - 2) < 4, coefficients, 0)
    assert_allclose(smooth_warp(warp), SAMPLES + SINES @ kept, atol=1e-12)
    assert_allclose(smooth_warp(smooth_warp(warp)), smooth_warp(warp), atol=1e-12)
    assert_allclose(smooth_warp(warp)[[0, -1]], [0, L - 1], atol=1e-12)
    assert_allclose(smooth_warp(warp, L - 2), warp, atol=1e-12)


@pytest.mark.parametrize("length", [4, 9, 24])
def test_all_sines_together_express_every_warp(length):
    warp = np.arange(length) + np.random.default_rng(0).uniform(-0.4, 0.4, length)
    warp[[0, -1]] = 0, length - 1
    assert_allclose(smooth_warp(warp, length - 2), warp, atol=1e-12)


def test_smoothing_leaves_the_identity_alone():
    assert_allclose(
        smooth_warp(np.broadcast_to(SAMPLES * 1.0, (2, 3, L))) - SAMPLES, 0, atol=1e-13
    )


def population(transform, n_channels, seed=0):
    """Return parameters of warps that lean to one side, and these warps (B, C, L)."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 1, (B, transform.n_params(L, n_channels) // transform.width, 8))
    rows *= 0.4 / np.abs(rows).sum(-1, keepdims=True)
    rows[..., 0] += 0.15
    params = rows.reshape(B, -1)
    return params, warps_of(transform, params, n_channels)


@partial(jax.jit, static_argnums=(0, 2))
def fast_warp(transform, params, n_channels):
    return transform.warp(params, L, n_channels)


def warps_of(transform, params, n_channels):
    return in_double(fast_warp, transform, params, n_channels)


@every_case
def test_new_warps_are_the_old_ones_after_the_inverse_of_the_mean(transform, n_channels):
    params, warps = population(transform, n_channels)
    mean = smooth_warp(warps.mean(0))
    params = in_double(fast_recenter, transform, params, mean, n_channels)
    moved = warps_of(transform, params, n_channels)
    target = np.empty_like(warps)
    for s, c in np.ndindex(warps.shape[:2]):
        target[s, c] = np.interp(warps[s, c], mean[c], SAMPLES)
    assert np.abs(target - warps).max() > 1  # there is something to undo
    assert np.abs(moved - target).max() < 0.05
    assert np.sqrt(np.mean((moved - target) ** 2)) < 0.01


@every_case
def test_the_mean_warp_becomes_the_identity(transform, n_channels):
    params, warps = population(transform, n_channels, seed=1)
    off = []
    for _ in range(3):
        mean = smooth_warp(warps.mean(0))
        off.append(np.abs(mean - SAMPLES).max())
        params = in_double(fast_recenter, transform, params, mean, n_channels)
        warps = warps_of(transform, params, n_channels)
    off.append(np.abs(smooth_warp(warps.mean(0)) - SAMPLES).max())
    assert off[0] > 1
    assert off[1] < off[0] / 10
    assert off[3] < 1e-2


@every_case
def test_personal_atoms_do_not_change(transform, n_channels):
    """``phi o mean`` read at the new warps is ``phi`` read at the old ones."""
    params, warps = population(transform, n_channels, seed=2)
    mean = smooth_warp(warps.mean(0))
    atom = np.sin(2 * np.pi * SAMPLES / (L - 1))[:, None] * np.arange(1.0, n_channels + 1)
    apply, resample = jax.jit(transform.apply), jax.jit(transform.resample)
    before = in_double(apply, params, atom)
    centred = in_double(resample, atom, mean)
    stale = np.abs(in_double(apply, params, centred) - before).max()
    moved = in_double(fast_recenter, transform, params, mean, n_channels)
    after = np.abs(in_double(apply, moved, centred) - before).max()
    assert after < stale / 10
    assert after < 0.05


def test_centering_with_the_identity_changes_nothing():
    transform, n_channels = CASES[0]
    params, warps = population(transform, n_channels, seed=3)
    same = in_double(fast_recenter, transform, params, SAMPLES[None].astype(float), n_channels)
    assert_allclose(warps_of(transform, same, n_channels), warps, atol=1e-9)


@every_case
def test_inverses_undo_the_warps(transform, n_channels):
    _, warps = population(transform, n_channels)
    inverses = in_double(fast_invert, warps)
    for s, c in np.ndindex(warps.shape[:2]):
        assert_allclose(inverses[s, c], np.interp(SAMPLES, warps[s, c], SAMPLES), atol=1e-9)


def many_warps(n_warps=4000, seed=4):
    """Return warps (S, L) of mean identity, as decision 5 draws them."""
    transform = TimeWarp(3, 8)
    rows = np.random.default_rng(seed).uniform(-1, 1, (n_warps, 3, 8))
    rows *= np.minimum(1, 0.99 / np.abs(rows).sum(-1, keepdims=True))
    return warps_of(transform, rows.reshape(n_warps, -1), 1)[:, 0]


def test_the_mean_inverse_follows_from_mean_and_spread():
    warps = many_warps()
    mean_inverse = in_double(fast_invert, warps).mean(0)
    expected = expected_inverse(warps.mean(0), warps.std(0))
    assert np.abs(mean_inverse - SAMPLES).max() > 0.1  # it is not the identity
    assert np.abs(expected - mean_inverse).max() < 0.05


def moments(warps):
    """Return the mean moments of warps (S, L), and their number."""
    sums = in_double(fast_sums, warps[:, None], np.ones(len(warps)))
    return WarpMoments(*(total[0] / len(warps) for total in sums)), np.array(float(len(warps)))


def centred(warps):
    """Return warps after the inverse of their gauge."""
    gauge = find_gauge(*moments(warps))
    fine = np.linspace(0, L - 1, 50 * L)
    return np.interp(warps, CubicSpline(SAMPLES, gauge)(fine), fine)


@pytest.mark.parametrize("frequency", [1, 3, 6, 9])
def test_a_gauge_error_that_the_mean_hides_is_found(frequency):
    """A gauge error of every frequency is found; the mean warp alone misses the high ones."""
    wave = 0.3 * SINES[:, frequency - 1]
    warps = np.array([np.interp(warp, SAMPLES, SAMPLES + wave) for warp in many_warps()])
    gauge = find_gauge(*moments(warps))
    assert np.abs(gauge - SAMPLES - wave).max() < 0.12
    if frequency > 5:
        assert np.abs(warps.mean(0) - SAMPLES - wave).max() > 0.2


POPULATIONS = {
    "uniform": lambda rng, n: rng.uniform(-0.8, 0.8, n),
    "two groups": lambda rng, n: rng.choice([-0.5, 0.5], n),
    "skewed": lambda rng, n: rng.choice([-0.75, 0.25, 0.25, 0.25], n),
    "heavy-tailed": lambda rng, n: np.clip(0.15 * rng.standard_t(2, n), -0.95, 0.95),
}


@pytest.mark.parametrize("population", POPULATIONS)
def test_the_mean_warp_is_the_identity_whatever_the_population(population):
    """Seen through a gauge that is not known; composing with the mean alone does not do it."""
    rng = np.random.default_rng(0)
    size = POPULATIONS[population](rng, 300)
    warps = SAMPLES + size[:, None] * SINES[:, 0] / np.pi * (L - 1)
    gauge = SAMPLES + SINES[:, :3] @ [0.8, -0.4, 0.2]
    seen = CubicSpline(SAMPLES, gauge)(warps)
    assert np.abs(seen.mean(0) - SAMPLES).max() > 0.4
    assert np.abs(centred(seen).mean(0) - SAMPLES).max() < 0.05


@given(hnp.arrays(float, (3, L - 1), elements=st.floats(0.01, 10)))
def test_a_gauge_can_always_be_inverted(speeds):
    ends = np.cumsum(speeds, axis=1) / speeds.sum(1, keepdims=True) * (L - 1)
    warps = np.concatenate([np.zeros((3, 1)), ends], axis=1)
    gauge = find_gauge(*moments(warps))
    assert np.diff(gauge).min() > 0
    assert_allclose(gauge[[0, -1]], [0, L - 1], atol=1e-6)


def test_gauges_of_several_atoms_are_those_of_each():
    each = [moments(warps) for warps in many_warps(60).reshape(3, 20, L)]
    together = jax.tree.map(lambda *parts: np.stack(parts), *(means for means, _ in each))
    gauges = find_gauge(together, np.full(3, 20.0))
    for gauge, own in zip(gauges, each, strict=True):
        assert_allclose(gauge, find_gauge(*own), atol=1e-9)


def test_the_expected_inverse_of_equal_warps_is_their_inverse():
    for bend in (0.0, 1.5):
        warp = SAMPLES + bend * SINES[:, 0]
        expected = np.interp(SAMPLES, warp, SAMPLES)
        assert_allclose(expected_inverse(warp, np.zeros(L)), expected, atol=1e-2 * bend + 1e-9)


def test_a_single_subject_is_centred_on_itself():
    warps = many_warps(1)
    assert np.abs(find_gauge(*moments(warps)) - warps[0]).max() < 0.05


def test_a_warp_that_stands_still_has_an_inverse():
    warp = np.minimum(SAMPLES, 10).astype(float)
    warp[-1] = L - 1
    inverse = in_double(fast_invert, warp)
    assert np.isfinite(inverse).all()
    assert_allclose(inverse[:10], SAMPLES[:10], atol=1e-9)
