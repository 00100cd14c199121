"""A site: its sums do not depend on how it splits its subjects, and no subject gets worse."""

import jax
import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm.chunks import Shape
from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.local import Site
from percdl.algorithm.shapes import Forecast
from percdl.signals import Cohort
from percdl.transforms import Gain, TimeWarp

WARP = TimeWarp(1, 3)


def site(n_subjects=3, settings=None, rows=16, block_rows=16, **options):
    cohort = Cohort.from_arrays(toy.recordings(0, [40] * n_subjects))
    shape = Shape(rows, 2**20, block_rows)
    settings = settings or toy.settings(WARP)
    with jax.enable_x64(True):
        return Site(cohort, settings, shape, **({"resident": False} | options))


def rounds(own, misfit):
    """Return the sums of a population round and of two personal ones."""
    first = Broadcast(toy.patterns())
    second = Broadcast(toy.patterns(), move=np.zeros(2, int), misfit=misfit)
    with jax.enable_x64(True):
        return own.population_round(first), own.personal_round(first), own.personal_round(second)


@pytest.fixture(scope="module")
def reference():
    """A site of 20 subjects in two chunks and two blocks, and its sums."""
    own = site(20)
    assert len(own.chunks) == len(own.blocks) == 2
    return own, rounds(own, np.full(2, 0.1))


@pytest.mark.parametrize("options", [{"block_rows": 32}, {"resident": True}], ids=str)
def test_sums_do_not_depend_on_blocks_nor_on_where_the_data_is(reference, options):
    own, expected = reference
    other = site(20, **options)
    for ours, theirs in zip(rounds(other, np.full(2, 0.1)), expected, strict=True):
        for name, value in vars(ours).items():
            assert_allclose(value, getattr(theirs, name), rtol=1e-9, atol=1e-9, err_msg=name)
    for name in ("params", "amplitude"):
        pair = [getattr(x.results(), name) for x in (other, own)]
        assert_allclose(*pair, atol=1e-7)


def test_no_recording_gets_worse(reference):
    """In every chunk of every block, whatever the dictionary: else it keeps what it had."""
    own = site(20)
    with jax.enable_x64(True):
        own.population_round(Broadcast(toy.patterns()))
        before = objectives(own)
        own.personal_round(Broadcast(toy.patterns()))
    after = objectives(own)
    energy = np.concatenate([own.coded[index].energy for index in range(2)])
    assert (after <= before + 1e-6 * energy).all()
    assert (after < 0.9 * before).any()


def objectives(own):
    return np.concatenate([own.coded[index].objective for index in range(len(own.chunks))])


def test_a_site_of_some_of_a_cohort_counts_as_the_whole():
    own = site()
    assert (own.unit, own.n_masks) == (1.0, 0)
    other = site(unit=4.0, n_masks=2, settings=toy.settings(WARP, penalty=1.6, delta=8.0))
    assert (other.unit, other.n_masks) == (4.0, 2)
    assert (other.settings.penalty, other.settings.delta) == (0.1, 2.0)


def carried(transform, n_channels, params, **gauges):
    """Return what becomes of the parameters of a block when a broadcast has these gauges."""
    cohort = Cohort.from_arrays(toy.recordings(0, [40] * 3, n_channels))
    settings, dictionary = toy.settings(transform, n_channels), toy.patterns(n_channels)
    own = Site(cohort, settings, Shape(16, 2**20, 16), resident=False)
    (block,) = own.blocks
    with jax.enable_x64(True):
        own.population_round(Broadcast(dictionary))
        block.params = params
        given = Broadcast(dictionary, **gauges), dictionary, block, own._statistics(block)
        return np.asarray(own._prepare(*given).params)


def test_gauges_carry_parameters_over_where_there_are_some():
    params = np.random.default_rng(0).uniform(-0.2, 0.2, (16, 2, WARP.width))
    identity = np.tile(np.arange(toy.LENGTH, dtype=float), (2, 1, 1))
    assert_array_equal(carried(WARP, 1, params), params)
    assert_allclose(carried(WARP, 1, params, gauge=identity), params, atol=1e-6)
    bent = identity + np.sin(np.pi * identity / (toy.LENGTH - 1))
    assert np.abs(carried(WARP, 1, params, gauge=bent) - params).max() > 0.1
    gains, mixing = params[..., :2], np.array([[0.3, -0.3], [-0.2, 0.2]])
    assert_array_equal(carried(Gain(), 2, gains), gains)
    assert_allclose(carried(Gain(), 2, gains, mixing_gauge=mixing), gains - mixing, atol=1e-15)


def test_blocks_of_any_size_count_as_compiled_once_they_were_used(reference):
    del reference  # has compiled IPU for blocks of 16 rows
    with jax.enable_x64(True):
        known = Forecast(toy.settings(WARP), 0)
        assert [known.is_block_compiled(rows) for rows in (16, 32)] == [True, False]
        unknown = Forecast(toy.settings(TimeWarp(1, 4), n_atoms=1), 0)
        assert not unknown.is_block_compiled(16)
