"""Chunks and blocks of fixed shape, so that programs are compiled once for any recordings.

Recordings are sorted by length into buckets (two per octave, lengths that suit the FFT) and cut
into chunks of few possible numbers of rows: padding is cheap, compiling is not. A cohort of any
size and any lengths then needs a handful of programs, and memory for one chunk at a time.

IPU works on statistics, whose size does not depend on the length of a recording. So chunks of any
lengths share a block of a fixed number of rows, and IPU is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from percdl.signals import AnyCohort, Cohort
from percdl.signals.measured import Measures
from percdl.steps.compilation import n_cores, program
from percdl.steps.types import Signals

# Rows of the chunks on a CPU. Results of a row are equal to the bit in chunks of any multiple of
# 16 rows: processors compute several rows at once, and the rest by instructions that round
# differently.
CHUNK_ROWS = (1, 4, 16, 256)
ALIKE_ROWS = 16
# Chunks of fewer recordings with more samples (N x P) than this are not padded to `ALIKE_ROWS`.
MANY_SAMPLES = 2**12
# Chunks of more than `ALIKE_ROWS` rows hold this number of samples at most, to stay in the cache.
CACHED_SAMPLES = 2**16
# Chunks with at least this many subjects keep an accelerator busy; each is a separate block.
LARGE_CHUNK = 2048
# Beyond this number of rows there are eight buckets per octave instead of two: empty rows then
# cost more than another program.
MANY_ROWS = 2**14
# Subjects that an accelerator searches at once have Jacobians of this number of entries at most.
SEARCHED_ENTRIES = 2**26
# Copying pieces to an accelerator in parallel is three times as fast as one large array. Few at a
# time: each needs memory that the device can read, and to get it takes longer than to copy.
PIECE_BYTES, PIECES_AT_ONCE = 2**23, 16


@dataclass(frozen=True)
class Shape:
    """How much is processed at once.

    A chunk of CSC holds ``rows`` recordings at most, ``samples`` (rows x N x P) in all; a
    block of IPU holds ``block_rows`` subjects at most; ``searched_rows`` of them are searched
    together. With ``is_cpu``, chunks have one of `CHUNK_ROWS`, and small ones
    stay in the cache. An accelerator is kept busy by chunks that are as large as possible, and by
    a search of everyone at once. With ``is_exact``, all chunks and blocks have ``rows`` rows, for
    any recordings.
    """

    rows: int
    samples: int
    block_rows: int
    searched_rows: int = 8
    is_cpu: bool = True
    is_exact: bool = False

    def chunk_sizes(self, count: int, row_samples: int) -> list[int]:
        """Return the possible rows of the chunks for ``count`` recordings, in ascending order."""
        if self.is_exact:
            return [self.rows]
        most = max(1, min(self.rows, self.samples // row_samples))
        if not self.is_cpu:  # all chunks about equally full
            return [bucket_rows(-(-count // -(-count // most)), most)]
        cached = max(CACHED_SAMPLES // row_samples, ALIKE_ROWS)
        sizes = [rows for rows in CHUNK_ROWS if rows <= min(most, cached)]
        if row_samples <= MANY_SAMPLES:  # only sizes whose rows are computed alike, if there are
            sizes = [rows for rows in sizes if rows >= ALIKE_ROWS] or sizes[-1:]
        return sizes

    def search_sizes(self, rows: int, row_entries: int) -> tuple[int, int]:
        """Return how many of ``rows`` subjects are searched together: if all are, and if some are.

        The Jacobian of a subject has ``row_entries`` entries.
        """
        some = min(self.searched_rows, rows)
        return some if self.is_cpu else min(max(SEARCHED_ENTRIES // row_entries, some), rows), some

    def choose_block(self, chunks: Sequence[Chunk], is_ready: Callable[[int], bool]) -> int:
        """Return the rows of the blocks for these chunks: one block per core, if it can be.

        ``is_ready(rows)`` says whether the programs for such a block are compiled.
        """
        if self.is_exact or not self.is_cpu:
            return self.block_rows
        blocks = plan_blocks(chunks, self.block_rows, n_cores())
        largest = max(sum(block.counts) for block in blocks)
        sizes = range(ALIKE_ROWS, self.block_rows + 1, ALIKE_ROWS)
        return choose_rows(-(-largest // ALIKE_ROWS) * ALIKE_ROWS, sizes, is_ready)


CPU_SHAPE = Shape(rows=256, samples=2**23, block_rows=256)


def accelerator_shape(n_devices: int) -> Shape:
    """Return the shape for several accelerators: that of one, times their number."""
    return Shape(n_devices * 2**16, n_devices * 2**29, n_devices * 2**16, 2**11, is_cpu=False)


def choose_rows(wanted: int, sizes: Sequence[int], is_ready: Callable[[int], bool]) -> int:
    """Return the number of rows that is wanted, or the next of the sizes with compiled programs.

    If programs are ready for other sizes only, return one of those: personalizing two people
    after a fit of many then compiles nothing.
    """
    ready = [rows for rows in sizes if is_ready(rows)] or [wanted]
    return min((rows for rows in ready if rows >= wanted), default=ready[-1])


@dataclass(frozen=True)
class Chunk:
    """Which recordings share a chunk, and its padded shape."""

    subjects: np.ndarray
    rows: int
    n_times: int


def bucket_length(n_times: int) -> int:
    """Return the padded length for a recording: the next of 1, 1.5, 2, 3, 4, 6, 8, 12, ... ."""
    power = 1 << max(n_times - 1, 1).bit_length()
    return 3 * power // 4 if n_times <= 3 * power // 4 else power


def bucket_rows(count: int, most: int) -> int:
    """Return the padded number of rows: the next bucket, at most ``most``.

    >>> [bucket_rows(n, 2**16) for n in (2, 17, 40, 100, 21_799)]
    [16, 32, 48, 128, 22528]
    """
    rows, step = min(count, most), ALIKE_ROWS
    if rows > MANY_ROWS:
        step = 1 << rows.bit_length() - 4
    else:
        rows = bucket_length(rows)
    rows = -(-rows // step) * step
    return rows if rows <= most else most - most % ALIKE_ROWS or most


def plan_chunks(
    lengths: Sequence[int] | np.ndarray,
    n_channels: int,
    shape: Shape,
    is_ready: Callable[[int, int], bool] = lambda rows, n_times: False,
) -> list[Chunk]:
    """Assign every recording to a chunk, the shortest buckets first.

    ``is_ready(rows, n_times)`` says whether the programs for such a chunk are compiled.
    """
    distinct, which = np.unique(lengths, return_inverse=True)
    padded = np.array([bucket_length(int(n)) for n in distinct])[which]
    chunks = []
    for n_times in map(int, np.unique(padded)):
        members = np.flatnonzero(padded == n_times)
        sizes = shape.chunk_sizes(len(members), n_times * n_channels)
        filled = max((rows for rows in sizes if rows <= len(members)), default=sizes[0])
        rows = choose_rows(filled, sizes, lambda rows, n=n_times: is_ready(rows, n))
        starts = range(0, len(members), rows)
        chunks += [Chunk(members[start : start + rows], rows, n_times) for start in starts]
    return chunks


def fill(
    cohort: AnyCohort, chunk: Chunk, n_masks: int, dtype: str, unit: float | np.ndarray = 1.0
) -> Signals:
    """Copy the recordings of a chunk into padded arrays; missing samples become zeros.

    Samples are counted in ``unit``, which may differ by recording, see
    `percdl.algorithm.magnitude`. With a mask for each channel, constant channels are missing.
    """
    signals = _copy(cohort, chunk, dtype, unit)
    if n_masks == 0:
        return signals
    missing, observed = _find_missing(signals, n_masks, np)
    signals.values[missing] = 0  # pyright: ignore[reportIndexIssue]
    return signals._replace(observed=observed)


def _find_missing(signals: Signals, n_masks: int, xp: Any) -> tuple[Any, Any]:
    """Return which samples are missing (S, N, P), and the masks of the others (S, N, Q)."""
    values: Any = signals.values
    missing, inside = xp.isnan(values), _inside(signals, xp)
    if n_masks > 1:
        seen = inside & ~missing
        low = xp.where(seen, values, xp.inf).min(1, keepdims=True)
        high = xp.where(seen, values, -xp.inf).max(1, keepdims=True)
        missing = missing | ((low == high) & (seen.sum(1, keepdims=True) > 1))
    return missing, (inside & ~missing[..., :n_masks]).astype(values.dtype)


def _inside(signals: Signals, xp: Any) -> Any:
    """Return which samples are within a recording (S, N, 1)."""
    return (xp.arange(signals.values.shape[1]) < signals.lengths[:, None])[..., None]


def fill_on_device(
    cohort: Cohort, chunk: Chunk, dtype: str, unit: float | np.ndarray = 1.0
) -> Signals:
    """Copy the recordings of a chunk to the device, with missing samples as NaN (`mask_missing`).

    A stacked cohort is padded on the device. With several devices, each gets its share of the
    rows, and later programs run where the rows are.
    """
    first, count = int(chunk.subjects[0]), len(chunk.subjects)
    in_a_row = chunk.subjects[-1] - first == count - 1
    if cohort.stacked is None or not in_a_row:
        return spread_rows(jax.device_put(_copy(cohort, chunk, dtype, unit)))
    stacked = cohort.stacked[first : first + count]
    n_times = stacked.shape[1]
    widths = ((0, chunk.rows - count), (0, chunk.n_times - n_times), (0, 0))
    lengths = np.where(np.arange(chunk.rows) < count, n_times, 0).astype(np.int32)
    n_pieces = max(1, stacked.nbytes // PIECE_BYTES)
    # In double precision: single precision may not represent the unit.
    in_units, units = np.any(unit != 1), np.broadcast_to(unit, len(cohort))[first : first + count]
    split = (np.array_split(x, n_pieces) for x in (stacked, units[:, None, None]))
    moved: list[jax.Array] = []
    for piece, own in zip(*split, strict=True):
        counted = piece.astype(float) / own if in_units else piece
        moved.append(jax.device_put(np.asarray(counted, dtype)))
        if len(moved) > PIECES_AT_ONCE:
            moved[-PIECES_AT_ONCE - 1].block_until_ready()
    return spread_rows(Signals(_join(moved, widths), jax.device_put(lengths), None))


@partial(program, static_argnames=("widths",))
def _join(pieces: list[jax.Array], widths: tuple[tuple[int, int], ...]) -> jax.Array:
    """Put pieces (s, N, P) together, and pad the whole with zeros."""
    return jnp.pad(jnp.concatenate(pieces), widths)


@partial(program, static_argnames=("n_masks",))
def mask_missing(signals: Signals, n_masks: int) -> Signals:
    """Return signals whose missing samples are zeros, with ``n_masks`` masks that say where."""
    missing, observed = _find_missing(signals, n_masks, jnp)
    return Signals(jnp.where(missing, 0, signals.values), signals.lengths, observed)


@program
def measure_chunk(signals: Signals) -> Measures:
    """Measure the recordings of a chunk on the device, in double precision."""
    values = signals.values
    seen = _inside(signals, jnp) & ~jnp.isnan(values)
    samples = jnp.where(seen, values, 0).astype(float)
    measured: dict[str, Any] = {
        "length": signals.lengths,
        "count": seen.sum(1),
        "total": samples.sum(1),
        "square": (samples**2).sum(1),
        "low": jnp.where(seen, values, jnp.inf).min(1),
        "high": jnp.where(seen, values, -jnp.inf).max(1),
        "uneven": (seen.any(2) != seen.all(2)).any(1),
    }
    return Measures(**measured)


def spread_rows(signals: Signals) -> Signals:
    """Distribute the rows over all devices, if there are several and the rows can be divided."""
    devices = jax.devices()
    if len(devices) == 1 or len(signals.lengths) % len(devices):
        return signals
    mesh = jax.sharding.Mesh(np.array(devices), "rows")
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    return jax.device_put(signals, rows)


def _copy(cohort: AnyCohort, chunk: Chunk, dtype: str, unit: float | np.ndarray) -> Signals:
    """Copy recordings into a padded array on the host."""
    values = np.zeros((chunk.rows, chunk.n_times, cohort.n_channels), dtype)
    lengths = np.zeros(chunk.rows, np.int32)
    lengths[: len(chunk.subjects)] = cohort.lengths[chunk.subjects]
    arrays = cohort.arrays if isinstance(cohort, Cohort) else None
    in_units, units = np.any(unit != 1), np.broadcast_to(unit, len(cohort))
    for row, s in enumerate(chunk.subjects.tolist()):
        record = cohort[s].values if arrays is None else arrays[s]
        values[row, : len(record)] = record.astype(float) / units[s] if in_units else record
    return Signals(values, lengths, None)  # pyright: ignore[reportArgumentType]


@dataclass
class Block:
    """Some chunks, by index: their subjects are personalized together.

    Rows that only fill a chunk are left out of the block, unless the block is one chunk,
    which then passes through untouched. The state of the subjects: their parameters (S, K, M)
    and how many searches in a row have changed nothing (S, K).
    """

    chunks: list[int]
    chunk_rows: list[int]
    counts: list[int]
    rows: int
    params: Any = None
    fruitless: Any = None

    def gather(self, parts: Sequence[Any]) -> Any:
        """Stack per-chunk arrays (or tuples of them) and pad with zeros to the block's rows."""
        if self.chunk_rows == [self.rows]:
            return parts[0]
        return jax.tree.map(self._stack, *parts)

    def split(self, stacked: Any) -> list[Any]:
        """Undo `gather`."""
        if self.chunk_rows == [self.rows]:
            return [stacked]
        # Cutting on the host keeps the device from compiling a program per cut.
        stacked = jax.tree.map(np.asarray, stacked)
        ends = np.cumsum(self.counts)
        return [
            jax.tree.map(lambda x, e=end, n=count, r=rows: _pad(x[e - n : e], r), stacked)
            for end, count, rows in zip(ends, self.counts, self.chunk_rows, strict=True)
        ]

    def _stack(self, *arrays: Any) -> np.ndarray:
        real = [np.asarray(a)[:n] for a, n in zip(arrays, self.counts, strict=True)]
        return _pad(np.concatenate(real), self.rows)


