"""CDU is a least-squares fit of the common atoms to their segments."""

import naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from percdl.steps.dictionary import normalize, population_explained, update_population

K, L, P, J = 2, 6, 2, 5


def segments(masked, seed=0, length=L):
    """Return J segments of each atom (K, J, L, P), what is seen of them, and amplitudes."""
    rng = np.random.default_rng(seed)
    cut = rng.standard_normal((K, J, length, P))
    seen = np.ones_like(cut)
    if masked:
        seen[:, 1:] = rng.random(seen[:, 1:].shape) < 0.6  # each sample is seen at least once
    return cut * seen, seen, rng.uniform(0.5, 2, (K, J))


def sums(cut, seen, amplitude):
    return np.einsum("kj,kjlp->klp", amplitude, cut), np.einsum("kj,kjlp->klp", amplitude**2, seen)


@pytest.mark.parametrize("masked", [False, True])
def test_update_is_the_dense_least_squares_solution(masked):
    cut, seen, amplitude = segments(masked)
    moment, weight = sums(cut, seen, amplitude)
    if not masked:
        weight = weight[..., :1]
    updated, moves = update_population(moment, weight, np.ones((K, L, P)))
    identity = np.broadcast_to(np.eye(L * P), (J, L * P, L * P))
    for k in range(K):
        expected = naive.least_squares_atom(cut[k], seen[k], amplitude[k], identity)
        assert_allclose(updated[k], expected, atol=1e-12)
    assert_array_equal(moves, 0)


@pytest.mark.parametrize("masked", [False, True])
def test_explained_is_the_fall_of_the_squared_error(masked):
    cut, seen, amplitude = segments(masked, seed=1)
    moment, weight = sums(cut, seen, amplitude)
    updated, _ = update_population(moment, weight, np.ones((K, L, P)))
    residual = seen * (cut - amplitude[..., None, None] * updated[:, None])
    assert_allclose(population_explained(moment, weight), np.sum(cut**2) - np.sum(residual**2))


def test_an_atom_without_activations_is_kept():
    cut, seen, amplitude = segments(False, seed=2)
    amplitude[1] = 0
    old = np.random.default_rng(3).standard_normal((K, L, P))
    before = old.copy()
    updated, _ = update_population(*sums(cut, seen, amplitude), old)
    assert_array_equal(updated[1], old[1])
    assert np.abs(updated[0] - old[0]).max() > 0.1
    assert_array_equal(old, before)


@pytest.mark.parametrize("offset", [-3, -1, 0, 2, 3])
def test_an_atom_moves_to_the_window_of_largest_energy(offset):
    margin = 3
    shape = np.zeros((1, L + 2 * margin, P))
    shape[:, margin + offset : margin + offset + L] = 1 + np.arange(L)[:, None]
    updated, moves = update_population(2 * shape, np.full((1, 12, 1), 4.0), np.ones((1, L, P)))
    assert_array_equal(moves, [offset])
    assert_allclose(updated[0], (1 + np.arange(L)[:, None]) / 2 * np.ones(P))


def test_an_atom_stays_where_a_move_gains_nothing():
    _, moves = update_population(np.ones((K, 12, P)), np.ones((K, 12, 1)), np.ones((K, L, P)))
    assert_array_equal(moves, 0)


def test_windows_move_as_they_are_told():
    rng = np.random.default_rng(6)
    moment, weight = rng.standard_normal((K, 12, P)), np.full((K, 12, 1), 2.0)
    told = np.array([-3, 1])
    updated, moves = update_population(moment, weight, np.ones((K, L, P)), told)
    assert_array_equal(moves, told)
    assert_array_equal(updated, [moment[0, :L] / 2, moment[1, 4 : 4 + L] / 2])


def test_normalized_atoms_have_unit_norm_unless_they_are_zero():
    atoms = np.random.default_rng(4).standard_normal((3, L, P))
    atoms[1] = 0
    unit = normalize(atoms)
    assert_allclose(np.sum(unit**2, axis=(1, 2)), [1, 0, 1])
    assert_allclose(unit * np.sqrt(np.sum(atoms**2, axis=(1, 2), keepdims=True)), atoms)


def test_units_play_no_part():
    cut, seen, amplitude = segments(True, seed=5)
    moment, weight = sums(cut, seen, amplitude)
    old, small = np.ones((K, L, P)), 2.0**-20
    atoms, _ = update_population(moment, weight, old)
    tiny, _ = update_population(small * moment, small * weight, old)
    assert_array_equal(tiny, atoms)
    assert_allclose(
        population_explained(small * moment, small * weight),
        small * population_explained(moment, weight),
    )
    assert_array_equal(normalize(small * atoms), normalize(atoms))
