"""The unit a site computes in does not affect its results."""

import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.magnitude import N_LOOKED_AT, choose_unit, in_signal_units
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort
from percdl.steps.dictionary import normalize

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


def unit_of(*sizes, **options):
    return choose_unit(Cohort.from_arrays([[[0.0], [size]] for size in sizes]), **options)


def test_sizes_are_ordinary_up_to_powers_of_sixteen():
    """From 2**-16 on, up to but not including 2**17; beyond, the power of two below."""
    just_below = np.nextafter(2.0**17, 0)
    assert [unit_of(size) for size in (2.0**-16, 1.0, just_below)] == [1, 1, 1]
    assert [unit_of(size) for size in (2.0**17, 3 * 2.0**17)] == [2.0**17, 2.0**18]
    assert unit_of(np.nextafter(2.0**-16, 0)) == 2.0**-17
    assert unit_of(-(2.0**40)) == 2.0**40


def test_a_unit_has_an_inverse():
    for size in (5e-324, 2.0**-1001, 2.0**-1000):
        assert unit_of(size) == 2.0**-1000
    assert unit_of(2.0**-999) == 2.0**-999


def test_silent_and_missing_samples_have_no_size():
    assert unit_of(0.0, np.nan) == 1
    assert unit_of(0.0, np.nan, 0.0, 2.0**30, 0.0) == 2.0**30
    assert choose_unit(Cohort.from_arrays([[[np.nan], [2.0**30], [1.0]]])) == 2.0**30


def test_only_those_at_the_positions_are_looked_at():
    sizes = [2.0**30, 2.0**20, 2.0**40]
    for i, size in enumerate(sizes):
        assert unit_of(*sizes, positions=[i]) == size
    assert unit_of(*sizes, positions=np.array([0, 2, 2])) == 2.0**40


@pytest.mark.parametrize("count", [1, 5, 64, 200])
def test_few_recordings_are_looked_at_from_the_first_to_the_last(count):
    """All where they are few, and 64 of many, both ends among them."""
    sizes = 2.0 ** np.random.default_rng(count).integers(20, 100, count)
    among = np.linspace(0, count - 1, min(count, 64)).astype(int)
    assert unit_of(*sizes) == 2.0 ** np.floor(np.log2(np.median(sizes[among])))
