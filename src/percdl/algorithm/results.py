"""What a site has learned of its subjects, put together in the order of the cohort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from percdl.algorithm.blocks import Block
from percdl.algorithm.chunks import Chunk
from percdl.algorithm.programs import Coded


@dataclass(frozen=True)
class Results:
    """What a site keeps to itself: parameters (S, K, M), counts (S, K) and events, in order."""

    params: np.ndarray
    counts: np.ndarray
    subject: np.ndarray
    onset: np.ndarray
    atom: np.ndarray
    amplitude: np.ndarray


def collect_results(
    chunks: Sequence[Chunk], blocks: Sequence[Block], coded: Sequence[Coded]
) -> Results:
    """Return parameters, counts and events of all subjects, without the rows that fill chunks."""
    where, params, counts, tables = [], [], [], []
    for block in blocks:
        for index, found in zip(block.chunks, block.split(block.params), strict=True):
            subjects = chunks[index].subjects
            where.append(subjects)
            params.append(np.asarray(found)[: len(subjects)])
            counts.append(np.asarray(coded[index].statistics.count)[: len(subjects)])
            events = [np.asarray(column)[: len(subjects)] for column in coded[index].events]
            rows, slots = np.nonzero(events[-1])
            tables.append((subjects[rows], *(column[rows, slots] for column in events)))
    columns = (np.concatenate(column) for column in zip(*tables, strict=True))
    subject, onset, atom, amplitude = columns
    back, order = np.argsort(np.concatenate(where)), np.lexsort((onset, subject))
    return Results(
        np.concatenate(params)[back],
        np.concatenate(counts)[back],
        subject[order],
        onset[order],
        atom[order],
        amplitude[order].astype(float),
    )
