"""What is kept of codes: their best amplitude, and new ones only where they are no worse."""

import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm.coding import Coded, choose, keep, measure_energy, no_worse
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


def test_each_recording_takes_new_codes_or_keeps_its_own():
    new, old = coded(1), coded(2)
    accept = np.array([True, False, True])
    kept = in_double(keep, old, AMPLITUDE, EXPLAINED)
    chosen = in_double(choose, accept, new, old, AMPLITUDE, EXPLAINED)
    for row, source in enumerate((new, kept, new)):
        for name in ("energy", "unexplained", "objective"):
            assert getattr(chosen, name)[row] == getattr(source, name)[row]
        for ours, theirs in zip(chosen.events, source.events, strict=True):
            assert_array_equal(ours[row], theirs[row])
        for ours, theirs in zip(chosen.statistics, source.statistics, strict=True):
            assert_array_equal(ours[row], theirs[row])


@pytest.mark.parametrize("energy", [1e-6, 1.0, 1e6])
def test_codes_are_refused_where_they_are_worse_beyond_rounding(energy):
    """By more than a millionth of the energy, the price of the new parameters included."""
    old = coded(3)._replace(energy=np.full(S, energy), unexplained=np.full(S, 0.9 * energy))
    reached = 0.7 * energy
    worse = np.array([-0.1, 0.9e-6, 1.1e-6]) * energy
    price = np.array([[0.05, 0.1]] * S) * energy
    new = coded(4)._replace(objective=reached + worse - 0.15 * energy)
    explained = np.array([[0.15, 0.05]] * S) * energy
    assert_array_equal(no_worse(new, old, explained, price), [True, True, False])


def test_energy_is_that_of_each_recording():
    values = np.arange(12.0).reshape(2, 3, 2)
    signals = Signals(values, np.array([3, 3], np.int32), None)
    assert_array_equal(in_double(measure_energy, signals), (values**2).sum((1, 2)))
