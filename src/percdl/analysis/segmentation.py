"""How well activations find annotated cycles, and how well they time them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike

from percdl.exceptions import InvalidParameterError, MissingEventsWarning
from percdl.signals.reconstruction import match_onsets
from percdl.signals.recording import abbreviate


@dataclass(frozen=True, eq=False)
class Segmentation:
    """Detections held against annotated cycles, all subjects together.

    Attributes
    ----------
    timing_errors : array (n_found,)
        Detected minus annotated onset of each cycle that was found, in samples.
    n_cycles, n_detections : int
        Annotated cycles and detections in all.
    """

    timing_errors: Float[np.ndarray, " n_found"]
    n_cycles: int
    n_detections: int

    @property
    def n_found(self) -> int:
        """Annotated cycles that were found."""
        return len(self.timing_errors)

    @property
    def sensitivity(self) -> float:
        """Share of the annotated cycles that were found."""
        return self.n_found / self.n_cycles

    @property
    def false_positives(self) -> float:
        """Detections that match no cycle, per annotated cycle."""
        return (self.n_detections - self.n_found) / self.n_cycles

    @property
    def timing_bias(self) -> float:
        """Mean of detected minus annotated onset, in samples."""
        return float(np.mean(self.timing_errors)) if self.n_found else np.nan

    @property
    def timing_lag(self) -> float:
        """Median of detected minus annotated onset, in samples: a lag common to all."""
        return float(np.median(self.timing_errors)) if self.n_found else np.nan

    @property
    def timing_error(self) -> float:
        """Mean distance of matched onsets, in samples."""
        return float(np.mean(np.abs(self.timing_errors))) if self.n_found else np.nan

    @property
    def median_timing_error(self) -> float:
        """Median distance of matched onsets, in samples."""
        return float(np.median(np.abs(self.timing_errors))) if self.n_found else np.nan

    @property
    def timing_spread(self) -> float:
        """Mean distance of matched onsets once ``timing_lag`` is removed, in samples.

        An atom may start anywhere in the cycle; that lag says nothing about the detections.
        """
        if not self.n_found:
            return np.nan
        return float(np.mean(np.abs(self.timing_errors - self.timing_lag)))

    def __repr__(self) -> str:
        return (
            f"Segmentation(sensitivity {self.sensitivity:.3f}, false positives "
            f"{self.false_positives:.3f} per cycle; {self.n_found} of {self.n_cycles} cycles "
            f"found, {self.n_detections} detections)"
        )


def score_segmentation(
    events: pd.DataFrame,
    cycles: Mapping[str, ArrayLike],
    tolerance: float,
    least_amplitude: float = 0.0,
) -> Segmentation:
    """Match detected onsets with annotated ones, one to one, as many as possible.

    Among the ways to match as many, the one with the least timing errors counts. Cost O(S n^3) at
    worst, for n onsets of each subject.

    Parameters
    ----------
    events : DataFrame
        Such as ``model.events_``: columns subject, onset_sample, amplitude.
    cycles : mapping of subject to onsets
        The first sample of each annotated cycle. Events of other subjects are not looked at;
        cycles of subjects without any event count as missed, with a `MissingEventsWarning`.
    tolerance : float
        Largest distance of two onsets that match, in samples.
    least_amplitude : float
        Detections below this share of the mean magnitude of all amplitudes are left out.

    Returns
    -------
    Segmentation
        Sensitivity, false positives per true cycle, and the timing of the matches.

    Examples
    --------
    >>> events = pd.DataFrame({"subject": "A", "onset_sample": [9, 55], "amplitude": 1.0})
    >>> score = score_segmentation(events, {"A": [10, 110]}, tolerance=5)
    >>> score.sensitivity, score.false_positives, score.timing_error
    (0.5, 0.5, 1.0)
    """
    check_columns(events, {"subject", "onset_sample", "amplitude"})
    magnitude = events["amplitude"].abs()
    kept = events[magnitude >= least_amplitude * magnitude.mean()] if len(events) else events
    warn_of_missing_events(events, cycles)
    return hold_against(pd.DataFrame(kept), cycles, tolerance)


def hold_against(
    events: pd.DataFrame, cycles: Mapping[str, ArrayLike], tolerance: float
) -> Segmentation:
    """Match all detections with annotated cycles; see `score_segmentation`."""
    onsets = {str(s): x.to_numpy() for s, x in events.groupby("subject")["onset_sample"]}
    errors, n_cycles, n_detections = [], 0, 0
    for subject, annotated in cycles.items():
        true = np.asarray(annotated, float)
        detected = np.asarray(onsets.get(str(subject), ()), float)
        pairs = match_onsets(detected, true, tolerance)
        errors.append(detected[pairs[:, 0]] - true[pairs[:, 1]])
        n_cycles += len(true)
        n_detections += len(detected)
    if not n_cycles:
        raise InvalidParameterError("`cycles` holds no annotated cycle: there is nothing to find.")
    return Segmentation(np.concatenate(errors), n_cycles, n_detections)


def warn_of_missing_events(events: pd.DataFrame, cycles: Mapping[str, ArrayLike]) -> None:
    """Warn of annotated subjects without an event, unless nobody has one."""
    seen = set(events["subject"].astype(str))
    unseen = [str(s) for s, onsets in cycles.items() if str(s) not in seen and np.size(onsets)]
    if seen and unseen:
        warnings.warn(
            f"{len(unseen)} of {len(cycles)} subjects of `cycles` have no event: "
            f"{abbreviate(unseen)}. Their cycles count as missed; pass only the cycles of the "
            "subjects that were fitted, e.g. {s: cycles[s] for s in cohort.subjects}.",
            MissingEventsWarning,
            stacklevel=3,
        )


def check_columns(events: pd.DataFrame, needed: set[str]) -> None:
    """Raise where a frame of events lacks a column."""
    missing = needed - set(events.columns)
    if missing:
        raise InvalidParameterError(
            f"`events` has no column {', '.join(sorted(missing))}; it has "
            f"{', '.join(map(str, events.columns))}. Pass a frame such as `model.events_`."
        )
