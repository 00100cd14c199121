"""The results of a site, in the order of its cohort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from percdl.algorithm.blocks import Block
from percdl.algorithm.chunks import Chunk
from percdl.algorithm.coding import Coded
from percdl.algorithm.settings import Settings
from percdl.algorithm.shelf import Shelf
from percdl.steps.types import Events


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
            subjects = chunks[index].subjects
            params[subjects] = np.asarray(found)[: len(subjects)]
            counts[subjects] = np.asarray(coded[index].statistics.count)[: len(subjects)]
            error[subjects] = _unexplained(coded[index], settings)[: len(subjects)]
            events = coded[index].events
            events = events._replace(length=_lengths(events, settings))
            own = [np.asarray(column)[: len(subjects)] for column in events]
            rows, slots = np.nonzero(own[2])
            tables.append((subjects[rows], *(column[rows, slots] for column in own)))
    columns = (np.concatenate(column) for column in zip(*tables, strict=True))
    subject, onset, atom, amplitude, length = columns
    # Rows are nearly in order, so a stable sort of one key is fast.
    order = np.argsort(subject * (int(onset.max(initial=0)) + 1) + onset, kind="stable")
    return Results(
        params,
        counts,
        subject[order],
        onset[order],
        atom[order],
        amplitude[order].astype(float),
        length[order],
        error,
    )


def _lengths(events: Events, settings: Settings) -> np.ndarray:
    """Return the number of samples of each event, array (S, E)."""
    lengths = np.array(settings.disjoint_coder.lengths(settings.atom_length))
    if events.length is None:
        return np.full(events.onset.shape, settings.atom_length)
    return lengths[np.asarray(events.length)]


def _unexplained(coded: Coded, settings: Settings) -> np.ndarray:
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
