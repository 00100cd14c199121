"""Chunks: every recording once, few shapes, and missing samples apart from values."""

from itertools import accumulate

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from percdl.algorithm.blocks import plan_blocks
from percdl.algorithm.chunks import (
    ACCELERATOR_SHAPE,
    ALIKE_ROWS,
    CPU_SHAPE,
    PIECE_BYTES,
    SMALL_ROWS,
    Chunk,
    Shape,
    accelerator_shape,
    bucket_length,
    fill,
    fill_on_device,
    plan_chunks,
    row_counts,
    small_rows,
)
from percdl.signals import Cohort

SHAPES = [
    CPU_SHAPE,
    ACCELERATOR_SHAPE,
    Shape(1, 2**23, 1),
    Shape(4, 2**23, 4),
    Shape(64, 5000, 64),
]


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
        assert 0 < len(chunk.subjects) <= chunk.rows
        assert len(chunk.subjects) <= shape.rows
        assert chunk.rows <= max(shape.rows, ALIKE_ROWS)
        n_samples = len(chunk.subjects) * chunk.n_times * n_channels
        assert len(chunk.subjects) == 1 or n_samples <= shape.samples
        assert {bucket_length(lengths[s]) for s in chunk.subjects} == {chunk.n_times}


@given(st.lists(st.integers(1000, 4000), min_size=1, max_size=500))
def test_shapes_are_few(lengths):
    chunks = plan_chunks(lengths, 1, CPU_SHAPE)
    assert {chunk.rows for chunk in chunks} <= {4, 16}
    assert len({chunk.n_times for chunk in chunks}) <= 5
    assert sum(chunk.rows for chunk in chunks) <= 4 * len(lengths)
    apart = [chunk for chunk in chunks if chunk.rows == 4]
    assert len({chunk.n_times for chunk in apart}) == len(apart)  # never a rest


@given(st.integers(0, 10**5), st.sampled_from([1, 3, 16, 64, 2**16]), st.booleans())
def test_rows_are_cut_into_full_pieces_and_a_rest(count, most, tight):
    pieces = list(row_counts(count, most, tight))
    sizes = [size for _, size in pieces]
    assert [start for start, _ in pieces] == list(accumulate(sizes, initial=0))[:-1]
    assert sizes[: count // most] == [most] * (count // most)
    assert count <= sum(sizes) <= (1.5 * count + ALIKE_ROWS if tight else 4 * count)
    assert sum(sizes[:-1]) < max(count, 1)
    assert tight or len(sizes) <= count // most + 1
    allowed = {1, 3, *SMALL_ROWS, *(bucket_length(n) for n in (65, 97, 129, 193))}
    assert all(size in allowed or size > 192 for size in sizes)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=400), st.sampled_from(SHAPES))
def test_every_chunk_is_in_one_block(lengths, shape):
    chunks = plan_chunks(lengths, 1, shape)
    blocks = plan_blocks(chunks, shape.block_rows)
    assert sorted(index for block in blocks for index in block.chunks) == list(range(len(chunks)))
    for block in blocks:
        members = [len(chunks[index].subjects) for index in block.chunks]
        assert block.counts == members
        assert sum(members) <= block.rows
        assert sum(members) <= shape.block_rows


def test_blocks_gather_and_split():
    """Rows that only fill a chunk are dropped on the way in, and zeros on the way out."""
    chunks = plan_chunks([10] * 5 + [100] * 2, 1, CPU_SHAPE)
    (block,) = plan_blocks(chunks, 64)
    parts = [
        (np.arange(1.0, 2 * chunk.rows + 1).reshape(-1, 2), np.full(chunk.rows, 10 + i))
        for i, chunk in enumerate(chunks)
    ]
    stacked = block.gather([parts[index] for index in block.chunks])
    assert [len(array) for array in stacked] == [block.rows] * 2
    assert_array_equal(stacked[1][:7], [10] * 5 + [11] * 2)  # the larger chunk comes first
    assert not stacked[1][7:].any()
    for ours, index in zip(block.split(stacked), block.chunks, strict=True):
        theirs, chunk = parts[index], chunks[index]
        count = len(chunk.subjects)
        for mine, given_part in zip(ours, theirs, strict=True):
            assert_array_equal(mine[:count], given_part[:count])
            assert len(mine) == chunk.rows
            assert not mine[count:].any()


