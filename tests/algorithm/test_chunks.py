"""Chunks: every recording once, few shapes, and missing samples apart from values."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm.chunks import (
    ALIKE_ROWS,
    CHUNK_ROWS,
    CPU_SHAPE,
    LARGE_CHUNK,
    MANY_ROWS,
    MANY_SAMPLES,
    SEARCHED_ENTRIES,
    Chunk,
    Shape,
    accelerator_shape,
    bucket_length,
    bucket_rows,
    choose_rows,
    fill,
    fill_on_device,
    mask_missing,
    measure_chunk,
    plan_blocks,
    plan_chunks,
)
from percdl.signals import Cohort
from percdl.signals.measured import measure
from percdl.steps.compilation import n_cores

SHAPES = [
    CPU_SHAPE,
    accelerator_shape(1),
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
        assert chunk.rows <= shape.rows
        assert chunk.rows == 1 or chunk.rows * chunk.n_times * n_channels <= shape.samples
        assert {bucket_length(lengths[s]) for s in chunk.subjects} == {chunk.n_times}


@given(st.integers(1, 2**16), st.integers(1, 10**8), st.sampled_from(SHAPES))
def test_a_search_of_everyone_fits_into_memory(rows, row_entries, shape):
    everyone, some = shape.search_sizes(rows, row_entries)
    assert 1 <= some <= everyone <= rows
    assert everyone == some or everyone * row_entries <= SEARCHED_ENTRIES


@given(st.lists(st.integers(1000, 4000), min_size=1, max_size=500), st.integers(1, 30))
def test_shapes_are_few(lengths, n_channels):
    chunks = plan_chunks(lengths, n_channels, CPU_SHAPE)
    assert {chunk.rows for chunk in chunks} <= set(CHUNK_ROWS)
    assert len({chunk.n_times for chunk in chunks}) <= 5
    for n_times in {chunk.n_times for chunk in chunks}:
        same = [chunk for chunk in chunks if chunk.n_times == n_times]
        if sum(len(chunk.subjects) for chunk in same) > ALIKE_ROWS:
            assert {chunk.rows for chunk in same} == {ALIKE_ROWS}  # rows are computed alike


@given(st.integers(1, 10**5), st.integers(1, 2**17))
def test_rows_go_into_few_buckets(count, most):
    rows = bucket_rows(count, most)
    assert 1 <= rows <= most
    assert rows == most or rows % ALIKE_ROWS == 0
    assert bucket_rows(rows, most) == rows
    assert bucket_rows(count + 1, most) >= rows
    if most % ALIKE_ROWS == 0:
        padding = 1.125 if count > MANY_ROWS else 1.5
        assert min(count, most) <= rows <= padding * count + ALIKE_ROWS


@given(
    st.integers(1, 1000),
    st.lists(st.integers(1, 300), min_size=1, max_size=5, unique=True).map(sorted),
    st.data(),
)
def test_compiled_programs_are_used_if_there_are_any(count, sizes, data):
    ready = data.draw(st.sets(st.sampled_from(sizes)))
    rows = choose_rows(count, sizes, ready.__contains__)
    assert rows in (ready or {count})
    if any(size >= count for size in ready):
        assert rows == min(size for size in ready if size >= count)  # the least padding


@given(st.integers(1, 10**4))
def test_each_core_has_a_block(count):
    """Blocks of at most 256 rows, that many cores share evenly."""
    chunks = [Chunk(np.arange(n), 16, 64) for n in [16] * (count // 16) + [count % 16] if n]
    rows = CPU_SHAPE.choose_block(chunks, lambda rows: False)
    blocks = plan_blocks(chunks, rows, n_cores())
    assert rows <= CPU_SHAPE.block_rows
    assert len(blocks) % n_cores() == 0 or len(blocks) == len(chunks)
    filled = [sum(block.counts) for block in blocks]
    assert max(filled) - min(filled) <= 16


def test_buckets_of_rows_are_few():
    assert len({bucket_rows(n, 2**16) for n in range(1, 2**16 + 1, 7)}) < 40


@given(st.integers(1, ALIKE_ROWS), st.integers(1, 1024), st.integers(1, 4))
def test_a_few_short_recordings_meet_the_programs_of_sixteen(count, n_times, n_channels):
    (chunk,) = plan_chunks([n_times] * count, n_channels, CPU_SHAPE)
    assert chunk.rows == ALIKE_ROWS


@given(st.integers(1, ALIKE_ROWS))
def test_a_few_long_recordings_meet_programs_of_sixteen_that_are_ready(count):
    ready = lambda rows, n_times: rows == ALIKE_ROWS  # noqa: E731
    (chunk,) = plan_chunks([2 * MANY_SAMPLES] * count, 1, CPU_SHAPE, ready)
    assert chunk.rows == ALIKE_ROWS


@given(st.integers(1, ALIKE_ROWS - 1))
def test_a_few_long_recordings_are_not_padded_to_sixteen(count):
    """Nor is there more than three times as much padding as recordings."""
    chunks = plan_chunks([MANY_SAMPLES + 1] * count, 1, CPU_SHAPE)
    total = sum(chunk.rows for chunk in chunks)
    assert count <= total <= count + 3
    assert all(chunk.rows < ALIKE_ROWS for chunk in chunks)


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


@given(st.integers(LARGE_CHUNK, 3 * 10**5), st.integers(1, 12))
def test_large_chunks_stay_on_an_accelerator_as_they_are(count, n_channels):
    """However many there are, and with few empty rows."""
    shape = accelerator_shape(1)
    chunks = plan_chunks(np.full(count, 1000), n_channels, shape)
    for block in plan_blocks(chunks, shape.block_rows):
        assert block.chunk_rows == [block.rows]
    assert sum(chunk.rows for chunk in chunks) <= (1.125 if count > MANY_ROWS else 1.5) * count


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
    (block,) = plan_blocks(chunks, chunks[0].rows)
    part = object()
    assert block.gather([part]) is part
    assert block.split(part)[0] is part
    # Of more chunks, there is a part for each.
    (block,) = plan_blocks(plan_chunks([10] * 5 + [100] * 2, 1, CPU_SHAPE), 64)
    with pytest.raises(ValueError, match="zip"):
        block.gather([np.zeros(16)])


@given(st.lists(st.integers(1, 64), min_size=1, max_size=60))
def test_blocks_of_a_processor_have_one_size(counts):
    """And two of them could never be one."""
    chunks = [Chunk(np.arange(n), n, 64) for n in counts]
    blocks = plan_blocks(chunks, 64)
    assert {block.rows for block in blocks} == {64}
    filled = sorted(sum(block.counts) for block in blocks)
    assert len(filled) == 1 or filled[0] + filled[1] > 64


def test_large_arrays_travel_in_pieces(monkeypatch):
    """However many pieces there are, they come together again."""
    cohort = Cohort.from_arrays(np.random.default_rng(2).standard_normal((7, 6, 2)))
    chunk = Chunk(np.arange(7), rows=8, n_times=8)
    moved = []
    put = jax.device_put
    monkeypatch.setattr(jax, "device_put", lambda x: moved.append(x) or put(x))
    monkeypatch.setattr("percdl.algorithm.chunks.PIECE_BYTES", 200)
    values = fill_on_device(cohort, chunk, "float32").values
    assert len([x for x in moved if np.ndim(x) == 3]) == 7 * 6 * 2 * 8 // 200
    assert_array_equal(values, fill(cohort, chunk, 0, "float32").values)


@pytest.mark.parametrize("unit", [1.0, 4.0, 0.5])
def test_samples_are_counted_in_a_unit(unit):
    cohort = Cohort.from_arrays(np.random.default_rng(3).standard_normal((5, 6, 2)))
    chunk = Chunk(np.arange(1, 4), rows=4, n_times=8)
    plain = fill(cohort, chunk, 0, "float32").values
    assert_array_equal(fill(cohort, chunk, 0, "float32", unit).values, plain / unit)
    assert_array_equal(fill_on_device(cohort, chunk, "float32", unit).values, plain / unit)


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
    values, lengths, observed, *_ = fill(cohort, chunk, n_masks, "float32")
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
        ours = fill_on_device(cohort, chunk, "float32")
        assert_array_equal(ours.values, expected.values)
        assert_array_equal(ours.lengths, expected.lengths)
        assert ours.observed is None


@pytest.mark.parametrize("n_masks", [1, 2])
def test_masks_of_the_device_are_those_of_the_host(n_masks):
    values = np.random.default_rng(2).standard_normal((3, 6, 2))
    values[0, 2:4] = values[2] = np.nan
    values[1, 5, n_masks - 1 :] = np.nan  # of all channels, or of one
    cohort, chunk = Cohort.from_arrays(values), Chunk(np.arange(3), rows=4, n_times=8)
    expected = fill(cohort, chunk, n_masks, "float32")
    found = mask_missing(fill_on_device(cohort, chunk, "float32"), n_masks)
    for ours, theirs in zip(found, expected, strict=True):
        assert_array_equal(ours, theirs)


@given(hnp.arrays(float, (3, 6, 2), elements=st.sampled_from([np.nan, -1.5, 0.0, 2.0, 1e30])))
def test_the_device_measures_as_the_host_does(values):
    cohort, chunk = Cohort.from_arrays(values), Chunk(np.arange(3), rows=4, n_times=8)
    with jax.enable_x64(True):
        found = measure_chunk(fill(cohort, chunk, 0, "float32"))
    expected = measure(list(values.astype(np.float32)))
    for name in ("length", "count", "total", "square", "uneven"):
        ours, theirs = (np.asarray(getattr(x, name))[:3] for x in (found, expected))
        assert_allclose(ours, theirs, rtol=1e-12, err_msg=name)
    for ours, theirs in ((found.low, expected.low), (found.high, expected.high)):
        seen = expected.count > 0
        assert_array_equal(np.asarray(ours)[:3][seen], theirs[seen])
    for name in ("masks", "is_empty", "is_constant"):
        on_host = type(expected)(*(np.asarray(x)[:3] for x in found))
        assert_array_equal(getattr(on_host, name), getattr(expected, name))
