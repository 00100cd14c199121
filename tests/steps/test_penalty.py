"""The automatic penalty follows the noise and the units, and keeps what is there."""

import jax
import jax.numpy as jnp
import naive
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


fast_encode = jax.jit(encode, static_argnums=3)


def code(some, price):
    return fast_encode(some, ATOMS[None], jnp.asarray(price), RULES)[0]


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
        small_models.make("PopCDL", penalty=share).fit(cohort).penalty_ for share in ("1%", "50%")
    )
    assert_allclose(high, 50 * low)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": "0%"}, "a share such as '10%'"),
        ({"penalty": "150%"}, "a share such as '10%'"),
        ({"penalty": "bic"}, "at least 0, a share such as '10%' or 'auto'"),
        ({"n_atoms": "many"}, "at least 1 and below 2..31 or 'auto'"),
        (
            {"atom_length": "long"},
            "at least 3 .* a duration such as '0.6s' or '600ms', a list of such lengths or 'auto'",
        ),
    ],
)
def test_bad_choices_are_named(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        small_models.make("PopCDL", **options).fit(small_models.spaced_cohort(0))


def opposed(lengths, n_channels, seed=0):
    """Return recordings that no positive multiple of a positive atom can explain."""
    rng = np.random.default_rng(seed)
    x = -rng.uniform(0.5, 2, (len(lengths), max(lengths), n_channels))
    x *= 10.0 ** np.arange(n_channels)
    return x * (np.arange(max(lengths)) < np.array(lengths)[:, None])[..., None]


@pytest.mark.parametrize("n_weights", [0, 1, 2])
def test_what_no_code_explains_is_noise(n_weights):
    """In every channel the median magnitude of the samples seen, then the mean of squares."""
    lengths = [40, 25, 31]
    x, observed = opposed(lengths, 2), None
    seen = np.broadcast_to((np.arange(40) < np.array(lengths)[:, None])[..., None], x.shape)
    if n_weights:
        observed = np.random.default_rng(1).random((3, 40, n_weights)) < 0.6
        observed = (observed & seen[..., :n_weights]).astype(float)
        seen = np.broadcast_to(observed > 0, x.shape)
    some = Signals(x * seen, np.array(lengths, np.int32), observed)
    found = noise_variance(some, np.ones((1, 8, 2)), RULES)
    medians = [np.median(np.abs(x[..., p][seen[..., p]])) for p in range(2)]
    assert_allclose(found, np.mean(np.square(medians)) / 0.6744897501960817**2)


def test_a_channel_that_nobody_has_is_no_noise():
    some = signals(0.1)
    seen = np.zeros((*some.values.shape[:2], 2))
    seen[..., 0] = 1
    alone, beside = (
        noise_variance(Signals(x, some.lengths, mask), atoms, RULES)
        for x, mask, atoms in [
            (some.values, seen[..., :1], ATOMS),
            (some.values * seen, seen, np.repeat(ATOMS, 2, axis=2)),
        ]
    )
    assert_allclose(beside, alone, rtol=1e-5)


def test_cycles_of_either_sign_are_explained_by_their_common_shape():
    """Two cycles are enough to have one; a cycle alone is compared with the atom."""
    rng = np.random.default_rng(2)
    atom = np.ones((1, 8, 1)) / np.sqrt(8)
    shape = atom[0] + 0.1 * rng.standard_normal((8, 1))
    rules = L0Coder(signed=True)
    for amplitudes, explained in (((2.0, -3.0), True), ((2.0,), False)):
        x = np.concatenate([a * shape for a in amplitudes])[None]
        some = Signals(x, np.array([x.shape[1]], np.int32), None)
        found = noise_variance(some, atom, rules)
        rest = x[0] - np.sum(x[0, :8] * atom[0]) * atom[0] if not explained else 0 * x[0]
        expected = np.median(np.abs(rest)) ** 2 / 0.6744897501960817**2
        assert_allclose(found, expected, rtol=1e-5, atol=1e-10)


def test_the_price_follows_from_the_noise_and_the_number_of_unknowns():
    """Recordings too short for the atom do not count; without noise there is a least price."""
    lengths = [40, 8, 20, 7]
    some = Signals(opposed(lengths, 1), np.array(lengths, np.int32), None)
    atoms = np.ones((3, 8, 1))
    unknowns = 2 * np.log(3 * (20 - 8 + 1)) + np.log(8 * 1)
    expected = noise_variance(some, atoms, RULES) * unknowns
    assert_allclose(choose_penalty(some, atoms, RULES), expected)
    clean = Signals(np.tile(ATOMS[0], (2, 3, 1)), np.full(2, 3 * len(ATOMS[0]), np.int32), None)
    least = 1e-4 * largest_penalty(clean, ATOMS, RULES)
    assert_allclose(choose_penalty(clean, ATOMS, RULES), least)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_largest_penalty_is_the_largest_gain_of_a_position(signed, masked):
    rng = np.random.default_rng(3)
    lengths, atoms = [20, 12, 5], 0.1 * rng.standard_normal((2, 6, 2))
    inside = (np.arange(20) < np.array(lengths)[:, None])[..., None]
    observed = (inside & (rng.random((3, 20, 2)) < 0.7)).astype(float)
    x = 1e-3 * rng.standard_normal((3, 20, 2)) * (observed if masked else inside)
    x[2] *= 1e3  # loud, but too short
    some = Signals(x, np.array(lengths, np.int32), observed if masked else None)
    best = 0.0
    for row, n in enumerate(lengths[:2]):
        match = naive.cross_correlation(x[row, :n], atoms)
        seen = observed[row, :n] if masked else np.ones((n, 2))
        norm = naive.cross_correlation(seen, atoms**2)
        match = match if signed else np.maximum(match, 0)
        best = max(best, (match[norm > 0] ** 2 / norm[norm > 0]).max())
    assert_allclose(largest_penalty(some, atoms, L0Coder(signed=signed)), best, rtol=1e-4)
