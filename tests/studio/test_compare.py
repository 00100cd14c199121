"""What is said about two sides, on numbers with known differences."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from percdl.studio.compare import Side, describe_differences, set_apart

ONE, OTHER = Side("Ada", np.array([0])), Side("Bo", np.array([1]))
CROWD = Side("healthy", np.arange(20))


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
    few = Side("few", np.arange(1, 4))
    for sides in ([ONE, few], [Side("others", np.arange(4, 14)), few]):
        (said,) = words([60, *[10] * 13], sides)
        assert said.startswith("few has 3 recordings; with fewer than 5")


@given(st.floats(-1e3, 1e3), st.integers(0, 2**32 - 1))
def test_a_person_is_unusual_outside_of_95_percent_of_the_others(own, seed):
    others = np.random.default_rng(seed).normal(0, 300, 19)
    (said,) = words([own, *others], set_apart(ONE, CROWD))
    beyond = max(np.mean(others < own), np.mean(others > own))
    assert ("r than " in said) == (beyond >= 0.95)
    if beyond >= 0.95:
        assert ("higher" in said) == (own > others.max())


def test_groups_differ_by_a_rank_test():
    sides = [Side("a", np.arange(10)), Side("b", np.arange(10, 20))]
    (said,) = words([*range(10), *range(30, 40)], sides)
    assert "median 4.5 per minute in a, 34.5 in b" in said
    (said,) = words([*range(10), *range(10)], sides)
    assert "do not differ" in said


def test_missing_numbers_are_passed_over():
    values = [np.nan, *range(19)]
    assert "do not differ" in words(values, set_apart(ONE, CROWD))[0]
