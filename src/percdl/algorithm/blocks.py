"""Blocks of subjects that are personalized together.

IPU works on statistics, whose size does not depend on the length of a recording, so chunks
of any lengths share a block of a fixed number of rows and IPU is compiled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import jax
import numpy as np

from percdl.algorithm.chunks import Chunk, bucket_rows

# Chunks with at least this many subjects keep an accelerator busy; each is a separate block.
LARGE_CHUNK = 2048


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
    rows: int = 0
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

    Their number is a multiple of ``n_at_once``, if possible. Chunks of `LARGE_CHUNK` subjects or
    more are separate blocks. On a CPU all blocks have ``most_rows`` rows, so that their programs
    are compiled once; on an accelerator they have fewer if possible.
    """
    n_small = sum(n for chunk in chunks if (n := len(chunk.subjects)) < LARGE_CHUNK)
    n_blocks = n_at_once * -(-n_small // (n_at_once * most_rows))
    blocks = [Block([], [], []) for _ in range(n_blocks)]
    filled = [(0, place) for place in range(n_blocks)]  # a heap: the emptiest block comes first
    for index in sorted(range(len(chunks)), key=lambda i: -len(chunks[i].subjects)):
        count = len(chunks[index].subjects)
        if count >= LARGE_CHUNK or filled[0][0] + count > most_rows:
            total, place = 0, len(blocks)
            blocks.append(Block([], [], []))
        else:
            total, place = heappop(filled)
        if count < LARGE_CHUNK:
            heappush(filled, (total + count, place))
        block = blocks[place]
        block.chunks.append(index)
        block.chunk_rows.append(chunks[index].rows)
        block.counts.append(count)
    blocks = [block for block in blocks if block.chunks]
    for block in blocks:
        total = max(sum(block.counts), block.chunk_rows[0] if len(block.chunks) == 1 else 0)
        block.rows = most_rows if most_rows < LARGE_CHUNK else bucket_rows(total, most_rows)
    return blocks


def _pad(array: np.ndarray, rows: int) -> np.ndarray:
    """Add rows of zeros."""
    missing = rows - len(array)
    if missing == 0:
        return array
    return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])