def plan_blocks(chunks: Sequence[Chunk], most_rows: int, n_at_once: int = 1) -> list[Block]:
    """Pack chunks into blocks of at most ``most_rows`` subjects, which take equally long.

    The work is the share of all subjects, to personalize, plus that of all samples, to code.
    The number of blocks is a multiple of ``n_at_once``, if possible. Chunks of `LARGE_CHUNK`
    subjects or more are separate blocks. On a CPU all blocks have ``most_rows`` rows, so that
    their programs are compiled once; on an accelerator they have fewer if possible.
    """
    counts = [len(chunk.subjects) for chunk in chunks]
    samples = [chunk.rows * chunk.n_times for chunk in chunks]
    work = [n / sum(counts) + size / sum(samples) for n, size in zip(counts, samples, strict=True)]
    n_small = sum(count for count in counts if count < LARGE_CHUNK)
    n_blocks = n_at_once * -(-n_small // (n_at_once * most_rows))
    packed: list[list[int]] = [[] for _ in range(n_blocks)]
    # A heap of work, subjects and place: the block with the least work comes first.
    filled = [(0.0, 0, place) for place in range(n_blocks)]
    for index in sorted(range(len(chunks)), key=lambda i: (-counts[i], -work[i])):
        count, load, total, place = counts[index], 0.0, 0, len(packed)
        too_full = []
        if count < LARGE_CHUNK:
            while filled and filled[0][1] + count > most_rows:
                too_full.append(heappop(filled))
            if filled:
                load, total, place = heappop(filled)
            for entry in [*too_full, (load + work[index], total + count, place)]:
                heappush(filled, entry)
        if place == len(packed):
            packed.append([])
        packed[place].append(index)
    blocks = []
    for own in filter(None, packed):
        rows, members = [chunks[i].rows for i in own], [counts[i] for i in own]
        size = most_rows
        if most_rows >= LARGE_CHUNK:  # a block of one chunk stays on the device as it is
            size = rows[0] if len(own) == 1 else bucket_rows(sum(members), most_rows)
        blocks.append(Block(own, rows, members, size))
    return blocks


def _pad(array: np.ndarray, rows: int) -> np.ndarray:
    """Add rows of zeros."""
    missing = rows - len(array)
    if missing == 0:
        return array
    return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])
