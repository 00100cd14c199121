"""What is said about two sides, on numbers with known differences."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from percdl.report.words import FEWEST
from percdl.studio.compare import Side, describe_differences, set_apart
from percdl.studio.project import RefusedError


def side(name, rows, persons=None):
    """Return a side; every recording is of another person, unless they are given."""
    rows = np.atleast_1d(rows)
    return Side(name, rows, np.array([str(x) for x in rows if persons is None] or persons, object))


ONE, OTHER = side("Ada", 0), side("Bo", 1)
CROWD = side("healthy", np.arange(20))
A, B = side("a", np.arange(10)), side("b", np.arange(10, 20))


def words(values, sides, errors=None, name="rate (per minute)"):
    table = pd.DataFrame({name: np.asarray(values, float)})
    return list(describe_differences(table, sides, errors))


def test_a_change_counts_beyond_the_retest_error_only():
    error = {"rate (per minute)": 5.0}
    (said,) = words([60, 54], [ONE, OTHER], error)
    assert said == (
        "Rate: 6 per minute higher in Ada than in Bo, beyond the retest error of 5 per minute."
    )
    (said,) = words([58, 54], [ONE, OTHER], error)
    assert "No number" in said


def test_without_a_second_recording_the_retest_error_is_unknown():
    (said,) = words([60, 54], [ONE, OTHER])
    assert "No one was recorded twice" in said


def test_few_people_are_no_measure_of_what_is_usual():
    for few in (side("few", np.arange(1, 4)), side("few", range(1, 13), [*"xyz"] * 4)):
        for sides in ([ONE, few], [side("others", np.arange(20, 30)), few]):
            (said,) = words([60, *[10] * 29], sides)
            assert said.startswith("few has 3 people; with fewer than 5")


@given(st.floats(-1e3, 1e3), st.integers(0, 2**32 - 1))
def test_a_person_is_unusual_outside_of_95_percent_of_the_others(own, seed):
    others = np.random.default_rng(seed).normal(0, 300, 19)
    (said,) = words([own, *others], set_apart(ONE, CROWD))
    beyond = max(np.mean(others < own), np.mean(others > own))
    assert ("r than " in said) == (beyond >= 0.95)
    if beyond >= 0.95:
        assert ("higher" in said) == (own > others.max())


def test_groups_differ_by_a_rank_test():
    said, corrected = words([*range(10), *range(30, 40)], [A, B])
    assert corrected.startswith("No p value is corrected")
    assert "median 4.5 per minute in a, 34.5 in b" in said
    assert "10 and 10 people" in said
    (said,) = words([*range(10), *range(10)], [A, B])
    assert "do not differ" in said


def test_missing_numbers_are_passed_over():
    values = [np.nan, *range(19)]
    assert "do not differ" in words(values, set_apart(ONE, CROWD))[0]


def test_near_copies_of_recordings_do_not_make_groups_differ():
    rng, n_people, n_copies, n_draws = np.random.default_rng(0), 16, 10, 300
    names, rows = np.repeat([*"abcdefghijklmnop"], n_copies).tolist(), np.arange(160)
    people = [side("a", rows[:80], names[:80]), side("b", rows[80:], names[80:])]
    recordings = [side("a", rows[:80]), side("b", rows[80:])]
    found = np.zeros(2)
    for _ in range(n_draws):
        values = np.repeat(rng.normal(size=n_people), n_copies) + 0.01 * rng.normal(size=160)
        found += ["Mann-Whitney" in words(values, sides)[0] for sides in (people, recordings)]
    right, wrong = found / n_draws
    assert right <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_draws)
    assert wrong > 0.3


@given(st.integers(0, 2**32 - 1), st.floats(0, 3))
def test_copies_of_all_recordings_change_no_word(seed, shift):
    values = np.random.default_rng(seed).normal(size=20) + shift * (np.arange(20) >= 10)
    names = [str(s) for s in range(20)]
    groups = [side(x, [*r, *(r + 20)], 2 * [names[s] for s in r]) for x, r in
              (("a", np.arange(10)), ("b", np.arange(10, 20)))]  # fmt: skip
    assert words(np.tile(values, 2), groups) == words(values, [A, B])
    crowd = side("healthy", np.arange(40), names * 2)
    assert words(np.tile(values, 2), set_apart(ONE, crowd)) == words(values, set_apart(ONE, CROWD))


def test_a_recording_is_left_out_with_the_others_of_its_person():
    crowd = side("healthy", np.arange(12), [*"aabcdefghijk"])
    _, others = set_apart(side("first visit", 0, ["a"]), crowd)
    assert others.rows.tolist() == [*range(2, 12)]
    person, rest = set_apart(side("a", [0, 1], [*"aa"]), side("first visit", 0, ["a"]))
    assert (person.rows.tolist(), rest.rows.tolist()) == ([1], [0])


def test_a_group_is_left_out_of_everyone():
    others, group = set_apart(side("everyone", np.arange(20)), A)
    assert (others.name, group.name) == ("everyone else", "a")
    assert others.rows.tolist() == B.rows.tolist()


def test_groups_of_the_same_people_are_compared_as_pairs():
    names = [str(s) for s in range(10)]
    before, after = side("before", np.arange(10), names), side("after", B.rows, names[::-1])
    rng = np.random.default_rng(0)
    values = 100 * rng.normal(size=10)
    changed = [*values, *(values[::-1] + 1 + 1e-4 * rng.normal(size=10))]
    who, said, _ = words(changed, set_apart(after, before))
    assert who == "Only the 10 people in both groups are compared, as pairs."
    assert "(+1" in said
    assert "signed-rank p = 0.002, 10 pairs" in said  # 2 of the 2^10 signs
    assert "do not differ" in words(changed, [A, B])[0]  # the people differ far more
    assert "do not differ" in words(changed, set_apart(A, A))[-1]


def test_few_people_in_two_groups_are_refused_by_name():
    names = [str(s) for s in range(10)]
    for n_common in range(1, 10):
        other = side("b", B.rows, names[:n_common] + [f"b{s}" for s in range(n_common, 10)])
        if n_common < FEWEST:
            with pytest.raises(RefusedError, match="In both a and b: 0"):
                set_apart(A, other)
        else:
            assert [len(side.people) for side in set_apart(A, other)] == [n_common] * 2
