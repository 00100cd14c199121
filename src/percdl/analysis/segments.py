"""The segments y_s[j] of a fitted model: what its activations say of the recordings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from percdl.signals import Cohort


class Segments(NamedTuple):
    """The segments of one atom in B subjects, E slots each; empty slots have amplitude 0.

    Channels are flattened behind time, so that a segment is a vector of ``L P`` numbers.
    """

    values: Float[np.ndarray, "B E LP"]
    seen: Bool[np.ndarray, "B E LP"]
    amplitude: Float[np.ndarray, "B E"]


def cut_segments(
    cohort: Cohort, events: pd.DataFrame, atom: int, atom_length: int, rows: int
) -> Iterator[tuple[slice, Segments]]:
    """Yield the segments of one atom, ``rows`` subjects at a time, the last ones padded.

    Slots are padded, too: programs are compiled for their number.
    """
    from percdl.algorithm.chunks import bucket_length

    found: pd.DataFrame = events.loc[events["atom"] == atom]
    position = {subject: s for s, subject in enumerate(cohort.subjects)}
    subject = np.array([position[str(name)] for name in found["subject"]], int)
    slot = found.groupby(subject).cumcount().to_numpy()
    n_slots = bucket_length(int(slot.max(initial=0)) + 1)
    onset, amplitude = (np.asarray(found[name]) for name in ("onset_sample", "amplitude"))
    for start in range(0, len(cohort), rows):
        shape = (rows, n_slots, atom_length, cohort.n_channels)
        values, strength = np.zeros(shape), np.zeros(shape[:2])
        stop = min(start + rows, len(cohort))
        for e in np.flatnonzero((subject >= start) & (subject < stop)):
            at = subject[e] - start, slot[e]
            values[at] = cohort[subject[e]].values[onset[e] : onset[e] + atom_length]
            strength[at] = amplitude[e]
        values = values.reshape(*shape[:2], -1)
        missing = np.isnan(values)
        yield (
            slice(start, stop),
            Segments(
                np.where(missing, 0, values), ~missing & (strength[..., None] != 0), strength
            ),
        )
