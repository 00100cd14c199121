"""Chunks: every recording once, few shapes, and missing samples apart from values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from percdl.algorithm.blocks import plan_blocks
from percdl.algorithm.chunks import (
    ACCELERATOR_SHAPE,
    CPU_SHAPE,
    Chunk,
    Shape,
    bucket_length,
    fill,
    plan_chunks,
)
from percdl.signals import Cohort

SHAPES = [CPU_SHAPE, ACCELERATOR_SHAPE, Shape(1, 2**23), Shape(4, 2**23), Shape(64, 5000)]


def test_buckets_are_two_per_octave():
    buckets = {bucket_length(n) for n in range(1, 1025)}
    powers = {2**k for k in range(11)}
    assert buckets == powers | {3 * p // 4 for p in powers if p >= 4}


@given(st.integers(1, 10**7))
def test_a_bucket_holds_the_recording_and_wastes_little(n):
    assert n <= bucket_length(n) <= max(1.5 * n, 1)
    assert bucket_length(bucket_length(n)) == bucket_length(n)
    assert bucket_length(n) <= bucket_length(n + 1)


@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=400),
    st.integers(1, 12),
    st.sampled_from(SHAPES),
)
def test_every_recording_is_in_one_chunk_that_holds_it(lengths, n_channels, shape):
    chunks = plan_chunks(lengths, n_channels, shape)
    assert_array_equal(np.sort(np.concatenate([c.subjects for c in chunks])), range(len(lengths)))
    for chunk in chunks:
        assert 0 < len(chunk.subjects) <= chunk.rows <= shape.rows
        assert chunk.rows == 1 or chunk.rows * chunk.n_times * n_channels <= shape.samples
        assert {bucket_length(lengths[s]) for s in chunk.subjects} == {chunk.n_times}


@given(st.lists(st.integers(1000, 4000), min_size=1, max_size=500))
def test_shapes_are_few(lengths):
    chunks = plan_chunks(lengths, 1, CPU_SHAPE)
    assert {chunk.rows for chunk in chunks} <= {4, 16, 64}
    assert len({chunk.n_times for chunk in chunks}) <= 5
    assert sum(chunk.rows for chunk in chunks) <= 2 * len(lengths) + 16


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=400), st.sampled_from(SHAPES))
def test_every_chunk_is_in_one_block(lengths, shape):
    chunks = plan_chunks(lengths, 1, shape)
    blocks = plan_blocks(chunks, shape.rows)
    assert [index for block in blocks for index in block.chunks] == list(range(len(chunks)))
    for block in blocks:
        assert block.chunk_rows == [chunks[index].rows for index in block.chunks]
        assert sum(block.chunk_rows) <= block.rows


def test_blocks_gather_and_split():
    chunks = plan_chunks([10] * 5 + [100] * 2, 1, CPU_SHAPE)
    (block,) = plan_blocks(chunks, 64)
    parts = [
        (np.full((chunk.rows, 2), i), np.full(chunk.rows, 10 * i))
        for i, chunk in enumerate(chunks)
    ]
    stacked = block.gather(parts)
    assert [len(array) for array in stacked] == [block.rows] * 2
    for ours, theirs in zip(block.split(stacked), parts, strict=True):
        assert_array_equal(ours[0], theirs[0])
        assert_array_equal(ours[1], theirs[1])


@pytest.mark.parametrize("missing", ["nothing", "all channels alike", "one channel"])
def test_filling_separates_values_from_gaps(missing):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, 2)) for n in (5, 8, 7)]
    if missing != "nothing":
        arrays[2][3] = np.nan
    if missing == "one channel":
        arrays[0][1, 1] = np.nan
    chunk = Chunk(np.array([2, 0]), rows=3, n_times=8)
    values, lengths, observed = fill(Cohort.from_arrays(arrays), chunk, "float32")
    assert values.dtype == np.float32
    assert values.shape == (3, 8, 2)
    assert_array_equal(lengths, [7, 5, 0])
    for row, x in enumerate((arrays[2], arrays[0])):
        assert_array_equal(values[row, : len(x)], np.nan_to_num(x).astype(np.float32))
        assert not values[row, len(x) :].any()
    assert not values[2].any()
    if missing == "nothing":
        assert observed is None
        return
    assert observed.shape == (3, 8, 2 if missing == "one channel" else 1)
    for row, x in enumerate((arrays[2], arrays[0])):
        expected = ~np.isnan(x[:, : observed.shape[2]])
        assert_array_equal(observed[row, : len(x)], expected)
        assert not observed[row, len(x) :].any()
    assert not observed[2].any()
