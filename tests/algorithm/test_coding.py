"""What is kept of codes: their best amplitude, and new ones only where they are no worse."""

import jax
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm.coding import Coded, accept, judge, keep, measure_energy
from percdl.algorithm.programs import Fitted, Prepared
from percdl.steps.types import Events, Signals, Statistics

S, E, K, L = 3, 4, 2, 5


def coded(seed):
    rng = np.random.default_rng(seed)
    atom = np.tile([0, 1, 1, 0], (S, 1)).astype(np.int32)
    return Coded(
        Events(rng.integers(0, 9, (S, E)).astype(np.int32), atom, rng.uniform(1, 2, (S, E))),
        Statistics(
            rng.standard_normal((S, K, L, 1)),
            rng.uniform(1, 2, (S, K, L, 1)),
            rng.integers(1, 5, (S, K)).astype(np.int32),
        ),
        *rng.uniform(1, 2, (3, S)),
    )


AMPLITUDE = np.array([[2.0, 0.5], [3.0, 0.25], [1.0, 4.0]])
EXPLAINED = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])


def test_old_codes_take_the_best_amplitude_of_each_atom():
    before = coded(0)
    after = in_double(keep, before, AMPLITUDE, EXPLAINED)
    for s in range(S):
        for e in range(E):
            factor = AMPLITUDE[s, before.events.atom[s, e]]
            assert after.events.amplitude[s, e] == before.events.amplitude[s, e] * factor
        for k in range(K):
            factor = AMPLITUDE[s, k]
            moment, weight, _ = before.statistics
            assert_array_equal(after.statistics.moment[s, k], moment[s, k] * factor)
            assert_array_equal(after.statistics.weight[s, k], weight[s, k] * factor**2)
    assert_allclose(after.objective, before.unexplained - [0.3, 0.7, 1.1])
    for name in ("onset", "atom"):
        assert_array_equal(getattr(after.events, name), getattr(before.events, name))
    assert_array_equal(after.statistics.count, before.statistics.count)
    assert_array_equal(after.energy, before.energy)
    assert_array_equal(after.unexplained, before.unexplained)


def personal(seed, explained, price=0.0):
    """Return the recordings before and after IPU, each with its own parameters."""
    params = np.random.default_rng(seed).standard_normal((2, S, K, 3))
    price = np.broadcast_to(price, (S, K))
    nothing = np.zeros((S, K))
    before = Prepared(params[0], explained, nothing, AMPLITUDE, nothing, nothing > 0, nothing)
    return before, Fitted(params[1], 2 * explained, price, nothing, np.zeros((S, K, L, 1)))


@pytest.mark.parametrize("energy", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("always", [False, True])
def test_each_recording_takes_new_codes_or_keeps_its_own(energy, always):
    """It keeps them where new ones are worse by more than a millionth of the energy.

    The price of the new parameters counts, and what is kept takes its best amplitude.
    """
    old = coded(3)._replace(energy=np.full(S, energy), unexplained=np.full(S, 0.9 * energy))
    explained, price = np.array([[0.15, 0.05]] * S) * energy, np.array([0.05, 0.1]) * energy
    worse = np.array([-0.1, 0.9e-6, 1.1e-6]) * energy
    new = coded(4)._replace(objective=0.7 * energy + worse - 0.15 * energy)
    before, fitted = personal(5, explained, price)
    kept = in_double(keep, old, AMPLITUDE, explained)
    taken, objective_fitted = in_double(judge, new, old, before, fitted, always)
    assert_allclose(objective_fitted, 0.5 * energy)
    assert_array_equal(taken, [True, True, always])
    codes, found = in_double(accept, taken, new, old, before, fitted)
    for row, is_taken in enumerate([True, True, always]):
        source, params = (new, fitted.params) if is_taken else (kept, before.params)
        assert_array_equal(found[row], params[row])
        for ours, theirs in zip(jax.tree.leaves(codes), jax.tree.leaves(source), strict=True):
            assert_array_equal(ours[row], theirs[row])


def test_energy_is_that_of_each_recording():
    values = np.arange(12.0).reshape(2, 3, 2)
    signals = Signals(values, np.array([3, 3], np.int32), None)
    assert_array_equal(in_double(measure_energy, signals), (values**2).sum((1, 2)))
