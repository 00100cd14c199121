"""Every function that draws takes the same kinds of seed, and means the same by them."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from small_models import make, spaced_cohort, spaced_recordings

import percdl
from percdl import Cohort, analysis, datasets, make_synthetic
from percdl.seeds import Seed, as_generator, as_random_state

CALLABLES = {
    **{f"percdl.{name}": getattr(percdl, name) for name in percdl.__all__},
    **{f"analysis.{name}": getattr(analysis, name) for name in analysis.__all__},
    **{f"datasets.{name}": getattr(datasets, name) for name in datasets.__all__},
    "Cohort.split": Cohort.split,
}
DRAWING = {
    name: function
    for name, function in CALLABLES.items()
    if inspect.isfunction(function) and "random_state" in inspect.signature(function).parameters
}


def synthetic(seed):
    return np.stack([x.values for x in make_synthetic(2, 300, random_state=seed).cohort])


def split(seed):
    train, _ = Cohort.from_arrays(np.eye(30)).split(random_state=seed)
    return np.asarray(train.subjects)


def fit(seed):
    return make("PopCDL", init="auto", random_state=seed).fit(spaced_cohort(0)).dictionary_


@pytest.mark.parametrize("name", DRAWING)
def test_the_kinds_are_declared_once(name):
    annotation = inspect.signature(DRAWING[name]).parameters["random_state"].annotation
    assert annotation in (Seed, "Seed")


def test_there_is_something_to_declare():
    assert {"percdl.make_synthetic", "Cohort.split", "analysis.compare_groups"} <= set(DRAWING)


@pytest.mark.parametrize("draw", [synthetic, split, fit])
@pytest.mark.parametrize("kind", [int, np.int64, np.random.default_rng, np.random.RandomState])
def test_equal_seeds_give_equal_draws(draw, kind):
    assert_array_equal(draw(kind(7)), draw(kind(7)))


@pytest.mark.parametrize("draw", [synthetic, split])
@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_a_generator_moves_on(draw, kind):
    generator = kind(7)
    assert not np.array_equal(draw(generator), draw(generator))


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_one_kind_is_seeded_by_the_other(kind):
    for convert in (as_generator, as_random_state):
        first, second = (convert(kind(seed)).bytes(64) for seed in (0, 1))
        assert first == convert(kind(0)).bytes(64)
        assert first != second


def test_validation_draws_nothing():
    generator = np.random.default_rng(0)
    before = generator.bit_generator.state
    percdl.estimators.validation.check_arguments(make("PopCDL", random_state=generator))
    assert generator.bit_generator.state == before


def test_the_typed_client_runs(tmp_path):
    import typed_client

    assert typed_client.main(spaced_recordings(0), tmp_path) == (4, 2, 3)
