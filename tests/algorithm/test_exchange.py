"""Sums add up field by field, in an order that depends on their number only."""

from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from percdl.algorithm.exchange import Broadcast, Sums, add_in_tree
from percdl.algorithm.state import History


def test_every_field_is_added():
    names = [f.name for f in fields(Sums)]
    one, two = (
        Sums(**{name: first * (i + 1.0) * np.ones(2) for i, name in enumerate(names[4:], 4)}
             | {name: first * (i + 1.0) for i, name in enumerate(names[:4])})
        for first in (1, 10)
    )  # fmt: skip
    total = Sums.total([one, two, one])
    for i, name in enumerate(names):
        assert_array_equal(getattr(total, name), 12 * (i + 1.0))


def test_what_a_round_does_not_tell_is_empty():
    plain = Sums(1.0, 2.0, 3.0, 4.0, np.ones(2))
    for name in [f.name for f in fields(Sums)][5:]:
        assert getattr(plain + plain, name).shape == (0,)


@pytest.mark.parametrize("count", [1, 2, 8, 9, 64, 65, 100])
def test_a_tree_adds_eight_at_a_time_and_everything_once(count):
    groups = []

    def add(parts):
        groups.append(len(parts))
        return sum(parts, ())

    assert add_in_tree([(i,) for i in range(count)], add) == tuple(range(count))
    assert all(1 <= size <= 8 for size in groups)
    level, expected = count, 0
    while level > 1:
        level = -(-level // 8)
        expected += level
    assert len(groups) == expected


def test_a_broadcast_tells_what_there_is():
    told = Broadcast(np.ones((1, 2, 1)), misfit=np.zeros(1)).to_arrays()
    assert set(told) == {"dictionary", "misfit"}


def test_history_counts_the_seconds_since_the_start():
    history = History()
    for index, (step, objective) in enumerate([("CSC", 3.0), ("CDU", 2.0), ("CSC", 1.0)]):
        history.record("population", index, step, objective)
    seconds = [record.seconds for record in history.records]
    assert 0 <= seconds[0] <= seconds[-1] < 3600
