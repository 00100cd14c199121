"""Chunks of fixed shape: how recordings of any length meet programs compiled once.

Recordings are sorted by length into buckets (two per octave, lengths that suit the FFT) and
cut into chunks with few possible numbers of rows, so a cohort of any size and any lengths
compiles a handful of programs and needs memory for one chunk at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from percdl.signals import AnyCohort, Cohort
from percdl.steps.types import Signals


@dataclass(frozen=True)
class Shape:
    """How much is processed at once.

    A chunk of CSC holds ``rows`` recordings at most, ``samples`` (rows x N x P) in all; a
    block of IPU holds ``block_rows`` subjects at most.
    """

    rows: int
    samples: int
    block_rows: int


# On a CPU small chunks stay in the cache; on an accelerator large ones keep it busy.
CPU_SHAPE = Shape(rows=16, samples=2**23, block_rows=64)
# Few sizes, so that few programs are compiled.
SMALL_ROWS = (4, 16, 32, 64)
# Processors take some rows at once, and those left over by other instructions, which round
# differently: rows are computed alike, to the bit, in all chunks of a multiple of these.
ALIKE_ROWS = 16
# Pieces travel to an accelerator side by side, three times as fast as one large array.
PIECE_BYTES = 2**25
ACCELERATOR_SHAPE = Shape(rows=2**16, samples=2**29, block_rows=2**16)


def accelerator_shape(n_devices: int) -> Shape:
    """Return what several accelerators process at once: as much as one, for each of them."""
    return Shape(*(n_devices * size for size in astuple(ACCELERATOR_SHAPE)))


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


def plan_chunks(lengths: Sequence[int] | np.ndarray, n_channels: int, shape: Shape) -> list[Chunk]:
    """Assign every recording to a chunk, the shortest buckets first."""
    distinct, which = np.unique(lengths, return_inverse=True)
    padded = np.array([bucket_length(int(n)) for n in distinct])[which]
    chunks = []
    for n_times in np.unique(padded):
        members = np.flatnonzero(padded == n_times)
        most = max(1, min(shape.rows, shape.samples // (int(n_times) * n_channels)))
        if most > SMALL_ROWS[-1]:  # so that the rows of a full chunk can be shared out
            most -= most % SMALL_ROWS[-1]
        for start, rows in row_counts(len(members), most):
            # The smallest chunks are alike as well, where no others are made of the same.
            few = min(most, len(members)) <= SMALL_ROWS[0]
            held = members[start : start + rows]
            chunks.append(Chunk(held, rows if few else round_rows(rows), int(n_times)))
    return chunks


def row_counts(count: int, most: int, tight: bool = False) -> Iterator[tuple[int, int]]:
    """Cut ``count`` rows into pieces of ``most`` rows and a rest, of few possible sizes.

    A large rest, on an accelerator, is rounded up to a power of two or one and a half; a
    small one to a size of `SMALL_ROWS`. ``tight`` cuts the rest again where that would waste
    over a third: worth it where a row is costly, for it may compile one program more.
    """
    start = 0
    while start < count:
        left = count - start
        if left >= most:
            rows = most
        elif left > SMALL_ROWS[-1]:
            rows = min(most, bucket_length(left))
        else:
            rows = min(small_rows(left, tight), most)
        yield start, rows
        start += rows


def round_rows(rows: int) -> int:
    """Return the next multiple of `ALIKE_ROWS`."""
    return -(-rows // ALIKE_ROWS) * ALIKE_ROWS


def small_rows(left: int, tight: bool = False) -> int:
    """Return how many rows to take next when ``left`` are left, 64 at most."""
    above = next(size for size in SMALL_ROWS if left <= size)
    if not tight or 3 * left >= 2 * above or above <= ALIKE_ROWS:
        return max(above, ALIKE_ROWS) if tight else above
    return max(size for size in SMALL_ROWS if size < above)


def fill(cohort: AnyCohort, chunk: Chunk, n_masks: int, dtype: str, unit: float = 1.0) -> Signals:
    """Copy the recordings of a chunk into padded arrays; missing samples become zeros.

    Samples are counted in ``unit``, see `percdl.algorithm.magnitude`.
    """
    values = np.zeros((chunk.rows, chunk.n_times, cohort.n_channels), dtype)
    lengths = np.zeros(chunk.rows, np.int32)
    for row, subject in enumerate(chunk.subjects):
        record = cohort[subject]
        values[row, : record.n_times] = _count(record.values, unit)
        lengths[row] = record.n_times
    if n_masks == 0:
        return _signals(values, lengths, None)
    missing = np.isnan(values)
    values[missing] = 0
    observed = ~missing[..., :n_masks]
    observed &= np.arange(chunk.n_times)[:, None] < lengths[:, None, None]
    return _signals(values, lengths, observed.astype(dtype))


def fill_on_device(
    cohort: Cohort, chunk: Chunk, n_masks: int, dtype: str, unit: float = 1.0
) -> Signals:
    """Return the same as `fill`, on the device; a stacked cohort is padded there, not here.

    Where there are several devices, each gets its share of the rows, and the programs that
    follow run where the rows are.
    """
    first, count = int(chunk.subjects[0]), len(chunk.subjects)
    in_a_row = chunk.subjects[-1] - first == count - 1
    if cohort.stacked is None or n_masks or not in_a_row:
        return spread_rows(jax.device_put(fill(cohort, chunk, n_masks, dtype, unit)))
    stacked = cohort.stacked[first : first + count]
    n_times = stacked.shape[1]
    widths = ((0, chunk.rows - count), (0, chunk.n_times - n_times), (0, 0))
    lengths = np.where(np.arange(chunk.rows) < count, n_times, 0).astype(np.int32)
    pieces = np.array_split(stacked, max(1, stacked.nbytes // PIECE_BYTES))
    moved = [jax.device_put(np.asarray(_count(piece, unit), dtype)) for piece in pieces]
    values = jnp.pad(jnp.concatenate(moved), widths)
    return spread_rows(Signals(values, jnp.asarray(lengths), None))


def spread_rows(signals: Signals) -> Signals:
    """Share the rows out to all devices, where there are several and the rows can be shared."""
    devices = jax.devices()
    if len(devices) == 1 or len(signals.lengths) % len(devices):
        return signals
    mesh = jax.sharding.Mesh(np.array(devices), "rows")
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    return jax.device_put(signals, rows)


def _count(values: np.ndarray, unit: float) -> np.ndarray:
    """Return samples in a unit; those of single precision may be too large or small for theirs."""
    return values if unit == 1 else values.astype(float) / unit


def _signals(values: Any, lengths: Any, observed: Any) -> Signals:
    """Wrap host arrays, which compiled programs take as they take device arrays."""
    return Signals(values, lengths, observed)