def test_a_block_of_one_chunk_passes_untouched():
    chunks = plan_chunks([10] * 5, 1, CPU_SHAPE)
    (block,) = plan_blocks(chunks, 64)
    part = object()
    assert block.gather([part]) is part
    assert block.split(part)[0] is part
    # Of more chunks, there is a part for each.
    (block,) = plan_blocks(plan_chunks([10] * 5 + [100] * 2, 1, CPU_SHAPE), 64)
    with pytest.raises(ValueError, match="zip"):
        block.gather([np.zeros(16)])


@pytest.mark.parametrize(
    ("counts", "most", "rows"),
    [
        ((3, 2), 64, [16]),  # five subjects of two chunks
        ((3,), 64, [4]),
        ((17,), 64, [32]),  # as many rows as the chunk has
        ((40, 24), 64, [64]),
        ((41, 24), 64, [64, 32]),
        ((70, 30), 200, [112]),  # the next multiple of sixteen
        ((16, 16, 1), 16, [16, 16, 4]),
    ],
)
def test_blocks_have_few_sizes(counts, most, rows):
    sizes = {3: 4, 2: 4, 1: 4, 17: 32}
    chunks = [Chunk(np.arange(n), sizes.get(n, n), 64) for n in counts]
    assert [block.rows for block in plan_blocks(chunks, most)] == rows


def test_sizes_suit_memory_and_processors():
    """Single precision: 32 MiB at once on a CPU, 2 GiB on an accelerator, told in 32 MiB."""
    mebi = 2**20
    assert 4 * CPU_SHAPE.samples == PIECE_BYTES == 32 * mebi
    assert 4 * ACCELERATOR_SHAPE.samples == 2048 * mebi
    assert CPU_SHAPE.rows == ALIKE_ROWS
    assert CPU_SHAPE.block_rows == SMALL_ROWS[-1]
    assert ACCELERATOR_SHAPE.rows == ACCELERATOR_SHAPE.block_rows == 2**16
    # From the width of a vector unit on; all but the smallest share its instructions.
    assert SMALL_ROWS == (4, ALIKE_ROWS, 2 * ALIKE_ROWS, 4 * ALIKE_ROWS)
    assert ALIKE_ROWS == 16
    assert accelerator_shape(3) == Shape(3 * 2**16, 3 * 2**29, 3 * 2**16)


@pytest.mark.parametrize(
    ("left", "loose", "tight"),
    [
        (1, 4, 16),
        (4, 4, 16),
        (5, 16, 16),
        (16, 16, 16),
        (17, 32, 16),  # a third would be wasted: sixteen now, the rest later
        (21, 32, 16),
        (22, 32, 32),
        (42, 64, 32),
        (43, 64, 64),
        (64, 64, 64),
    ],
)
def test_a_rest_is_rounded_up_unless_that_wastes_a_third(left, loose, tight):
    assert small_rows(left) == loose
    assert small_rows(left, tight=True) == tight
    assert next(row_counts(left, 2**16))[1] == loose
    assert next(row_counts(left, 2**16, tight=True))[1] == tight


