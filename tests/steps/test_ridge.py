import numpy as np
import pytest
from numpy.testing import assert_allclose

from percdl.steps.ridge import solve_towards


@pytest.mark.parametrize("seed", range(5))
def test_a_regular_system_is_solved(seed):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(9, 6))
    system, truth = half.T @ half, rng.normal(size=(6, 2))
    found = solve_towards(system, system @ truth, rng.normal(size=(6, 2)), 1e-12)
    assert_allclose(found, truth, rtol=1e-6, atol=1e-8)


def test_what_no_data_speak_of_stays_as_it_was_at_the_new_level():
    system = np.diag([1.0, 1.0, 0.0])
    old = np.array([[1.0], [1.0], [5.0]])
    assert_allclose(solve_towards(system, 3 * system @ old, old, 1e-10), 3 * old)


def test_a_system_made_indefinite_by_rounding_is_still_solved():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    values = np.array([1, 1, 1, 0.5, 0.0, -3e-7])
    system = (basis * values) @ basis.T
    truth = basis[:, :3] @ rng.normal(size=(3, 1))
    found = solve_towards(system, system @ truth, truth, 1e-8)
    assert_allclose(found, truth, atol=1e-4)
