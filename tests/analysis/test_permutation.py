"""Groups compared along the cycle: statistics of textbooks, exhaustive oracles, invariances."""

import itertools
from functools import partial

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import percdl.analysis
from percdl.analysis import Comparison, average_persons
from percdl.analysis.permutation import compare_means
from percdl.exceptions import InvalidParameterError

pytest.importorskip("mne", reason="cluster permutation tests need MNE-Python: percdl[stats]")

# Enough for p values that are asked for here; users have more by default.
compare_groups = partial(percdl.analysis.compare_groups, n_permutations=100)
GROUPS = ["b"] * 8 + ["a"] * 12


def some_curves(seed=0, planted=2.0):
    """Curves (20, 30, 2) of two groups that differ in one channel, samples 5 to 11."""
    curves = np.random.default_rng(seed).normal(size=(20, 30, 2))
    curves[:8, 5:12, 1] += planted
    return curves


def places(comparison):
    return [(c.channel, c.start, c.stop) for c in comparison.clusters]


def test_a_planted_difference_is_found_where_it_is():
    found = compare_groups(some_curves(), GROUPS, "b", "a")
    (cluster,) = found.significant(0.01)
    assert (cluster.channel, cluster.start, cluster.stop) == (1, 5, 12)
    assert cluster.p_value == found.p_value == 0.01
    assert cluster.mass > 0
    assert (found.names, found.sizes) == (("b", "a"), (8, 12))
    assert_allclose(found.difference, some_curves()[:8].mean(0) - some_curves()[8:].mean(0))


def test_the_statistic_is_welchs():
    curves = some_curves()
    found = compare_groups(curves, GROUPS, "b", "a")
    expected = scipy.stats.ttest_ind(curves[:8], curves[8:], equal_var=False).statistic
    assert_allclose(found.statistic, expected)


def test_student_and_welch_agree_on_groups_of_one_size():
    curves = some_curves()
    found = compare_groups(curves[2:14], ["b"] * 6 + ["a"] * 6, "b", "a")
    assert_allclose(found.statistic, scipy.stats.ttest_ind(curves[2:8], curves[8:14]).statistic)


def test_masses_are_sums_of_the_statistic():
    found = compare_groups(some_curves(), GROUPS, "b", "a")
    threshold = scipy.stats.t.isf(0.025, 18)
    assert found.threshold == pytest.approx(threshold)
    inside = np.zeros((30, 2), bool)
    for c in found.clusters:
        run = found.statistic[c.start : c.stop, c.channel]
        assert c.mass == pytest.approx(run.sum())
        assert (np.abs(run) > threshold).all()
        inside[c.start : c.stop, c.channel] = True
    assert_array_equal(inside, np.abs(found.statistic) > threshold)


def largest_mass(curves, members, threshold):
    """Return the largest mass of any run, channel by channel, sign by sign, the plain way."""
    t = scipy.stats.ttest_ind(curves[members], curves[~members], equal_var=False).statistic
    best = 0.0
    for sign, channel in itertools.product((1, -1), range(t.shape[1])):
        mass = 0.0
        for value in sign * t[:, channel]:
            mass = mass + value if value > threshold else 0.0
            best = max(best, mass)
    return best


@pytest.mark.parametrize("seed", range(3))
def test_p_values_are_those_of_all_groupings(seed):
    curves = np.random.default_rng(seed).normal(size=(8, 6, 2)).cumsum(1)
    found = compare_groups(curves, list("aaaabbbb"), "a", "b", n_permutations=1000)
    masses = []
    for chosen in itertools.combinations(range(8), 4):
        members = np.isin(np.arange(8), chosen)
        masses.append(largest_mass(curves, members, found.threshold))
    for cluster in found.clusters:
        exact = np.mean(np.array(masses) >= abs(cluster.mass) - 1e-9)
        assert cluster.p_value == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 1000))


@settings(max_examples=5)
@given(st.permutations(range(20)), st.floats(0.1, 50))
def test_order_and_units_play_no_part(order, scale):
    plain = compare_groups(some_curves(), GROUPS, "b", "a")
    order = list(order)
    other = compare_groups(scale * some_curves()[order], list(np.array(GROUPS)[order]), "b", "a")
    assert places(other) == places(plain)
    assert_allclose([c.p_value for c in other.clusters], [c.p_value for c in plain.clusters])
    assert_allclose(other.statistic, plain.statistic)


