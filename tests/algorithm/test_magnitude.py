"""The unit a site computes in leaves no trace in what it tells."""

import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.magnitude import N_LOOKED_AT, choose_unit, in_signal_units
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort
from percdl.steps.cdu import normalize

ARRAYS = toy.recordings(0, (90, 100, 110))
ATOMS = normalize(toy.first_guess(0))


def first_sums(scale, **options):
    chosen = toy.settings(penalty=0.3 * scale**2, **options)
    arrays = [scale * x for x in ARRAYS]
    return InProcess(Cohort.from_arrays(arrays), chosen).population_round(Broadcast(ATOMS))


@pytest.mark.parametrize("exponent", [-40, 40])
def test_sums_come_in_the_units_of_the_signals(exponent):
    scale = 2.0**exponent
    plain, scaled = first_sums(1.0), first_sums(scale)
    for name in ("objective", "energy", "signal", "moment", "weight"):
        assert_array_equal(getattr(scaled, name), getattr(plain, name) * scale**2)
    assert_array_equal(scaled.counts, plain.counts)


def test_where_every_subject_counts_once_its_size_does_not_matter():
    plain, scaled = (first_sums(scale, weighting="subjects") for scale in (1.0, 3.0))
    for name in ("moment", "weight"):
        assert_allclose(getattr(scaled, name), getattr(plain, name), rtol=1e-9)


def test_the_middle_recording_tells_the_size():
    sizes = [1.0, 2.0**30, 2.0**30, 2.0**30, 2.0**60]
    assert choose_unit(Cohort.from_arrays([[[0.0], [size]] for size in sizes])) == 2.0**30


def test_recordings_from_first_to_last_are_looked_at():
    sizes = np.repeat([1.0, 2.0**30], [N_LOOKED_AT, 3 * N_LOOKED_AT])
    assert choose_unit(Cohort.from_arrays([[[0.0], [size]] for size in sizes])) == 2.0**30


@pytest.mark.parametrize("unit", [1.0, 2.0, 0.5])
def test_a_unit_enters_squared(unit):
    sums = Sums(3.0, 4.0, 5.0, 6.0, np.array([2.0]), moment=np.ones(2), misfit=np.ones((1, 2)))
    given = in_signal_units(sums, unit, by_subject=False)
    assert (given.objective, given.objective_fitted) == (3 * unit**2, 4 * unit**2)
    assert (given.energy, given.signal) == (5 * unit**2, 6 * unit**2)
    assert_array_equal(given.moment, unit**2)
    assert_array_equal(given.misfit, unit**2)
    assert_array_equal(given.counts, 2)
    assert_array_equal(in_signal_units(sums, unit, by_subject=True).moment, 1)
