"""The sines that warps are made of, and warps fitted to targets."""

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.transforms import Compose, Gain, TimeWarp
from percdl.transforms.sine_layers import (
    MAX_UNKNOWNS,
    grid,
    in_samples,
    sine_coefficients,
    sines,
    tie_layers,
)

L, W, B = 12, 4, 3
TIME = np.arange(L) / (L - 1)


def coefficients(shape, size=0.2, seed=0):
    return size * np.random.default_rng(seed).uniform(-1, 1, shape)


def call(method, *args):
    """Call a method of a warp, compiled for two channels where it is told their number."""
    static = {"warp": (L, 2), "follow": (2,)}.get(method.__name__, ())
    return in_double(jax.jit(lambda *arrays: method(*arrays, *static)), *args)


def test_sines_are_told_apart_exactly():
    """They are orthogonal on the sampling times, so a curve determines its coefficients."""
    order = np.arange(1, W + 1)
    table = np.sin(np.pi * order[:, None] * TIME) / (np.pi * order[:, None])
    assert_allclose(in_double(sines, TIME, W), table, atol=1e-14)
    wanted = coefficients((B, W))
    assert_allclose(in_double(sine_coefficients, wanted @ table, W), wanted, atol=1e-13)


def test_times_run_from_zero_to_one_and_samples_to_the_last():
    assert_allclose(in_double(lambda: grid(L, float)), TIME, rtol=1e-15)
    away = np.array([-2.0, 0.5, 2.0])[:, None] * np.ones(L)
    expected = np.clip(np.arange(L) + (L - 1) * away, 0, L - 1)
    assert_array_equal(in_double(in_samples, away, L), expected)


@pytest.mark.parametrize("per_channel", [False, True])
def test_one_layer_is_whatever_warp_it_is_told(per_channel):
    warp = TimeWarp(1, W, per_channel=per_channel)
    params = coefficients((B, warp.n_params(L, 2)))
    target = call(warp.warp, params)
    assert_allclose(call(warp.approximate, target), params, atol=1e-12)
    # A subject that is not warped is warped by what it is to follow.
    followed = call(warp.follow, np.zeros_like(params), target[1])
    assert_allclose(followed, np.tile(params[1], (B, 1)), atol=1e-12)


@pytest.mark.parametrize("per_channel", [False, True])
def test_several_layers_come_close(per_channel):
    warp = TimeWarp(3, W, per_channel=per_channel)
    params = coefficients((B, warp.n_params(L, 2)), 0.1)
    target = call(warp.warp, params)
    moved = np.abs(target - np.arange(L)).max()
    reached = call(warp.warp, call(warp.approximate, target))
    assert np.abs(reached - target).max() < 0.05 * moved
    outer = target[0]
    followed = call(warp.warp, call(warp.follow, params, outer))
    read = [[np.interp(psi, range(L), o) for psi, o in zip(s, outer, strict=True)] for s in target]
    assert np.abs(followed - read).max() < 0.1 * np.abs(outer - np.arange(L)).max()


def test_directions_move_the_layers_one_by_one():
    """Without a turn they are the derivatives of the formula, layer by layer and sine by sine."""
    warp = TimeWarp(2, 3)
    params, step = coefficients(6), 1e-6
    point = call(warp.evaluate, params, np.ones((L, 1)))
    found = call(warp.directions, point)[0]
    for m in range(6):
        nudge = (step * np.eye(6)[m]).reshape(2, 3)
        ends = [naive.warp(params.reshape(2, 3) + sign * nudge, L) for sign in (1, -1)]
        assert_allclose(found[m], (ends[0] - ends[1]) / (2 * step), atol=1e-7)


def test_layers_wider_than_a_step_may_be_move_all_alike():
    for width, n_groups in ((MAX_UNKNOWNS, 1), (MAX_UNKNOWNS + 8, 1), (MAX_UNKNOWNS // 2, 2)):
        assert tie_layers(5, width, 0).n_groups == n_groups
    assert tie_layers(5, MAX_UNKNOWNS, None).n_groups == 5


def test_prices_follow_the_unit_of_the_signals():
    warp = TimeWarp(2, 3, per_channel=True, roughness=0.7)
    params = coefficients((B, warp.n_params(L, 2)))
    price = in_double(warp.price, params)
    order = np.tile(np.arange(1, 4), 4)
    assert_allclose(price, 0.7 * np.sum((np.pi * order * params) ** 2, axis=1) / 2)
    assert_allclose(in_double(warp.reprice(3.0).price, params), 9 * price)
    both = Compose(warp, Gain())
    more = np.concatenate([params, coefficients((B, 2))], axis=1)
    assert_allclose(in_double(both.reprice(0.5).price, more), price / 4)
    assert Compose(TimeWarp(2, 3), Gain()).price(jnp.zeros((B, 8))) is None
