"""Group statistics: identities, and what is left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from percdl.analysis.groups import summarize_groups
from percdl.exceptions import InvalidParameterError


def some_curves(n_subjects=9, seed=0):
    return np.random.default_rng(seed).normal(size=(n_subjects, 5, 2))


def test_each_group_is_summarized_on_its_own():
    curves = some_curves()
    groups = ["b", "a", "b", "a", "a", "b", "b", "a", "a"]
    found = summarize_groups(curves, groups)
    assert list(found) == ["b", "a"]
    for name, curve in found.items():
        own = curves[[g == name for g in groups]]
        np.testing.assert_allclose(curve.mean, own.mean(0))
        np.testing.assert_allclose(curve.sd, own.std(0, ddof=1))
        assert curve.n_members == len(own)


@given(st.floats(-5, 5), st.floats(0.1, 5), st.permutations(range(9)))
def test_order_does_not_matter_and_scale_passes_through(shift, scale, order):
    curves, groups = some_curves(), np.array(list("aaaabbbbb"))
    plain = summarize_groups(curves, list(groups))
    other = summarize_groups((curves * scale + shift)[list(order)], list(groups[list(order)]))
    for name, curve in plain.items():
        np.testing.assert_allclose(other[name].mean, curve.mean * scale + shift, atol=1e-9)
        np.testing.assert_allclose(other[name].sd, curve.sd * scale, atol=1e-9)


def test_people_without_the_atom_or_without_group_are_left_out():
    curves = some_curves()
    curves[0] = np.nan
    groups = ["a"] * 4 + ["b"] * 4 + [None]
    found = summarize_groups(curves, groups)
    assert [curve.n_members for curve in found.values()] == [3, 4]
    np.testing.assert_allclose(found["a"].mean, curves[1:4].mean(0))


def test_groups_that_do_not_fit_are_refused_in_words():
    with pytest.raises(InvalidParameterError, match="9 rows of values and 2 groups"):
        summarize_groups(some_curves(), ["a", "b"])
    with pytest.raises(InvalidParameterError, match="'b' has 1 member"):
        summarize_groups(some_curves(3), ["a", "a", "b"])