def test_every_channel_has_a_unit_of_its_own():
    plain = compare_groups(some_curves(), GROUPS, "b", "a")
    tesla = compare_groups(some_curves() * [100.0, 1e-13], GROUPS, "b", "a")
    assert places(tesla) == places(plain)
    assert_allclose(tesla.statistic, plain.statistic)


def test_exchanging_the_groups_turns_signs():
    ahead = compare_groups(some_curves(), GROUPS, "b", "a")
    behind = compare_groups(some_curves(), GROUPS, "a", "b")
    assert places(ahead) == places(behind)
    for one, other in zip(ahead.clusters, behind.clusters, strict=True):
        assert one.p_value == other.p_value
        assert one.mass == pytest.approx(-other.mass)
    assert_allclose(ahead.statistic, -behind.statistic)
    assert_allclose(ahead.difference, -behind.difference)


def test_random_state_decides():
    first, second, third = (
        compare_groups(some_curves(planted=0.5), GROUPS, random_state=r) for r in (3, 3, 4)
    )
    assert first.clusters == second.clusters
    assert places(first) == places(third)


def test_channels_are_not_neighbours():
    curves = np.random.default_rng(0).normal(size=(20, 10, 2))
    curves[:10, 7:, 0] += 5
    curves[:10, :3, 1] += 5
    found = compare_groups(curves, ["a"] * 10 + ["b"] * 10)
    assert set(places(found)[:2]) == {(0, 7, 10), (1, 0, 3)}


def test_samples_that_do_not_vary_belong_to_no_cluster():
    curves = some_curves()
    curves[:, [0, -1]] = [3.0, 1e-17]
    found = compare_groups(curves, GROUPS)
    assert not found.statistic[[0, -1]].any()
    assert places(found) == places(compare_groups(some_curves() * 2 + 0, GROUPS))


def test_more_groups_are_tested_for_any_difference():
    curves = np.random.default_rng(1).normal(size=(30, 20))
    curves[10:20, 4:9] += 2
    groups = np.repeat(["a", "b", "c"], 10)
    found = compare_groups(curves, groups)
    assert found.names == ("a", "b", "c")
    assert any((c.start, c.stop) == (4, 9) for c in found.significant(0.01))
    assert "difference" not in found.table()
    with pytest.raises(InvalidParameterError, match="3 groups have no single difference"):
        _ = found.difference
    pair = compare_groups(curves, groups, "c", "b")
    assert pair.sizes == (10, 10)


def test_welchs_f_of_two_groups_is_the_square_of_his_t():
    a, b, c = np.random.default_rng(0).normal(size=(3, 4, 9))
    c = np.concatenate([c, 3 * c + 1], -1)
    f = compare_means(a, b, c)
    if hasattr(scipy.stats, "alexandergovern"):  # an approximation of the same test
        p = [scipy.stats.alexandergovern(*rows).pvalue for rows in zip(a, b, c, strict=True)]
        assert (np.argsort(-f) == np.argsort(p)).all()
    assert_allclose(compare_means(a, c) ** 2, _welch_anova(a, c))
    assert_allclose(f, _welch_anova(a, b, c))


def _welch_anova(*samples):
    """Welch's F as printed in his paper, one row at a time."""
    values = []
    for rows in zip(*samples, strict=True):
        n, k = np.array([len(x) for x in rows]), len(rows)
        w = n / np.array([x.var(ddof=1) for x in rows])
        m = np.array([x.mean() for x in rows])
        above = np.sum(w * (m - np.sum(w * m) / w.sum()) ** 2) / (k - 1)
        loss = np.sum((1 - w / w.sum()) ** 2 / (n - 1))
        values.append(above / (1 + 2 * (k - 2) / (k**2 - 1) * loss))
    return np.array(values)


def test_people_without_curve_or_group_are_left_out():
    curves = some_curves()
    kept = compare_groups(curves[1:-1], GROUPS[1:-1], "b", "a")
    curves[0, 3] = np.nan
    found = compare_groups(curves, [*GROUPS[:-1], None], "b", "a")
    assert found.sizes == (7, 11)
    assert found.clusters == kept.clusters


