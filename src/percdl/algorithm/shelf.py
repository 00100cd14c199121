"""Storage of the codes of a site between rounds, to save memory: arrays allocated once.

A round makes thousands of small device buffers. Keeping them from round to round would fragment
the heap; with copies in place, a fit needs only the memory of its state.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import jax
import numpy as np

from percdl.algorithm.chunks import Chunk
from percdl.algorithm.coding import Coded


class Shelf:
    """The codes of all chunks on the host, to be read and written by the index of a chunk.

    Chunks of one padded length share an array for each field. Codes that were read are views:
    writing a chunk changes them.
    """

    def __init__(self, chunks: Sequence[Chunk]):
        self._chunks = chunks
        self._views: dict[int, Coded] = {}
        self._lock = threading.Lock()  # chunks are coded side by side
        self._written: set[int] = set()  # space is allocated before a chunk has codes

    def __contains__(self, index: int) -> bool:
        return index in self._written

    def __getitem__(self, index: int) -> Coded:
        return self._views[index]

    def __setitem__(self, index: int, coded: Coded) -> None:
        with self._lock:
            if index not in self._views:
                self._allocate(self._chunks[index].n_times, coded)
        jax.tree.map(np.copyto, self._views[index], coded)
        self._written.add(index)

    def _allocate(self, n_times: int, like: Coded) -> None:
        """Make room for all chunks of a length, in the order of their indices."""
        alike = [i for i, chunk in enumerate(self._chunks) if chunk.n_times == n_times]
        ends = np.cumsum([self._chunks[i].rows for i in alike])
        whole = jax.tree.map(lambda x: np.empty((ends[-1], *x.shape[1:]), x.dtype), like)
        for index, end in zip(alike, ends, strict=True):
            own = slice(end - self._chunks[index].rows, end)
            self._views[index] = jax.tree.map(lambda x, own=own: x[own], whole)
