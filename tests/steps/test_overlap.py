"""Statistics of overlapping codes: exact ones, and a bound that touches the true error."""

from functools import partial

import jax
import naive
import numpy as np
import pytest
from double import in_double
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from percdl.steps import overlap
from percdl.steps.dictionary import update_population
from percdl.steps.types import Signals

S, N, K, L, P = 3, 30, 2, 6, 2
V = N - L + 1

fast_exact = partial(in_double, jax.jit(overlap.overlap_statistics, static_argnums=2))
fast_bound = partial(in_double, jax.jit(overlap.overlapping_statistics))
fast_superpose = partial(in_double, jax.jit(overlap.superpose))


def draw(seed=0, n_weights=0, fractions=False, density=0.4):
    """Return x and weights (S, N, P), the signals, activations (S, K, V), atoms (S, K, L, P)."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((S, N, P))
    weights, observed = np.ones((S, N, 1)), None
    if n_weights:
        weights = (rng.random((S, N, n_weights)) < 0.6).astype(float)
        if fractions:
            weights = weights * rng.random(weights.shape)
        observed = weights
    weights = np.broadcast_to(weights, x.shape)
    activations = rng.standard_normal((S, K, V)) * (rng.random((S, K, V)) < density)
    atoms = rng.standard_normal((S, K, L, P))
    return x, weights, Signals(x * weights, np.full(S, N, np.int32), observed), activations, atoms


def squared_error(x, weights, activations, atoms):
    return np.sum(
        [naive.l1_cost(*each) for each in each_recording(x, weights, activations, atoms)]
    )


def each_recording(x, weights, activations, atoms):
    for s in range(S):
        yield x[s], atoms[s % len(atoms)], 0, weights[s], activations[s]


def bound(x, weights, statistics, atoms):
    """Return the right side of the bound, up to what does not depend on the atoms."""
    moment, weight, _ = statistics
    return np.sum(weight * atoms**2) - 2 * np.sum(moment * atoms)


MASKS = [(0, False), (1, False), (P, False), (1, True), (P, True)]


@pytest.mark.parametrize("shared", [False, True])
def test_superposition_equals_the_dense_product(shared):
    *_, activations, atoms = draw()
    atoms = atoms[:1] if shared else atoms
    fit = fast_superpose(activations, atoms)
    for s in range(S):
        matrix = naive.convolution_matrix(atoms[s % len(atoms)], N)
        assert_allclose(fit[s].ravel(), matrix @ activations[s].ravel(), atol=1e-12)


def test_exact_statistics_equal_direct_sums():
    x, _, signals, activations, _ = draw()
    ztx, ztz = fast_exact(signals, activations, L)
    assert ztz.shape == (S, K, K, 2 * L - 1)
    wide = np.pad(activations, ((0, 0), (0, 0), (L, L)))
    for lag in range(L):
        expected = np.einsum("skt,stp->skp", activations, x[:, lag : lag + V])
        assert_allclose(ztx[:, :, lag], expected, atol=1e-12)
    for tau in range(1 - L, L):
        later = wide[..., L + tau : L + tau + V]
        expected = np.einsum("skt,sjt->skj", activations, later)
        assert_allclose(ztz[..., tau + L - 1], expected, atol=1e-12)


def test_explained_is_the_fall_of_the_squared_error():
    x, weights, signals, activations, atoms = draw(seed=1)
    ztx, ztz = fast_exact(signals, activations, L)
    error = squared_error(x, weights, activations, atoms[:1])
    fall = np.sum(x**2) - error
    assert_allclose(overlap.explained(ztz.sum(0), ztx.sum(0), atoms[0]), fall)


def test_the_update_is_dense_least_squares():
    x, weights, signals, activations, atoms = draw(seed=2)
    ztx, ztz = (part.sum(0) for part in fast_exact(signals, activations, L))
    before = atoms[0].copy()
    updated = overlap.update_dictionary(ztz, ztx, atoms[0])
    matrix = np.concatenate([naive.activation_matrix(z, L) for z in activations])
    expected = np.linalg.lstsq(matrix, x.reshape(-1, P), rcond=None)[0]
    # The ridge is 1e-6 of the mean curvature.
    assert_allclose(updated, expected.reshape(K, L, P), atol=1e-4)
    assert_array_equal(atoms[0], before)
    least = squared_error(x, weights, activations, expected.reshape(1, K, L, P))
    assert_allclose(squared_error(x, weights, activations, updated[None]), least, rtol=1e-8)


@given(
    seed=st.integers(0, 2**16),
    density=st.floats(0.01, 1),
    single=st.booleans(),
    comb=st.booleans(),
)
def test_the_update_never_raises_the_squared_error(seed, density, single, comb):
    """Not even if codes are too few, or too regular, to determine the samples of atoms."""
    x, weights, signals, activations, atoms = draw(seed, density=density)
    if comb:
        activations = activations * 0 + (np.arange(V) % 2)
    statistics = fast_exact(signals, activations, L)
    if single:
        statistics = [part.astype(np.float32).astype(float) for part in statistics]
    ztx, ztz = (part.sum(0) for part in statistics)
    updated = overlap.update_dictionary(ztz, ztx, atoms[0])
    before = squared_error(x, weights, activations, atoms[:1])
    after = squared_error(x, weights, activations, updated[None])
    assert after <= before * (1 + 1e-6)


def test_atoms_too_large_are_bounded_and_still_fit_better():
    """At the best atoms of unit norm the slope points outwards, along the atoms themselves."""
    x, weights, signals, activations, atoms = draw(seed=4)
    old = atoms[0] / np.linalg.norm(atoms[0], axis=(1, 2), keepdims=True)
    ztx, ztz = (part.sum(0) for part in fast_exact(signals, activations, L))
    unbounded = overlap.update_dictionary(ztz, ztx, old)
    bound = 0.5 * np.linalg.norm(unbounded, axis=(1, 2)).min()
    old = bound * old
    for _ in range(20):
        updated = overlap.update_dictionary(ztz, ztx, old, bound)
        before, after = (squared_error(x, weights, activations, d[None]) for d in (old, updated))
        assert after <= before * (1 + 1e-12)
        old = updated
    assert_allclose(np.linalg.norm(updated, axis=(1, 2)), bound)
    step = 1e-6
    for k in range(K):
        direction = np.random.default_rng(k).standard_normal(updated.shape)
        direction -= (direction * updated).sum((1, 2), keepdims=True) / bound**2 * updated
        ends = [
            squared_error(x, weights, activations, (updated + e * direction)[None])
            for e in (step, -step)
        ]
        assert abs(ends[0] - ends[1]) / (2 * step) < 1e-3 * after


def test_an_atom_without_activations_is_kept():
    _, _, signals, activations, atoms = draw(seed=3)
    activations[:, 1] = 0
    ztx, ztz = (part.sum(0) for part in fast_exact(signals, activations, L))
    updated = overlap.update_dictionary(ztz, ztx, atoms[0])
    assert_array_equal(updated[1], atoms[0, 1])
    assert np.abs(updated[0] - atoms[0, 0]).max() > 0.1
    nothing = overlap.update_dictionary(0 * ztz, 0 * ztx, atoms[0])
    assert_array_equal(nothing, atoms[0])


@given(
    seed=st.integers(0, 2**16),
    mask=st.sampled_from(MASKS),
    density=st.floats(0.02, 1),
    reach=st.sampled_from([1e-3, 1.0, 30.0]),
)
def test_the_bound_is_above_the_squared_error_and_touches_it(seed, mask, density, reach):
    x, weights, signals, activations, atoms = draw(seed, *mask, density)
    statistics = fast_bound(signals, activations, atoms)
    here = squared_error(x, weights, activations, atoms)
    other = atoms + reach * np.random.default_rng(seed + 1).standard_normal(atoms.shape)
    there = squared_error(x, weights, activations, other)
    risen = bound(x, weights, statistics, other) - bound(x, weights, statistics, atoms)
    assert risen >= there - here - 1e-9 * (1 + there + here)
    # It touches from above, so their slopes agree: the distance is of second order.
    near = atoms + 1e-5 * (other - atoms) / reach
    risen = bound(x, weights, statistics, near) - bound(x, weights, statistics, atoms)
    truly = squared_error(x, weights, activations, near) - here
    assert abs(risen - truly) <= 1e-9 * (1 + np.sum(statistics.weight)) + 1e-12 * here


@pytest.mark.parametrize("mask", MASKS)
def test_atoms_that_minimize_the_bound_fit_better(mask):
    x, weights, signals, activations, atoms = draw(4, *mask)
    errors = [squared_error(x, weights, activations, atoms)]
    for _ in range(20):
        moment, weight, _ = fast_bound(signals, activations, atoms)
        seen = np.broadcast_to(weight > 0, moment.shape)
        atoms = np.where(seen, moment / np.where(weight > 0, weight, 1), atoms)
        errors.append(squared_error(x, weights, activations, atoms))
    assert (np.diff(errors) < 0).all()


@pytest.mark.parametrize("mask", MASKS)
def test_without_overlap_the_statistics_are_those_of_segments(mask):
    x, weights, signals, _, atoms = draw(5, *mask)
    rng = np.random.default_rng(6)
    onsets = np.array([0, L, 3 * L - 2, N - L])
    which, amplitude = rng.integers(0, K, (S, 4)), rng.standard_normal((S, 4))
    activations = np.zeros((S, K, V))
    for s in range(S):
        activations[s, which[s], onsets] = amplitude[s]
    statistics = fast_bound(signals, activations, atoms)
    for s in range(S):
        events = zip(onsets, which[s], amplitude[s], strict=True)
        moment, weight, count = naive.segment_statistics(x[s], weights[s], events, K, L)
        assert_allclose(statistics.moment[s], moment, atol=1e-12)
        weight = weight[..., : statistics.weight.shape[-1]]
        assert_allclose(statistics.weight[s], weight, atol=1e-12)
        assert_array_equal(statistics.count[s], count)


def test_both_updates_agree_without_overlap():
    """One step down the bound is then the exact update, and that is CDU."""
    _, _, signals, _, atoms = draw(7)
    activations = np.zeros((S, K, V))
    activations[:, 0, [0, 2 * L]] = 1.5
    activations[:, 1, L] = 0.7
    moment, weight, _ = fast_bound(signals, activations, atoms[:1])
    stepped, _ = update_population(moment.sum(0), weight.sum(0), atoms[0])
    ztx, ztz = (part.sum(0) for part in fast_exact(signals, activations, L))
    assert_allclose(overlap.update_dictionary(ztz, ztx, atoms[0]), stepped, rtol=1e-5, atol=1e-5)


def test_what_the_codes_cannot_tell_apart_stays_as_it_was():
    """Regular activations of both atoms see sums of samples only; the rest is as before."""
    _, _, signals, _, atoms = draw(8)
    activations = np.ones((S, K, V)) * (np.arange(V) % 2 == 0)
    values = 3 * fast_superpose(activations, atoms[:1])
    ztx, ztz = (
        part.sum(0) for part in fast_exact(signals._replace(values=values), activations, L)
    )
    assert_allclose(overlap.update_dictionary(ztz, ztx, atoms[0]), 3 * atoms[0], rtol=1e-6)


def test_what_is_never_seen_has_no_weight():
    """In single precision too: rounding of the FFT is no observation."""
    n_recordings, n_times, length, hidden = 20, 300, 25, 7
    rng = np.random.default_rng(9)
    onsets = [20, 120, 220]
    activations = np.zeros((n_recordings, 1, n_times - length + 1), np.float32)
    activations[:, :, onsets] = rng.uniform(0.1, 10, (n_recordings, 1, 3))
    observed = np.ones((n_recordings, n_times, 1), np.float32)
    observed[:, np.add(onsets, hidden)] = 0
    values = observed * rng.standard_normal(observed.shape).astype(np.float32)
    signals = Signals(values, np.full(n_recordings, n_times, np.int32), observed)
    atoms = rng.standard_normal((1, 1, length, 1)).astype(np.float32)
    program = jax.jit(overlap.overlapping_statistics)
    moment, weight, _ = (np.asarray(part) for part in program(signals, activations, atoms))
    seen = np.broadcast_to(np.arange(length) != hidden, (n_recordings, 1, length))
    assert_array_equal(weight[..., 0] > 0, seen)
    assert_array_equal(moment[:, :, hidden], 0)
    _, empty, count = program(signals, 0 * activations, atoms)
    assert_array_equal(empty, 0)
    assert_array_equal(count, 0)


def test_the_units_of_codes_are_undone_by_the_atoms():
    _, _, signals, activations, atoms = draw(seed=10)
    small = 2.0**-20
    ztx, ztz = (part.sum(0) for part in fast_exact(signals, activations, L))
    updated = overlap.update_dictionary(ztz, ztx, atoms[0])
    scaled = overlap.update_dictionary(small**2 * ztz, small * ztx, atoms[0] / small)
    assert_allclose(small * scaled, updated, rtol=1e-9)
