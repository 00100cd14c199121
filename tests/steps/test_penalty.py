"""The automatic penalty follows the noise and the units, and keeps what is there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_models
import toy
from numpy.testing import assert_allclose

from percdl.exceptions import InvalidParameterError
from percdl.steps.csc import L0Coder, encode
from percdl.steps.penalty import choose_penalty, largest_penalty, noise_variance
from percdl.steps.types import Signals

RULES = L0Coder()
ATOMS = toy.patterns() / np.linalg.norm(toy.patterns(), axis=1, keepdims=True)


def signals(noise, seed=0, scale=1.0):
    arrays = small_models.spaced_recordings(seed, lengths=(128,) * 4, noise=noise, bend=0.0)
    return Signals(scale * np.stack(arrays), np.full(4, 128, np.int32), None)


def code(some, price):
    return jax.jit(lambda x, phi: encode(x, phi, jnp.asarray(price), RULES)[0])(some, ATOMS[None])


@pytest.mark.parametrize("noise", [0.05, 0.2])
def test_the_noise_is_measured(noise):
    found = noise_variance(signals(noise), ATOMS, RULES)
    # Codes at no price explain a little of the noise as well.
    assert 0.5 * noise**2 < found < 1.2 * noise**2


def test_amplitudes_are_not_noise():
    """Cycles that differ in size alone are explained by their common shape, whatever it is."""
    rng = np.random.default_rng(0)
    shape = ATOMS[0] + 0.1 * rng.standard_normal(ATOMS[0].shape)
    x = np.concatenate([a * shape for a in (2.0, 3.0, 5.0, 7.0)])[None]
    found = noise_variance(Signals(x, np.full(1, len(x[0]), np.int32), None), ATOMS[:1], RULES)
    assert found < 1e-8


def test_the_penalty_is_in_squared_units():
    for choose in (choose_penalty, largest_penalty):
        one, ten = (choose(signals(0.1, scale=c), ATOMS, RULES) for c in (1.0, 10.0))
        assert_allclose(ten, 100 * one, rtol=1e-4)


def test_more_noise_costs_more():
    prices = [choose_penalty(signals(noise), ATOMS, RULES) for noise in (0.01, 0.1, 0.3)]
    assert prices == sorted(prices)


def test_noise_alone_is_hardly_ever_coded():
    rng = np.random.default_rng(0)
    pure = Signals(rng.standard_normal((200, 128, 1)), np.full(200, 128, np.int32), None)
    # The price of known noise, not of what a code at no price has left of it.
    price = 2 * np.log(2 * (128 - toy.LENGTH + 1)) + np.log(toy.LENGTH)
    events = code(pure, price)
    assert np.mean(np.asarray(events.amplitude) != 0) * events.amplitude.shape[1] < 0.05


def test_nothing_is_left_above_the_largest_penalty():
    some = signals(0.1)
    most = largest_penalty(some, ATOMS, RULES)
    for factor, active in ((1.001, False), (0.999, True)):
        events = code(some, factor * most)
        assert np.any(np.asarray(events.amplitude)) == active


@pytest.mark.parametrize("name", small_models.NAMES)
def test_models_choose_before_the_fit(name):
    cohort = small_models.spaced_cohort(0)
    model = small_models.make(name, penalty="auto").fit(cohort)
    assert 0 < model.penalty_ < 0.3
    assert model.get_params()["penalty"] == "auto"
    same = small_models.make(name, penalty=model.penalty_).fit(cohort)
    small_models.assert_same_fit(model, same)


def test_a_ratio_of_the_largest():
    cohort = small_models.spaced_cohort(0)
    low, high = (
        small_models.make("PopCDL", penalty=0.01, penalty_ratio=r).fit(cohort).penalty_
        for r in (0.01, 0.5)
    )
    assert_allclose(high, 50 * low)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": "auto", "penalty_ratio": 0.1}, "both say what an activation costs"),
        ({"penalty": 3.0, "penalty_ratio": 0.1}, "Give one of them"),
        ({"penalty": 0.01, "penalty_ratio": 0.0}, "above 0 and at most 1"),
        ({"penalty": 0.01, "penalty_ratio": 1.5}, "above 0 and at most 1"),
        ({"penalty": "bic"}, 'at least 0 or "auto"'),
        ({"n_atoms": "many"}, 'at least 1 or "auto"'),
        ({"atom_length": "long"}, 'at least 3 or "auto"'),
    ],
)
def test_bad_choices_are_named(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        small_models.make("PopCDL", **options).fit(small_models.spaced_cohort(0))
