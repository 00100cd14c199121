"""Regression on covariates: the textbook's figures, and tests that control for the others."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from percdl.analysis import compare_groups, regress
from percdl.exceptions import InvalidParameterError

N = 40


def some_people(seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.uniform(20, 80, N),
            "group": rng.permutation(np.repeat(["a", "b"], N // 2)),
            "sensor": rng.choice(["x", "y", "z"], N),
            "left": rng.random(N) < 0.5,
        }
    )


def some_values(people, shape=(5,), seed=1, age=0.02, group=1.0):
    """Noise, plus an effect of age on the first value and of the group on the second."""
    values = np.random.default_rng(seed).normal(size=(N, *shape))
    values[:, 0] += age * people["age"].to_numpy().reshape(N, *[1] * (len(shape) - 1))
    values[:, 1] += group * (people["group"] == "b").to_numpy().reshape(N, *[1] * (len(shape) - 1))
    return values


def test_figures_are_those_of_statsmodels():
    api = pytest.importorskip("statsmodels.api", reason="the oracle is statsmodels")
    people = some_people()
    values = some_values(people)
    found = regress(values, people, n_permutations=20)
    assert found.terms == (
        "intercept", "age", "group[b]", "sensor[y]", "sensor[z]", "left[True]"
    )  # fmt: skip
    design = np.column_stack(
        [
            people["age"] - people["age"].mean(), people["group"] == "b",
            people["sensor"] == "y", people["sensor"] == "z", people["left"],
        ]
    ).astype(float)  # fmt: skip
    for f in range(values.shape[1]):
        oracle = api.OLS(values[:, f], api.add_constant(design)).fit()
        assert_allclose(found.coefficient[:, f], oracle.params)
        assert_allclose(found.standard_error[:, f], oracle.bse)
        assert_allclose(found.t[:, f], oracle.tvalues)
        assert_allclose(found.p_value[:, f], oracle.pvalues)
        assert found.r_squared[f] == pytest.approx(oracle.rsquared)
        assert found.adjusted_r_squared[f] == pytest.approx(oracle.rsquared_adj)
        sensors = oracle.f_test(np.eye(6)[3:5])
        assert found.tests["sensor"].statistic[f] == pytest.approx(float(sensors.fvalue))
    assert found.dof == N - 6
    assert_allclose(found.tests["age"].statistic, found.t[1])
    assert_allclose(found.tests["group"].statistic, found.t[2])


def test_figures_are_those_of_least_squares():
    people = some_people()[["age"]]
    values = some_values(some_people(), shape=(3, 2))
    found = regress(values, people, n_permutations=20)
    assert found.coefficient.shape == (2, 3, 2)
    slope = np.polyfit(people["age"], values.reshape(N, -1), 1)[0]
    assert_allclose(found.coefficient_of("age"), slope.reshape(3, 2))
    assert_allclose(found.coefficient_of("intercept"), values.mean(0))


def test_effects_are_found_where_they_are():
    people = some_people()
    found = regress(some_values(people, age=0.05, group=2.0), people)
    assert found.tests["age"].p_adjusted[0] <= 0.005
    assert (found.tests["age"].p_adjusted[1:] > 0.05).all()
    assert found.tests["group"].p_adjusted[1] <= 0.005
    assert found.tests["sensor"].p_value > 0.05
    assert "40 subjects, 0 left out; age p = 0.00" in repr(found)


def test_a_difference_by_way_of_age_is_gone_once_age_is_known():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"group": np.repeat(["a", "b"], N // 2)})
    people["age"] = rng.normal(50, 8, N) + 15 * (people["group"] == "b")
    curves = 0.1 * rng.normal(size=(N, 30))
    curves[:, 10:20] += 0.03 * people[["age"]].to_numpy()
    pytest.importorskip("mne", reason="cluster permutation tests need MNE-Python")
    alone = compare_groups(curves, people["group"], "b", "a", n_permutations=200)
    assert alone.p_value <= 0.01
    adjusted = regress(curves, people, along_cycle=True, n_permutations=200)
    assert adjusted.tests["group"].p_value > 0.05
    (cluster,) = adjusted.tests["age"].significant(0.01)
    assert (cluster.start, cluster.stop) == (10, 20)
    assert (adjusted.tests["age"].p_adjusted[10:20] == cluster.p_value).all()
    table = adjusted.cluster_table(sfreq=100)
    assert table.loc[table["covariate"] == "age", "start_seconds"].iloc[0] == 0.1


def test_without_other_covariates_it_is_the_test_of_students_t():
    pytest.importorskip("mne", reason="cluster permutation tests need MNE-Python")
    people = some_people()[["group"]]
    curves = some_values(some_people(), shape=(12, 2), group=1.0)
    found = regress(curves, people, along_cycle=True, n_permutations=200).tests["group"]
    twin = compare_groups(curves, people["group"], "b", "a", n_permutations=200)
    # Groups of one size: Welch's t is Student's.
    assert_allclose(found.statistic, twin.statistic)
    assert [(c.channel, c.start, c.stop) for c in found.clusters] == [
        (c.channel, c.start, c.stop) for c in twin.clusters
    ]
    assert_allclose(found.p_value, twin.p_value, atol=0.1)


def test_order_units_and_origins_play_no_part():
    people, order = some_people(), np.random.default_rng(5).permutation(N)
    values = some_values(people)
    plain = regress(values, people, n_permutations=100)
    moved = people.assign(age=people["age"] * 12 + 100)
    scale = 3 * 10.0 ** np.array([0, -13, 2, 0, -5])
    other = regress(scale * values[order], moved.iloc[order], n_permutations=100)
    assert_allclose(other.t[1:], plain.t[1:])
    assert_allclose(other.coefficient_of("age"), scale / 12 * plain.coefficient_of("age"))
    for name, test in plain.tests.items():
        assert_allclose(other.tests[name].p_adjusted, test.p_adjusted)


def test_another_reference_turns_the_sign():
    people = some_people()
    values = some_values(people)
    plain = regress(values, people, n_permutations=20)
    turned = regress(values, people, reference={"group": "b"}, n_permutations=20)
    assert_allclose(turned.coefficient_of("group[a]"), -plain.coefficient_of("group[b]"))
    assert_allclose(turned.r_squared, plain.r_squared)


def test_incomplete_people_are_left_out_and_counted():
    people = some_people()
    values = some_values(people)
    kept = regress(values[2:], people.iloc[2:], n_permutations=20)
    values[0, 3] = np.nan
    people.loc[1, "age"] = np.nan
    found = regress(values, people, n_permutations=20)
    assert (found.n_subjects, found.n_left_out) == (N - 2, 2)
    assert_allclose(found.coefficient, kept.coefficient)


def test_a_single_value_per_person_is_enough():
    people = some_people()
    found = regress(some_values(people)[:, 0], people[["age"]], n_permutations=50)
    assert found.coefficient.shape == (2,)
    assert found.tests["age"].statistic.shape == ()
    table = found.table()
    assert list(table["term"]) == ["intercept", "age"]
    assert table["coefficient"][1] == pytest.approx(float(found.coefficient_of("age")))


def test_values_that_do_not_vary_depend_on_nothing():
    people = some_people()
    values = some_values(people)
    values[:, 4] = 0.1
    found = regress(values, people, n_permutations=20)
    assert not found.t[1:, 4].any()
    assert found.coefficient[0, 4] == pytest.approx(0.1)
    assert found.tests["age"].p_adjusted[4] == 1


def test_categories_keep_their_order():
    people = some_people()
    people["group"] = pd.Categorical(people["group"], categories=["c", "b", "a"])
    found = regress(some_values(people), people[["group"]], n_permutations=20)
    assert found.terms == ("intercept", "group[a]")


def test_bad_covariates_are_refused_in_words():
    people = some_people()
    values = some_values(people)
    with pytest.raises(InvalidParameterError, match="40 rows of values and 39 rows"):
        regress(values, people.iloc[1:])
    with pytest.raises(InvalidParameterError, match="'age' is the same for all"):
        regress(values, people.assign(age=3.0))
    twin = people.assign(device=people["group"].map({"a": "old", "b": "new"}))
    with pytest.raises(InvalidParameterError, match="'group', 'device' cannot be distinguished"):
        regress(values, twin)
    with pytest.raises(InvalidParameterError, match="group is one of a, b"):
        regress(values, people, reference={"group": "c"})
    with pytest.raises(InvalidParameterError, match="6 subjects have all values"):
        regress(values[:6], people.iloc[:6][["age", "sensor", "group"]])
    with pytest.raises(InvalidParameterError, match="needs curves"):
        regress(values[:, 0], people, along_cycle=True)
    with pytest.raises(InvalidParameterError, match="no term 'sex'; there are intercept"):
        regress(values, people, n_permutations=20).coefficient_of("sex")


def test_every_covariate_has_a_name_of_its_own():
    rng = np.random.default_rng(0)
    ages = pd.DataFrame(rng.normal(50, 10, (20, 2)), columns=["age", "age"])
    for covariates in (ages, ages.set_axis(["age", "intercept"], axis=1)):
        with pytest.raises(InvalidParameterError, match="name is used twice"):
            regress(rng.normal(size=20), covariates)


def test_a_reference_of_an_unknown_covariate_is_refused():
    people = pd.DataFrame({"group": ["p", "h"] * 10})
    with pytest.raises(InvalidParameterError, match="names 'Group'; the covariates are group"):
        regress(np.arange(20.0), people, reference={"Group": "p"})
