"""What was learned of each subject comes in the order of the cohort."""

import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm.chunks import Shape, plan_blocks, plan_chunks
from percdl.algorithm.coding import Coded
from percdl.algorithm.results import collect_results
from percdl.steps.types import Events, Statistics

LENGTHS = [10, 40, 10, 10, 40, 10, 10]
K, M, E = 2, 3, 4
SETTINGS = toy.settings()


def learned(subject):
    """Return parameters, counts and events (onset, atom, amplitude) that name the subject."""
    params = 100.0 * subject + np.arange(K * M).reshape(K, M)
    # Out of order, with free slots, and two events at the same time.
    events = [(9, 1, subject + 0.5), (0, 0, 0.0), (3 + subject, 0, -2.0), (9, 0, subject + 0.25)]
    return params, np.array([2, 1 + subject]), events


@pytest.mark.parametrize("block_rows", [4, 64])
def test_rows_that_fill_and_slots_that_are_free_are_left_out(block_rows):
    chunks = plan_chunks(LENGTHS, 1, Shape(4, 2**20, block_rows))
    blocks = plan_blocks(chunks, block_rows)
    assert len(blocks) == (1 if block_rows == 64 else 2)
    coded = {}
    for index, chunk in enumerate(chunks):
        # Rows that only fill a chunk hold something else.
        rows = [*chunk.subjects, *[50] * (chunk.rows - len(chunk.subjects))]
        _, counts, events = (np.array(column) for column in zip(*map(learned, rows), strict=True))
        onset, atom, amplitude = np.moveaxis(events, -1, 0)
        statistics = Statistics(np.zeros(chunk.rows), np.zeros(chunk.rows), counts)
        energy = 10.0 + np.array(rows)
        price = SETTINGS.penalty * counts.sum(1)
        objective = price + 0.01 * np.array(rows) * energy
        events = Events(onset.astype(int), atom.astype(int), amplitude)
        coded[index] = Coded(events, statistics, energy, energy + price, objective)
    for block in blocks:
        own = [learned(s)[0] for index in block.chunks for s in chunks[index].subjects]
        block.params = np.concatenate([own, np.full((block.rows - len(own), K, M), -1.0)])
    found = collect_results(chunks, blocks, coded, SETTINGS)
    for s in range(len(LENGTHS)):
        params, counts, events = learned(s)
        assert_array_equal(found.params[s], params)
        assert_array_equal(found.counts[s], counts)
        # In order of time; at the same time, as they were coded.
        mine = np.flatnonzero(found.subject == s)
        expected = sorted((e for e in events if e[2]), key=lambda event: event[0])
        told = zip(found.onset[mine], found.atom[mine], found.amplitude[mine], strict=True)
        assert [tuple(map(float, event)) for event in told] == expected
    assert_array_equal(found.subject, np.repeat(np.arange(len(LENGTHS)), 3))
    assert_allclose(found.error, 0.01 * np.arange(len(LENGTHS)), atol=1e-12)
    huber = collect_results(chunks, blocks, coded, toy.settings(delta=1.0))
    assert np.isnan(huber.error).all()


def test_nobody_may_have_any_event():
    chunks = plan_chunks([10], 1, Shape(4, 2**20, 4))
    blocks = plan_blocks(chunks, 4)
    blocks[0].params = np.zeros((4, K, M))
    nothing = np.zeros((4, E))
    statistics = Statistics(np.zeros(4), np.zeros(4), np.zeros((4, K), int))
    coded = Coded(
        Events(nothing.astype(int), nothing.astype(int), nothing), statistics, *np.zeros((3, 4))
    )
    found = collect_results(chunks, blocks, {0: coded}, SETTINGS)
    assert found.subject.size == found.onset.size == found.amplitude.size == 0
    assert np.isnan(found.error).all()  # of silence, nothing can be unexplained
