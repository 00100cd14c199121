from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from percdl.datasets import atom_distance, match_atoms, onset_accuracy
from percdl.exceptions import InvalidParameterError
from percdl.signals.matching import count_pairs


def events(rows, subject="A"):
    return pd.DataFrame(rows, columns=["atom", "onset_sample"]).assign(subject=subject)


def test_orthogonal_atoms_are_sqrt_two_apart():
    truth = np.eye(4)[:2, :, None]
    assert atom_distance(np.eye(4)[2:, :, None], truth) == pytest.approx(np.sqrt(2))


def test_order_and_scale_of_atoms_play_no_part():
    atoms = np.random.default_rng(0).normal(size=(4, 9, 2))
    order = [2, 0, 3, 1]
    assert atom_distance(atoms[order] * 7, atoms) == pytest.approx(0)
    np.testing.assert_array_equal(np.array(order)[match_atoms(atoms[order], atoms)], range(4))


def test_other_shapes_are_refused():
    with pytest.raises(InvalidParameterError, match=r"\(1, 3, 1\), the truth \(2, 3, 1\)"):
        atom_distance(np.ones((1, 3, 1)), np.ones((2, 3, 1)))


@pytest.mark.parametrize(("tolerance", "share"), [(0, 0.25), (1, 0.5), (30, 1.0)])
def test_onsets_count_within_the_tolerance(tolerance, share):
    truth = events([(0, 10), (0, 100), (1, 200), (1, 300)])
    found = events([(0, 10), (0, 101), (1, 220), (1, 330)])
    assert onset_accuracy(found, truth, tolerance) == share


def test_atoms_may_come_in_another_order():
    truth = events([(0, 10), (1, 100)])
    assert onset_accuracy(events([(5, 10), (3, 100)]), truth) == 1.0
    assert onset_accuracy(events([(5, 10), (5, 100)]), truth) == 0.5


def test_a_detection_serves_once():
    assert onset_accuracy(events([(0, 10)]), events([(0, 10), (0, 11)]), tolerance=1) == 0.5


def test_subjects_are_kept_apart():
    assert onset_accuracy(events([(0, 10)], "B"), events([(0, 10)], "A")) == 0.0


def test_nothing_found_is_zero():
    assert onset_accuracy(events([]), events([(0, 10)])) == 0.0


def test_frames_are_checked():
    with pytest.raises(InvalidParameterError, match="`events` has no column onset_sample"):
        onset_accuracy(events([]).drop(columns="onset_sample"), events([(0, 1)]))
    with pytest.raises(InvalidParameterError, match="no activation"):
        onset_accuracy(events([(0, 1)]), events([]))


def naive_pairs(detected, true, tolerance):
    """Try every set of pairs and keep the largest in which nothing is used twice."""
    close = [(d, t) for d, t in product(range(len(detected)), range(len(true)))
             if abs(detected[d] - true[t]) <= tolerance]  # fmt: skip
    for size in range(min(len(detected), len(true)), 0, -1):
        for pairs in combinations(close, size):
            if all(len(set(side)) == size for side in zip(*pairs, strict=True)):
                return size
    return 0


onsets = st.lists(st.integers(0, 12), max_size=4).map(lambda x: np.array(sorted(x), int))


@given(onsets, onsets, st.integers(0, 3))
def test_pairs_are_as_many_as_can_be(detected, true, tolerance):
    assert count_pairs(detected, true, tolerance) == naive_pairs(detected, true, tolerance)
