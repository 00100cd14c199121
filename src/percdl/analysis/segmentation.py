"""How well activations find annotated cycles, and the trade-off with false detections."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike

from percdl.analysis.checks import check_columns
from percdl.exceptions import InvalidParameterError, MissingEventsWarning
from percdl.signals.reconstruction import match_onsets
from percdl.signals.recording import abbreviate

N_THRESHOLDS = 51


@dataclass(frozen=True, eq=False)
class Segmentation:
    """Detections matched with annotated cycles, over all subjects.

    Attributes
    ----------
    timing_errors : array (n_found,)
        Detected minus annotated onset of each cycle that was found, in samples.
    n_cycles, n_detections : int
        Number of annotated cycles and of detections.
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
        return float(pd.Series(self.timing_errors).mean())

    @property
    def timing_lag(self) -> float:
        """Median of detected minus annotated onset, in samples: the lag common to all."""
        return float(pd.Series(self.timing_errors).median())

    @property
    def timing_error(self) -> float:
        """Mean distance of matched onsets, in samples."""
        return float(pd.Series(self.timing_errors).abs().mean())

    @property
    def timing_spread(self) -> float:
        """Mean distance without the common lag: an atom may start anywhere in the cycle."""
        return float(pd.Series(self.timing_errors - self.timing_lag).abs().mean())

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
    """Match detected with annotated onsets one to one: as many as possible, as close as possible.

    Cost O(S n^3) at worst, for n onsets per subject.

    Parameters
    ----------
    events, cycles : DataFrame, mapping of subject to onsets
        Such as ``model.events_``: columns subject, onset_sample, amplitude; and the first sample
        of each annotated cycle. Events of other subjects are ignored.
    tolerance, least_amplitude : float
        Largest distance of two onsets that match, in samples. Detections below this share of the
        mean magnitude of all amplitudes are ignored.

    Returns
    -------
    Segmentation

    Examples
    --------
    >>> events = pd.DataFrame({"subject": "A", "onset_sample": [9, 55], "amplitude": 1.0})
    >>> score = score_segmentation(events, {"A": [10, 110]}, tolerance=5)
    >>> score.sensitivity, score.false_positives, score.timing_error
    (0.5, 0.5, 1.0)
    """
    _check(events, cycles)
    magnitude = events["amplitude"].abs()
    kept = events[magnitude >= least_amplitude * magnitude.mean()] if len(events) else events
    return _match(pd.DataFrame(kept), cycles, tolerance)


def _match(
    events: pd.DataFrame, cycles: Mapping[str, ArrayLike], tolerance: float
) -> Segmentation:
    onsets = {str(s): x.to_numpy(float) for s, x in events.groupby("subject")["onset_sample"]}
    errors, n_cycles, n_detections = [], 0, 0
    for subject, annotated in cycles.items():
        true = np.asarray(annotated, float)
        detected = onsets.get(str(subject), np.empty(0))
        pairs = match_onsets(detected, true, tolerance)
        errors.append(detected[pairs[:, 0]] - true[pairs[:, 1]])
        n_cycles += len(true)
        n_detections += len(detected)
    return Segmentation(np.concatenate(errors), n_cycles, n_detections)


def _check(events: pd.DataFrame, cycles: Mapping[str, ArrayLike]) -> None:
    """Raise without annotated cycles; warn of annotated subjects without events."""
    check_columns(events, {"subject", "onset_sample", "amplitude"})
    if not any(map(np.size, cycles.values())):
        raise InvalidParameterError("`cycles` holds no annotated cycle. Pass at least one.")
    seen = set(events["subject"].astype(str))
    unseen = [str(s) for s, onsets in cycles.items() if str(s) not in seen and np.size(onsets)]
    if seen and unseen:
        warnings.warn(
            f"{len(unseen)} of {len(cycles)} subjects of `cycles` have no event: "
            f"{abbreviate(unseen)}. Their cycles count as missed.",
            MissingEventsWarning,
            stacklevel=3,
        )


def relative_amplitude(events: pd.DataFrame) -> pd.Series:
    """Return each amplitude over the median magnitude of its subject and atom.

    Cost O(E log E) for E events.

    Parameters
    ----------
    events : DataFrame
        Columns subject, atom, amplitude.

    Returns
    -------
    Series

    Examples
    --------
    >>> events = pd.DataFrame({"subject": "A", "atom": 0, "amplitude": [2.0, 4.0, 6.0]})
    >>> relative_amplitude(events).tolist()
    [0.5, 1.0, 1.5]
    """
    check_columns(events, {"subject", "atom", "amplitude"})
    magnitude = events["amplitude"].abs()
    typical = magnitude.groupby([events["subject"], events["atom"]]).transform("median")
    return pd.Series(magnitude / typical)


def trace_trade_off(
    events: pd.DataFrame,
    cycles: Mapping[str, ArrayLike],
    tolerance: float,
    *,
    thresholds: ArrayLike | None = None,
    score: ArrayLike | None = None,
) -> pd.DataFrame:
    """Score a segmentation at several thresholds on the certainty of its detections.

    Cost: one `score_segmentation` per threshold.

    Parameters
    ----------
    events, cycles, tolerance
        See `score_segmentation`.
    thresholds, score : array, optional
        Detections with a score below the threshold are ignored. By default quantiles of the
        scores, and the `relative_amplitude` of each event.

    Returns
    -------
    DataFrame
        One row per threshold, increasing: threshold and the properties of `Segmentation`.

    Examples
    --------
    >>> events = pd.DataFrame({"subject": "A", "atom": 0, "onset_sample": [9, 55, 111]})
    >>> events["amplitude"] = [1.0, 0.2, 1.0]
    >>> curve = trace_trade_off(events, {"A": [10, 110]}, tolerance=5, thresholds=[0, 0.5])
    >>> curve["false_positives"].tolist()
    [0.5, 0.0]
    """
    _check(events, cycles)
    scores = np.asarray(relative_amplitude(events) if score is None else score, float)
    if thresholds is None:
        thresholds = np.quantile(scores, np.linspace(0, 1, N_THRESHOLDS)) if len(scores) else [0]
    names = ["sensitivity", "false_positives", "timing_bias", "timing_error", "timing_spread"]
    rows = []
    for threshold in np.unique(np.asarray(thresholds, float)):
        quality = _match(events.loc[scores >= threshold], cycles, tolerance)
        rows.append([threshold, *(getattr(quality, name) for name in names)])
    return pd.DataFrame(rows, columns=["threshold", *names])


def sensitivity_at(curve: pd.DataFrame, false_positives: float) -> float:
    """Return the best sensitivity with few false positives, 0 if no point has as few.

    Parameters
    ----------
    curve, false_positives : DataFrame, float
        Result of `trace_trade_off`, and the most false positives per true cycle.

    Returns
    -------
    float

    Examples
    --------
    >>> curve = pd.DataFrame({"sensitivity": [0.9, 0.8], "false_positives": [0.1, 0.01]})
    >>> sensitivity_at(curve, 0.05)
    0.8
    """
    reached = curve.loc[curve["false_positives"] <= false_positives, "sensitivity"]
    return float(reached.max()) if len(reached) else 0.0
