"""What a site keeps: its codes between rounds, its results, and its state as arrays by name.

Between rounds codes are stored in arrays that are allocated once. A round makes thousands of small
device buffers; keeping them would fragment the heap. With copies in place, a fit needs only the
memory of its state.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from percdl.algorithm.chunks import Block, Chunk
from percdl.algorithm.coding import Coded
from percdl.algorithm.settings import Settings
from percdl.exceptions import InvalidParameterError, ModelFileError
from percdl.steps.types import Events, Statistics

if TYPE_CHECKING:
    from percdl.algorithm.local import Site

# Kinds of the leaves of a chunk, by their number.
LEAVES = {9: "iifffifff", 10: "iififfifff", 11: "iifffifffff", 12: "iififfifffff"}


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


@dataclass(frozen=True)
class Results:
    """The private results of a site: parameters (S, K, M), counts (S, K) and events, in order.

    ``error`` (S,) is the unexplained share of each recording's energy; NaN with Huber's loss,
    because it cannot be computed from the objective.
    """

    params: np.ndarray
    counts: np.ndarray
    subject: np.ndarray
    onset: np.ndarray
    atom: np.ndarray
    amplitude: np.ndarray
    length: np.ndarray
    error: np.ndarray


def collect_results(
    chunks: Sequence[Chunk],
    blocks: Sequence[Block],
    coded: Mapping[int, Coded] | Shelf,
    settings: Settings,
) -> Results:
    """Return the results of all subjects, without the rows that pad chunks."""
    n_subjects = sum(len(chunk.subjects) for chunk in chunks)
    params = np.empty((n_subjects, *blocks[0].params.shape[1:]))
    counts = np.empty(params.shape[:2], int)
    error = np.empty(n_subjects)
    tables = []
    for block in blocks:
        for index, found in zip(block.chunks, block.split(block.params), strict=True):
            subjects, code = chunks[index].subjects, coded[index]
            code: Any = code._replace(statistics=code.statistics.count, overlap=None)  # pyright: ignore
            # A device sends all arrays before the first is waited for.
            found, code = jax.device_get((found, code))
            params[subjects] = found[: len(subjects)]
            counts[subjects] = code.statistics[: len(subjects)]
            error[subjects] = _unexplained(code, settings)[: len(subjects)]
            events = code.events._replace(length=_lengths(code.events, settings))
            own = [column[: len(subjects)] for column in events]
            taken = own[2] != 0
            rows = np.repeat(subjects, taken.sum(1))
            tables.append((rows, *(column[taken] for column in own)))
    columns = [np.concatenate(column) for column in zip(*tables, strict=True)]
    subject, onset, *_ = columns
    # Rows are nearly in order, so a stable sort of one key is fast.
    order = np.argsort(subject * (int(onset.max(initial=0)) + 1) + onset, kind="stable")
    subject, onset, atom, amplitude, length = (column[order] for column in columns)
    return Results(params, counts, subject, onset, atom, amplitude.astype(float), length, error)


def _lengths(events: Events, settings: Settings) -> np.ndarray:
    """Return the number of samples of each event, array (S, E)."""
    if events.length is None:
        return np.full(events.onset.shape, settings.atom_length)
    lengths = np.array(settings.disjoint_coder.lengths(settings.atom_length))
    return lengths[np.asarray(events.length)]


def _unexplained(coded: Coded, settings: Settings) -> np.ndarray:
    """Return the unexplained share of the energy of each recording of a chunk."""
    energy = np.asarray(coded.energy, float)
    if settings.delta is not None:
        return np.full(len(energy), np.nan)
    objective = np.asarray(coded.objective, float)
    if settings.overlaps:
        missed = objective - settings.penalty * np.abs(coded.events.amplitude).sum(1)
    else:
        missed = energy - (np.asarray(coded.unexplained, float) - objective)
    missed = np.maximum(missed, 0)
    return np.divide(missed, energy, out=np.full(len(energy), np.nan), where=energy > 0)


def site_arrays(site: Site) -> dict[str, np.ndarray]:
    """Return the private state of a site, as arrays by name.

    The arrays of a chunk are the leaves of its `Coded`, in order: the columns of the events (with
    their lengths if there are several), statistics, energies and objective, and statistics of
    overlapping atoms.
    """
    arrays = {}
    for i in range(len(site.chunks)):
        for j, leaf in enumerate(jax.tree.leaves(site.coded[i])):
            arrays[f"chunk{i}/{j}"] = np.asarray(leaf)
    # Blocks depend on the number of cores, chunks do not.
    for block in site.blocks:
        parts = block.split((block.params, block.fruitless))
        for i, (params, fruitless) in zip(block.chunks, parts, strict=True):
            arrays[f"people{i}/params"] = np.asarray(params)
            arrays[f"people{i}/fruitless"] = np.asarray(fruitless)
    return arrays


def restore_site(site: Site, arrays: Mapping[str, np.ndarray]) -> None:
    """Restore the state that `site_arrays` returned; the recordings must be the same."""
    n_rows = [arrays[name].shape[:1] for name in arrays if name.endswith("/0")]
    if sorted(n_rows) != sorted((chunk.rows,) for chunk in site.chunks):
        raise InvalidParameterError(
            "The fit was interrupted with another `chunk_rows`, runtime or kind of device, so its "
            "recordings are in other chunks. Resume it there, or start the fit again."
        )
    for name, (kind, shape) in _state_layout(site).items():
        found = arrays.get(name)
        if found is None or not np.issubdtype(found.dtype, kind) or found.shape != shape:
            raise ModelFileError(
                f"The state of the subjects is damaged, or of another fit: `{name}` should be an "
                f"array of {kind.__name__} numbers and of shape {shape}. Start the fit again."
            )
    for i in range(len(site.chunks)):
        site.coded[i] = _as_coded(_leaves(arrays, f"chunk{i}"))
    for block in site.blocks:
        block.params, block.fruitless = (
            np.array(block.gather([arrays[f"people{i}/{name}"] for i in block.chunks]))
            for name in ("params", "fruitless")
        )


def _state_layout(site: Site) -> dict[str, tuple[type, tuple[int, ...]]]:
    """Return the kinds of numbers and the shapes of the arrays that the settings determine."""
    settings, layout = site.settings, {}
    window = settings.atom_length + 2 * settings.margin, settings.n_channels
    for i, chunk in enumerate(site.chunks):
        by_atom = chunk.rows, settings.n_atoms
        layout |= {
            f"chunk{i}/{3 + settings.has_lengths}": (np.floating, (*by_atom, *window)),
            f"people{i}/params": (np.floating, (*by_atom, settings.n_params)),
            f"people{i}/fruitless": (np.integer, by_atom),
        }
    return layout


def check_codes(arrays: Mapping[str, np.ndarray], n_atoms: int) -> None:
    """Raise `ValueError` or `KeyError` if the codes of some recordings do not belong together."""
    for chunk in {name.partition("/")[0] for name in arrays if name.startswith("chunk")}:
        leaves = _leaves(arrays, chunk)
        if "".join(x.dtype.kind for x in leaves) != LEAVES.get(len(leaves)):
            raise ValueError(f"the arrays of `{chunk}` have unexpected types")
        (onset, atom, *columns), (moment, weight, count), *_ = _as_coded(leaves)
        if (
            any(x is not None and x.shape != onset.shape for x in (atom, *columns))
            or weight.shape[:3] != moment.shape[:3]
            or count.shape != moment.shape[:2]
            or len({len(x) for x in leaves}) > 1
            or not all(np.isfinite(x).all() for x in leaves)
            or (onset < 0).any()
            or not ((atom >= 0) & (atom < n_atoms)).all()
        ):
            raise ValueError(f"the arrays of `{chunk}` do not belong together")


def _leaves(arrays: Mapping[str, np.ndarray], chunk: str) -> list[np.ndarray]:
    count = sum(name.startswith(f"{chunk}/") for name in arrays)
    return [arrays[f"{chunk}/{j}"] for j in range(count)]


def _as_coded(leaves: list[Any]) -> Coded:
    """Rebuild the tuple that `jax.tree.leaves` flattened.

    The statistics of overlaps are two, so the number of leaves is even with a column of lengths.
    """
    n_columns = 4 if len(leaves) % 2 == 0 else 3
    events, statistics = Events(*leaves[:n_columns]), Statistics(*leaves[n_columns:][:3])
    energy, unexplained, objective, *overlap = leaves[n_columns + 3 :]
    return Coded(events, statistics, energy, unexplained, objective, tuple(overlap) or None)  # pyright: ignore[reportArgumentType]
