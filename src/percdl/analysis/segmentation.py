"""How well activations find annotated cycles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from percdl.exceptions import InvalidParameterError
from percdl.signals.matching import count_pairs


class Segmentation(NamedTuple):
    """Annotated cycles found, cycles in all, and detections in all, over the subjects."""

    n_found: int
    n_cycles: int
    n_detections: int

    @property
    def sensitivity(self) -> float:
        """Share of the annotated cycles that were found."""
        return self.n_found / self.n_cycles

    @property
    def false_positives(self) -> float:
        """Detections that match no cycle, per annotated cycle."""
        return (self.n_detections - self.n_found) / self.n_cycles


def score_segmentation(
    events: pd.DataFrame,
    cycles: Mapping[str, ArrayLike],
    tolerance: float,
    least_amplitude: float = 0.0,
) -> Segmentation:
    """Match detected onsets with annotated ones, one to one, as many as possible.

    Parameters
    ----------
    events : DataFrame
        Such as ``model.events_``: columns subject, onset_sample, amplitude.
    cycles : mapping of subject to onsets
        The first sample of each annotated cycle.
    tolerance : float
        Largest distance of two onsets that match, in samples.
    least_amplitude : float
        Detections below this share of the mean magnitude of all amplitudes are left out.

    Examples
    --------
    >>> events = pd.DataFrame({"subject": "A", "onset_sample": [9, 55], "amplitude": 1.0})
    >>> score_segmentation(events, {"A": [10, 110]}, tolerance=5).sensitivity
    0.5
    """
    missing = {"subject", "onset_sample", "amplitude"} - set(events.columns)
    if missing:
        raise InvalidParameterError(
            f"`events` has no column {', '.join(sorted(missing))}; it has "
            f"{', '.join(map(str, events.columns))}. Pass a frame such as `model.events_`."
        )
    magnitude = events["amplitude"].abs()
    kept = events[magnitude >= least_amplitude * magnitude.mean()] if len(events) else events
    onsets = {str(s): np.sort(x.to_numpy()) for s, x in kept.groupby("subject")["onset_sample"]}
    n_found = n_cycles = n_detections = 0
    for subject, annotated in cycles.items():
        true, detected = np.sort(np.asarray(annotated)), onsets.get(str(subject), np.zeros(0))
        n_found += count_pairs(detected, true, tolerance)
        n_cycles += len(true)
        n_detections += len(detected)
    if not n_cycles:
        raise InvalidParameterError("`cycles` holds no annotated cycle: there is nothing to find.")
    return Segmentation(n_found, n_cycles, n_detections)