def test_several_curves_of_a_person_count_once():
    curves = some_curves()
    twice = np.concatenate([curves + 0.1, curves - 0.1])
    persons = [*range(20), *range(20)]
    found = compare_groups(twice, GROUPS * 2, "b", "a", persons=persons)
    assert found.sizes == (8, 12)
    assert_allclose(found.statistic, compare_groups(curves, GROUPS, "b", "a").statistic)
    means, people = average_persons(twice, persons)
    assert people == [str(person) for person in range(20)]
    assert_allclose(means, curves)


def test_a_lost_recording_leaves_its_person_the_others():
    curves = np.array([[1.0], [np.nan], [4.0], [np.nan]])
    means, people = average_persons(curves, ["Ada", "Ada", "Bo", "Cy"])
    assert people == ["Ada", "Bo", "Cy"]
    assert_array_equal(means, [[1.0], [4.0], [np.nan]])


def test_the_table_counts_in_seconds_when_asked():
    found = compare_groups(some_curves(), GROUPS, "b", "a")
    table = found.table(sfreq=10)
    first = table.iloc[0]
    assert (first["start_seconds"], first["stop_seconds"]) == (0.5, 1.2)
    assert first["difference"] == pytest.approx(found.difference[5:12, 1].mean())
    assert "start_seconds" not in found.table()
    assert "b (8) and a (12)" in repr(found)


def test_nothing_found_is_no_warning():
    curves = np.tile(np.arange(20.0)[:, None], (1, 6))
    mixed = np.array(GROUPS)[np.random.default_rng(0).permutation(20)]
    found = compare_groups(curves, mixed, pointwise_level=1e-6)
    assert isinstance(found, Comparison)
    assert found.clusters == ()
    assert found.p_value == 1
    assert len(found.table(100.0)) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((GROUPS, "b", "c"), "no group 'c'; known groups: .'b', 'a'"),
        ((GROUPS, "b"), "needs two different groups"),
        ((GROUPS, "b", "b"), "needs two different groups"),
        ((GROUPS[:3],), "20 rows of values and 3 groups"),
        ((["b"] * 19 + ["a"],), "'a' has 1 member"),
    ],
)
def test_bad_groups_are_refused_in_words(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        compare_groups(some_curves(), *arguments)


def test_bad_settings_are_refused_in_words():
    with pytest.raises(InvalidParameterError, match="shape"):
        compare_groups(np.zeros((20, 0)), GROUPS)
    with pytest.raises(InvalidParameterError, match="n_permutations=10"):
        compare_groups(some_curves(), GROUPS, n_permutations=10)
    with pytest.raises(InvalidParameterError, match="pointwise_level"):
        compare_groups(some_curves(), GROUPS, pointwise_level=5.0)
    persons = [0, *range(19)]
    groups = ["a", "b"] + ["a"] * 9 + ["b"] * 9
    with pytest.raises(InvalidParameterError, match="'0' belongs to groups 'a' and 'b'"):
        compare_groups(some_curves(), groups, persons=persons)


def test_other_groups_of_a_person_do_not_matter():
    curves, persons = some_curves(), [*range(20), 0, 1, 2]
    more = np.concatenate([curves, curves[:3]])
    found = compare_groups(more, [*GROUPS, "c", None, "c"], "b", "a", persons=persons)
    assert places(found) == places(compare_groups(curves, GROUPS, "b", "a", persons=range(20)))


def test_near_copies_of_recordings_do_not_make_groups_differ():
    rng, p_values = np.random.default_rng(0), []
    persons, groups = np.repeat(np.arange(16), 10), np.repeat(["a", "b"], 80)
    for _ in range(100):
        features = np.repeat(rng.normal(size=(16, 1)), 10, 0) + 0.01 * rng.normal(size=(160, 1))
        done = [
            percdl.analysis.compare_parameters(
                features, groups, persons=who, n_permutations=100
            ).p_value[0]
            for who in (persons, None)
        ]
        p_values.append(done)
    right, wrong = (np.array(p_values) < 0.05).mean(0)
    assert right <= 0.12  # at most 0.05, and three standard errors
    assert wrong > 0.3
