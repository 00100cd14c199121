"""The pairing of onsets, held against all pairings there are."""

from itertools import combinations, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from percdl.signals.reconstruction import match_onsets

onsets = st.lists(st.integers(0, 12), max_size=4)


def naive_matching(detected, true, tolerance):
    """Try every set of pairs that uses nothing twice; return size and distance of the best."""
    close = [(d, t) for d, t in product(range(len(detected)), range(len(true)))
             if abs(detected[d] - true[t]) <= tolerance]  # fmt: skip
    best = (0, 0)
    for size in range(1, min(len(detected), len(true)) + 1):
        for pairs in combinations(close, size):
            if all(len(set(side)) == size for side in zip(*pairs, strict=True)):
                total = sum(abs(detected[d] - true[t]) for d, t in pairs)
                best = max(best, (size, -total))
    return best[0], -best[1]


@given(onsets, onsets, st.integers(0, 4))
def test_as_many_pairs_as_can_be_and_among_those_the_nearest(detected, true, tolerance):
    pairs = match_onsets(detected, true, tolerance)
    gaps = [abs(detected[d] - true[t]) for d, t in pairs]
    assert len(set(pairs[:, 0])) == len(set(pairs[:, 1])) == len(pairs)
    assert all(gap <= tolerance for gap in gaps)
    assert (len(pairs), sum(gaps)) == naive_matching(detected, true, tolerance)


@given(st.permutations(range(5)), st.permutations(range(4)))
def test_the_order_of_the_lists_plays_no_part(first, second):
    detected, true = np.array([3, 14, 15, 92, 65]), np.array([2, 71, 82, 18])
    pairs = match_onsets(detected, true, 10)
    shuffled = match_onsets(detected[list(first)], true[list(second)], 10)
    named = {(first[d], second[t]) for d, t in shuffled}
    assert named == {tuple(pair) for pair in pairs.tolist()}


def test_any_distance_may_be_allowed():
    assert match_onsets([0, 1000], [5, 900], np.inf).tolist() == [[0, 0], [1, 1]]
