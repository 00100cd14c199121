"""The second level: cycles with known gains, shifts and warps are found again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from percdl.steps.cycles import (
    Cut,
    cut_cycles,
    delay_table,
    estimate_price,
    fit_cycles,
    read_delay,
)
from percdl.steps.types import Signals
from percdl.transforms import interpolation as interp

LENGTH, N_SINES, N_CYCLES = 24, 2, 64
SPREAD = np.array([0.2, 0.5, 0.6, 0.3])


def read(atom, at):
    return interp.read(jnp.asarray(atom), jnp.asarray(at), "cubic")[0]


def make_cycles(noise, seed=0):
    """Return cycles of one atom, and the numbers they were made with."""
    rng = np.random.default_rng(seed)
    time = np.arange(LENGTH)
    bumps = [np.exp(-((time - c) ** 2) / 8) for c in (6, 16)]
    atom = np.stack([bumps[0] - 0.6 * bumps[1], bumps[1]], axis=1)
    own = SPREAD * rng.standard_normal((N_CYCLES, 2 + N_SINES))
    at = np.clip(time - own[:, 1:] @ delay_table(LENGTH, N_SINES), 0, LENGTH - 1)
    clean = np.exp(own[:, 0])[:, None, None] * np.asarray(read(atom, at))
    segments = clean + noise * rng.standard_normal(clean.shape)
    atoms = np.broadcast_to(atom, segments.shape).copy()
    return Cut(segments, np.ones((N_CYCLES, LENGTH, 1)), atoms), own


def fit(cut, spread=SPREAD):
    table = delay_table(LENGTH, N_SINES)
    price = np.diag(1 / np.asarray(spread) ** 2)
    return fit_cycles(cut, table, price, np.zeros((len(cut.segment), len(price))))


@pytest.fixture(autouse=True)
def in_double():
    with jax.enable_x64(True):
        yield


def test_clean_cycles_are_found():
    cut, own = make_cycles(noise=1e-4)
    assert_allclose(np.asarray(fit(cut).own), own, atol=0.02)


def test_errors_are_as_large_as_the_posterior_says():
    cut, own = make_cycles(noise=0.05)
    known = fit(cut)
    variance = np.einsum("eii->ei", np.asarray(known.covariance))
    surprise = (np.asarray(known.own) - own) ** 2 / variance
    assert 0.7 < surprise.mean() < 1.4


def test_noisy_cycles_hardly_move():
    quiet, loud = (np.asarray(fit(make_cycles(noise)[0]).own) for noise in (0.01, 5.0))
    assert np.abs(loud[:, 1:]).mean() < 0.3 * np.abs(quiet[:, 1:]).mean()


def test_the_price_is_the_spread_of_the_cycles():
    cut, _ = make_cycles(noise=0.02)
    table, start = delay_table(LENGTH, N_SINES), np.zeros((N_CYCLES, 4))
    price = estimate_price(cut, table, start, np.ones(N_CYCLES))
    found = np.sqrt(np.diag(np.linalg.inv(price)))
    assert_allclose(found, SPREAD, rtol=0.35)


def test_missing_samples_do_not_count():
    cut, _ = make_cycles(noise=0.05)
    seen = np.ones_like(cut.seen)
    seen[:, 10:14] = 0
    spoilt = cut.segment.copy()
    spoilt[:, 10:14] = 1e3
    ways = [Cut(x * seen, seen, cut.atom) for x in (cut.segment, spoilt)]
    for one, other in zip(fit(ways[0]), fit(ways[1]), strict=True):
        assert_allclose(np.asarray(one), np.asarray(other))


def test_cycles_never_run_backwards():
    cut, _ = make_cycles(noise=0.5, seed=3)
    own = np.asarray(fit(cut, spread=[1, 1e3, 1e3, 1e3]).own)
    reached = np.arange(LENGTH) - own[:, 1:] @ delay_table(LENGTH, N_SINES)
    assert (np.diff(reached) > 0).all()


def test_delays_between_samples():
    own = SPREAD * np.random.default_rng(1).standard_normal((LENGTH, 4))
    time, small = np.arange(LENGTH), 1e-6
    delay, slope, basis = read_delay(own, time, LENGTH)
    assert_allclose(basis.T, delay_table(LENGTH, N_SINES), atol=1e-12)
    assert_allclose(delay, np.einsum("er,er->e", own[:, 1:], basis))
    after = read_delay(own, time + small, LENGTH)[0]
    assert_allclose((after - delay) / small, slope, atol=1e-5)


def test_cycles_as_long_as_the_atom_are_cut_as_they_are():
    x = np.random.default_rng(0).standard_normal((2, 60, 2))
    signals = Signals(jnp.asarray(x), jnp.array([60, 50]), None)
    row, onset, atoms = np.array([0, 1, 1]), np.array([5, 20, 40]), x[:, None, :16]
    atoms = np.where(np.arange(2)[:, None, None, None] == 0, np.nan, atoms)  # the first has none
    which, amplitude = np.zeros(3, int), np.array([0.0, 2.0, 1.0])
    cut = cut_cycles(signals, atoms, row, which, onset, np.full(3, 16.0), amplitude)
    segment, seen, own = cut
    assert_allclose(own, [np.zeros((16, 2)), 2 * x[1, :16], x[1, :16]])
    assert_allclose(segment[0], x[0, 5:21])
    assert_allclose(segment[1], x[1, 20:36])
    assert_allclose(segment[2, :10], x[1, 40:50])
    assert_allclose(seen[2, :, 0], np.arange(16) < 10)


def test_longer_cycles_are_read_at_fewer_times():
    x = np.random.default_rng(0).standard_normal((1, 60, 1))
    signals = Signals(jnp.asarray(x), jnp.array([60]), None)
    none, atoms = np.zeros(3, int), np.ones((1, 1, 16, 1))
    twice = cut_cycles(signals, atoms, none, none, none + 4, np.full(3, 31.0), np.ones(3)).segment
    assert_allclose(twice[0], x[0, 4:36:2])
