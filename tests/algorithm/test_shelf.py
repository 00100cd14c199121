"""The shelf: what is written for a chunk is read for it, and for no other, in fixed memory."""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from percdl.algorithm.chunks import Shape, plan_chunks
from percdl.algorithm.coding import Coded
from percdl.algorithm.results import Shelf
from percdl.steps.types import Events, Statistics


def code(rows: int, n_times: int, rng) -> Coded:
    """Draw codes of a chunk; longer recordings have room for more events."""
    events = Events(*(rng.integers(0, 99, (rows, n_times // 4)) for _ in Events._fields))
    statistics = Statistics(
        rng.random((rows, 2, 7, 3)), rng.random((rows, 2, 7, 1)), rng.integers(0, 9, (rows, 2))
    )
    return Coded(events, statistics, *rng.random((3, rows)))


@given(st.lists(st.integers(8, 70), min_size=1, max_size=12), st.integers(1, 4), st.randoms())
def test_every_chunk_gets_back_what_it_was_given_last(lengths, rows, order):
    rng = np.random.default_rng(0)
    chunks = plan_chunks(lengths, 1, Shape(rows, 2**20, rows))
    shelf, given = Shelf(chunks), {}
    indices = list(range(len(chunks))) * 2
    order.shuffle(indices)
    for index in indices:
        given[index] = code(chunks[index].rows, chunks[index].n_times, rng)
        shelf[index] = given[index]
    for index, coded in given.items():
        jax.tree.map(assert_array_equal, shelf[index], coded)


def test_writing_again_takes_no_new_memory():
    chunks = plan_chunks([16, 16, 16], 1, Shape(2, 2**20, 2))
    shelf, rng = Shelf(chunks), np.random.default_rng(0)
    places = []
    for _ in range(2):
        shelf[0] = code(chunks[0].rows, chunks[0].n_times, rng)
        places.append(jax.tree.map(lambda x: x.ctypes.data, shelf[0]))
    assert places[0] == places[1]


def test_room_for_codes_is_no_code():
    """A coder that starts from the last codes must not start from whatever the memory holds."""
    chunks = plan_chunks([16] * 5, 1, Shape(4, 2**20, 4))
    shelf = Shelf(chunks)
    shelf[0] = code(chunks[0].rows, chunks[0].n_times, np.random.default_rng(0))
    assert [index in shelf for index in range(len(chunks))] == [True, False]
