"""Who is searched for better onsets, and how the search is packed into few programs.

The search is the costly part of a round, and most subjects need it once: in the first
personalization round, and after the window of an atom has moved. Else those are searched again
whose mean segments are explained worse than the population's, until a search has kept the
onsets, and those whose window cuts the pattern (`windows`), until five have. The rule
compares with a number that the server broadcasts, so it does not depend on how subjects are
split over sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from percdl.algorithm import programs
from percdl.algorithm.chunks import row_counts
from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.programs import Prepared
from percdl.algorithm.settings import PATIENCE, PATIENCE_MISPLACED, Settings
from percdl.steps.types import Statistics


def search_starts(
    settings: Settings,
    broadcast: Broadcast,
    dictionary: Any,
    statistics: Sequence[Statistics],
    prepared: Sequence[Prepared],
    fruitless: Sequence[np.ndarray],
) -> list[tuple[Any, Any]]:
    """Return, for each block, the parameters and onset shifts from which IPU starts.

    ``fruitless`` (S, K) counts, for each block, the searches in a row that changed nothing;
    it is brought up to date.
    """
    move = np.zeros(len(dictionary), np.int32) if broadcast.move is None else broadcast.move
    starts = [
        (before.params, np.tile(np.asarray(move, np.int32), (before.params.shape[0], 1)))
        for before in prepared
    ]
    if not settings.shifts:
        return starts
    starts = [(np.array(params), shift) for params, shift in starts]
    for k in range(len(dictionary)):
        rows = [
            _unsettled(before, count[:, k], broadcast, k, moved=bool(move[k]))
            for before, count in zip(prepared, fruitless, strict=True)
        ]
        for group in _pack(rows, max(len(s.count) for s in statistics)):
            _search_group(settings, dictionary[k], k, group, statistics, starts)
        for (_, shift), count, searched in zip(starts, fruitless, rows, strict=True):
            stayed = shift[searched, k] == move[k]
            count[searched, k] = np.where(stayed, count[searched, k] + 1, 0)
    return starts


def _unsettled(
    before: Prepared, fruitless: np.ndarray, broadcast: Broadcast, k: int, moved: bool
) -> np.ndarray:
    """Return the rows of a block that are worth a search for atom k: all if it has moved."""
    used = np.asarray(before.explained[:, k]) > 0
    if broadcast.misfit is None or moved:
        return np.flatnonzero(used)
    worse = np.asarray(before.misfit[:, k]) > broadcast.misfit[k]
    misplaced = np.asarray(before.misplaced[:, k])
    patience = np.where(misplaced, PATIENCE_MISPLACED, PATIENCE)
    return np.flatnonzero(used & (worse | misplaced) & (fruitless < patience))


def _pack(rows: Sequence[np.ndarray], most: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Collect rows of all blocks into groups of few possible sizes, as (block, row) pairs.

    The last row of a group is repeated to fill it; repeated rows get equal results.
    """
    block = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    row = np.concatenate(rows)
    groups = []
    for start, size in row_counts(len(row), most, tight=True):
        picked = np.minimum(np.arange(start, start + size), len(row) - 1)
        groups.append((block[picked], row[picked]))
    return groups


def _search_group(settings: Settings, atom: Any, k: int, group, statistics, starts) -> None:
    """Search one group for one atom, and write what was found into ``starts``."""
    found, moved = programs.seek(
        settings.transform,
        settings.multistart,
        atom,
        _take([s.moment for s in statistics], group, k),
        _take([s.weight for s in statistics], group, k),
        (
            _take([params for params, _ in starts], group, k),
            _take([shift for _, shift in starts], group, k),
        ),
        jnp.asarray(settings.shifts, jnp.int32),
    )
    found, moved = np.asarray(found), np.asarray(moved)
    for index in np.unique(group[0]):
        here = group[0] == index
        starts[index][0][group[1][here], k] = found[here]
        starts[index][1][group[1][here], k] = moved[here]


def _take(arrays: Sequence[Any], group: tuple[np.ndarray, np.ndarray], k: int):
    """Gather the rows of a group for one atom."""
    block, row = group
    if len(arrays) == 1:  # one block: the gather stays on the device
        return jnp.asarray(arrays[0])[jnp.asarray(row), k]
    return np.stack([np.asarray(arrays[b])[r, k] for b, r in zip(block, row, strict=True)])
