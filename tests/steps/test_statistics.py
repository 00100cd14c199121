"""The two sufficient statistics say all there is to know of the segments."""

import jax
import naive
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.steps.statistics import at_shift, core, segment_statistics
from percdl.steps.types import Events, Signals

S, N, P, K, L, R = 4, 24, 2, 2, 5, 3
MASKS = [None, 1, P]

fast_statistics = jax.jit(segment_statistics, static_argnums=(2, 3, 4))


def problem(mask, seed=0):
    """Return signals of unequal lengths, full masks (S, N, P), and codes with an empty slot."""
    rng = np.random.default_rng(seed)
    lengths = np.array([N, N - 1, N - 4, 0])
    inside = (np.arange(N) < lengths[:, None])[..., None]
    observed = inside if mask is None else inside & (rng.random((S, N, mask)) < 0.7)
    x = rng.standard_normal((S, N, P)) * observed
    # Events touch both ends, so that the margins reach outside; the last slot is empty.
    onset = np.stack([np.zeros(S), np.full(S, 8), lengths - L, np.full(S, N)], axis=1).astype(int)
    amplitude = rng.uniform(-2, 2, onset.shape)
    onset[3], amplitude[:, 3], amplitude[3] = N, 0, 0
    events = Events(onset, rng.integers(0, K, onset.shape), amplitude)
    given = None if mask is None else observed.astype(float)
    full = np.broadcast_to(observed, x.shape).astype(float)
    return Signals(x, lengths, given), events, full


def triples(events, row):
    taken = events.amplitude[row] != 0
    return list(zip(*(part[row][taken] for part in events[:3]), strict=True))


@pytest.mark.parametrize("margin", [0, R])
@pytest.mark.parametrize("mask", MASKS)
def test_statistics_equal_the_direct_sums(mask, margin):
    signals, events, observed = problem(mask)
    moment, weight, count = in_double(fast_statistics, signals, events, K, L, margin)
    assert weight.shape[-1] == (mask or 1)
    for s, n in enumerate(signals.lengths):
        expected = naive.segment_statistics(
            signals.values[s, :n], observed[s, :n], triples(events, s), K, L, margin
        )
        assert_allclose(moment[s], expected[0], atol=1e-12)
        assert_allclose(np.broadcast_to(weight[s], moment[s].shape), expected[1], atol=1e-12)
        assert_array_equal(count[s], expected[2])


@pytest.mark.parametrize("mask", MASKS)
def test_residual_of_any_atom_follows_from_the_statistics(mask):
    """``sum_j |y_j - z_j g|^2 = sum_j |y_j|^2 - 2 <m, g> + <w, g^2>``."""
    signals, events, observed = problem(mask, seed=1)
    moment, weight, _ = in_double(fast_statistics, signals, events, K, L, 0)
    atoms = np.random.default_rng(2).standard_normal((K, L, P))
    for s in range(S):
        codes = triples(events, s)
        cut, seen = naive.segments(signals.values[s], observed[s], [e[0] for e in codes], L)
        for k, atom in enumerate(atoms):
            mine = [j for j, event in enumerate(codes) if event[1] == k]
            residual = sum(np.sum(seen[j] * (cut[j] - codes[j][2] * atom) ** 2) for j in mine)
            energy = sum(np.sum(seen[j] * cut[j] ** 2) for j in mine)
            predicted = energy - 2 * np.sum(moment[s, k] * atom) + np.sum(weight[s, k] * atom**2)
            assert_allclose(predicted, residual, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mask", MASKS)
def test_margins_tell_the_statistics_of_moved_onsets(mask):
    signals, events, _ = problem(mask, seed=3)
    events = events._replace(onset=np.where(events.amplitude != 0, 8, N))  # room to move
    wide = in_double(fast_statistics, signals, events, K, L, R)
    cut = jax.jit(at_shift, static_argnums=2)
    for shift in range(-R, R + 1):
        moved = events._replace(onset=np.where(events.amplitude != 0, 8 + shift, N))
        expected = in_double(fast_statistics, signals, moved, K, L, 0)
        for field in ("moment", "weight"):
            stacked = getattr(wide, field)[:, 0]
            ours = in_double(cut, stacked, np.full(S, shift), L)
            assert_allclose(ours, getattr(expected, field)[:, 0], atol=1e-12)


def test_core_is_the_window_without_margins():
    signals, events, _ = problem(P, seed=4)
    wide = in_double(fast_statistics, signals, events, K, L, R)
    narrow = in_double(fast_statistics, signals, events, K, L, 0)
    assert_array_equal(in_double(core, wide.moment, L), narrow.moment)
    assert_array_equal(in_double(core, wide.weight, L), narrow.weight)
    assert_array_equal(in_double(core, narrow.moment, L), narrow.moment)
    unmoved = in_double(at_shift, narrow.moment[:, 1], np.zeros(S, int), L)
    assert_array_equal(unmoved, narrow.moment[:, 1])


def test_a_row_that_only_fills_the_chunk_adds_nothing():
    signals, events, _ = problem(1, seed=5)
    moment, weight, count = in_double(fast_statistics, signals, events, K, L, R)
    assert not moment[3].any()
    assert not weight[3].any()
    assert not count[3].any()
    assert count[:3].sum() == 9
