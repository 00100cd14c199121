"""Parameters compared: exhaustive oracles, families of tests, invariances."""

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from percdl.analysis import compare_parameters
from percdl.exceptions import InvalidParameterError

GROUPS = ["b"] * 8 + ["a"] * 12


def some_features(seed=0, planted=3.0):
    features = np.random.default_rng(seed).normal(size=(20, 4))
    features[:8, 2] += planted
    return features


def test_the_parameter_that_differs_is_found():
    found = compare_parameters(some_features(), GROUPS, "b", "a", parameters=["p", "q", "r", "s"])
    table = found.table()
    assert table["parameter"][0] == "r"
    assert table["p_adjusted"][0] <= 0.01
    assert found.omnibus_p <= 0.05
    assert "b (8) and a (12); 4 parameters" in repr(found)


def test_the_statistic_is_welchs():
    x = some_features()
    found = compare_parameters(x, GROUPS, "b", "a")
    expected = scipy.stats.ttest_ind(x[:8], x[8:], equal_var=False).statistic
    assert_allclose(found.statistic, expected)
    assert found.omnibus == pytest.approx(np.mean(expected**2))
    assert_allclose(found.means, [x[:8].mean(0), x[8:].mean(0)])


@pytest.mark.parametrize("seed", range(4))
def test_small_groups_are_exchanged_in_every_way(seed):
    x = np.random.default_rng(seed).normal(size=(7, 3))
    found = compare_parameters(x, list("aaabbbb"), "a", "b", n_permutations=100)
    null = []
    for chosen in itertools.combinations(range(7), 3):
        own = np.isin(np.arange(7), chosen)
        null.append(scipy.stats.ttest_ind(x[own], x[~own], equal_var=False).statistic)
    null, observed = np.abs(null), np.abs(found.statistic)
    assert_allclose(found.p_value, (null >= observed - 1e-9).mean(0))
    largest = null.max(1)[:, None]
    assert_allclose(found.p_adjusted, (largest >= observed - 1e-9).mean(0))
    assert found.omnibus_p == pytest.approx(
        ((null**2).mean(1) >= (observed**2).mean() - 1e-9).mean()
    )


def test_one_parameter_needs_no_correction():
    found = compare_parameters(some_features()[:, :1], GROUPS)
    assert_allclose(found.p_value, found.p_adjusted)
    assert found.omnibus_p == pytest.approx(found.p_value[0])


@settings(max_examples=10)
@given(st.permutations(range(20)), st.lists(st.floats(-13, 3), min_size=4, max_size=4))
def test_order_and_units_play_no_part(order, powers):
    order, scale = list(order), 10.0 ** np.array(powers)
    plain = compare_parameters(some_features(), GROUPS, "b", "a", n_permutations=100)
    other = compare_parameters(
        scale * some_features()[order], np.array(GROUPS)[order], "b", "a", n_permutations=100
    )
    assert_allclose(other.statistic, plain.statistic)
    assert_allclose(other.p_adjusted, plain.p_adjusted)
    assert other.omnibus_p == plain.omnibus_p


def test_exchanging_the_groups_turns_signs():
    ahead = compare_parameters(some_features(), GROUPS, "b", "a")
    behind = compare_parameters(some_features(), GROUPS, "a", "b")
    assert_allclose(ahead.statistic, -behind.statistic)
    assert_allclose(ahead.p_value, behind.p_value)
    assert_allclose(ahead.p_adjusted, behind.p_adjusted)
    assert (ahead.p_value <= ahead.p_adjusted).all()


def test_many_small_differences_are_seen_together():
    x = np.random.default_rng(0).normal(size=(60, 40))
    x[:30] += 0.35
    found = compare_parameters(x, ["a"] * 30 + ["b"] * 30)
    assert found.omnibus_p <= 0.01
    assert found.omnibus_p < found.p_adjusted.min()


def test_three_groups_are_tested_for_any_difference():
    x = np.random.default_rng(0).normal(size=(30, 3))
    x[10:20, 1] += 2.5
    found = compare_parameters(x, np.repeat(["a", "b", "c"], 10), n_permutations=200)
    assert found.table()["parameter"][0] == "1"
    assert found.means.shape == (3, 3)
    assert (found.statistic >= 0).all()


def test_people_are_averaged_and_those_without_values_left_out():
    x = some_features()
    twice, persons = np.concatenate([x + 1, x - 1]), [*range(20), *range(20)]
    found = compare_parameters(twice, GROUPS * 2, "b", "a", persons=persons)
    assert_allclose(found.statistic, compare_parameters(x, GROUPS, "b", "a").statistic)
    x[0, 0] = np.nan
    assert compare_parameters(x, GROUPS, "b", "a").sizes == (7, 12)


def test_constants_differ_from_nothing():
    x = np.concatenate([some_features(), np.full((20, 1), 0.1)], axis=1)
    found = compare_parameters(x, GROUPS, n_permutations=100)
    assert found.statistic[-1] == 0
    assert found.p_value[-1] == 1


def test_bad_input_is_refused_in_words():
    with pytest.raises(InvalidParameterError, match=r"shape \(20, 4, 1\)"):
        compare_parameters(some_features()[..., None], GROUPS)
    with pytest.raises(InvalidParameterError, match="4 parameters and 1 names"):
        compare_parameters(some_features(), GROUPS, parameters=["p"])
    with pytest.raises(InvalidParameterError, match="no group 'z'"):
        compare_parameters(some_features(), GROUPS, "a", "z")
