"""Blocks of subjects that are personalized together.

IPU works on statistics, whose size does not depend on the length of a recording, so chunks
of any lengths share a block of a fixed number of rows and IPU is compiled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from percdl.algorithm.chunks import Chunk


@dataclass
class Block:
    """Some chunks, by index, with their row counts, and the parameters of their subjects."""

    chunks: list[int]
    chunk_rows: list[int]
    rows: int
    params: Any = None

    def gather(self, parts: Sequence[Any]) -> Any:
        """Stack per-chunk arrays (or tuples of them) and pad with zeros to the block's rows."""
        if len(parts) == 1 and self.chunk_rows[0] == self.rows:
            return parts[0]
        return jax.tree.map(lambda *arrays: _stack(arrays, self.rows), *parts)

    def split(self, stacked: Any) -> list[Any]:
        """Undo `gather`."""
        if len(self.chunks) == 1 and self.chunk_rows[0] == self.rows:
            return [stacked]
        # Cutting on the host keeps the device from compiling a program per cut.
        stacked = jax.tree.map(np.asarray, stacked)
        ends = np.cumsum(self.chunk_rows)
        return [
            jax.tree.map(lambda x, e=end, r=rows: x[e - r : e], stacked)
            for end, rows in zip(ends, self.chunk_rows, strict=True)
        ]


def plan_blocks(chunks: Sequence[Chunk], most_rows: int) -> list[Block]:
    """Group chunks, in order, into blocks of at most ``most_rows`` rows."""
    blocks: list[Block] = []
    for index, chunk in enumerate(chunks):
        if not blocks or sum(blocks[-1].chunk_rows) + chunk.rows > most_rows:
            blocks.append(Block([], [], 0))
        blocks[-1].chunks.append(index)
        blocks[-1].chunk_rows.append(chunk.rows)
    for block in blocks:
        total = sum(block.chunk_rows)
        block.rows = next((r for r in (4, 16, 64) if total <= r), total)
    return blocks


def _stack(arrays: Sequence[Any], rows: int) -> np.ndarray:
    stacked = np.concatenate([np.asarray(a) for a in arrays])
    missing = rows - len(stacked)
    if missing == 0:
        return stacked
    return np.concatenate([stacked, np.zeros((missing, *stacked.shape[1:]), stacked.dtype)])