@pytest.mark.parametrize(
    ("n_subjects", "shape", "rows"),
    [
        (3, CPU_SHAPE, [4]),
        (5, CPU_SHAPE, [16]),
        (20, CPU_SHAPE, [16, 16]),  # a rest is not smaller: rows are computed alike
        (6, Shape(4, 2**23, 64), [4, 4]),
        (9, Shape(8, 2**23, 64), [16, 16]),
        (2, Shape(16, 1, 64), [1, 1]),  # longer than all that fits at once
        (300, Shape(100, 2**23, 64), [64] * 5),
        (200, Shape(64, 2**23, 64), [64] * 3 + [16]),
        (128, Shape(130, 2**23, 64), [128]),
        (70, Shape(65, 2**23, 64), [64, 16]),
    ],
)
def test_chunks_of_one_length(n_subjects, shape, rows):
    assert [chunk.rows for chunk in plan_chunks([100] * n_subjects, 2, shape)] == rows


def test_large_arrays_travel_in_pieces(monkeypatch):
    """However many pieces there are, they come together again."""
    cohort = Cohort.from_arrays(np.random.default_rng(2).standard_normal((7, 6, 2)))
    chunk = Chunk(np.arange(7), rows=8, n_times=8)
    moved = []
    put = jax.device_put
    monkeypatch.setattr(jax, "device_put", lambda x: moved.append(x) or put(x))
    monkeypatch.setattr("percdl.algorithm.chunks.PIECE_BYTES", 200)
    values = fill_on_device(cohort, chunk, 0, "float32").values
    assert len(moved) == 7 * 6 * 2 * 8 // 200
    assert_array_equal(values, fill(cohort, chunk, 0, "float32").values)


@pytest.mark.parametrize("unit", [1.0, 4.0, 0.5])
def test_samples_are_counted_in_a_unit(unit):
    cohort = Cohort.from_arrays(np.random.default_rng(3).standard_normal((5, 6, 2)))
    chunk = Chunk(np.arange(1, 4), rows=4, n_times=8)
    for filled in (fill, fill_on_device):
        plain, counted = (filled(cohort, chunk, 0, "float32", u) for u in (1.0, unit))
        assert_array_equal(counted.values, plain.values / unit)
        assert_array_equal(plain.values, filled(cohort, chunk, 0, "float32").values)


@pytest.mark.parametrize("missing", ["nothing", "all channels alike", "one channel"])
def test_filling_separates_values_from_gaps(missing):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, 2)) for n in (5, 8, 7)]
    if missing != "nothing":
        arrays[2][3] = np.nan
    if missing == "one channel":
        arrays[0][1, 1] = np.nan
    chunk = Chunk(np.array([2, 0]), rows=3, n_times=8)
    cohort = Cohort.from_arrays(arrays)
    n_masks = cohort.n_masks
    assert n_masks == {"nothing": 0, "all channels alike": 1, "one channel": 2}[missing]
    values, lengths, observed = fill(cohort, chunk, n_masks, "float32")
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
    assert observed.shape == (3, 8, n_masks)
    for row, x in enumerate((arrays[2], arrays[0])):
        expected = ~np.isnan(x[:, : observed.shape[2]])
        assert_array_equal(observed[row, : len(x)], expected)
        assert not observed[row, len(x) :].any()
    assert not observed[2].any()


def test_filling_on_the_device_is_the_same():
    cohort = Cohort.from_arrays(np.random.default_rng(1).standard_normal((5, 6, 2)))
    assert cohort.stacked is not None
    for subjects in ([1, 2, 3], [4, 0], [0, 2, 3], [2], [0, 1, 2, 3, 4]):
        chunk = Chunk(np.array(subjects), rows=6, n_times=8)
        expected = fill(cohort, chunk, 0, "float32")
        ours = fill_on_device(cohort, chunk, 0, "float32")
        assert_array_equal(ours.values, expected.values)
        assert_array_equal(ours.lengths, expected.lengths)
        assert ours.observed is None
    gaps = Cohort.from_arrays(np.full((2, 6, 2), np.nan))
    masked = fill_on_device(gaps, Chunk(np.arange(2), 2, 8), 1, "float32")
    assert not masked.observed.any()
