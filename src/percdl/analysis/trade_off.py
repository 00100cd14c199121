"""What finding more cycles costs in false detections."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from percdl.analysis.segmentation import (
    check_columns,
    hold_against,
    warn_of_missing_events,
)

N_THRESHOLDS = 51


def relative_amplitude(events: pd.DataFrame) -> pd.Series:
    """Return each amplitude over the median magnitude of its subject's, atom by atom.

    Cost O(E log E) for E events.

    Parameters
    ----------
    events : DataFrame
        Columns subject, atom, amplitude.

    Returns
    -------
    Series
        One value per event; 1 is usual.

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
    """Return the quality of a segmentation as its least certain detections are left out.

    Both sensitivity and false positives fall as the threshold rises: dropping a detection
    removes one match at most, and one false detection at most. Cost: a `score_segmentation` for
    each threshold.

    Parameters
    ----------
    events, cycles, tolerance
        See `score_segmentation`.
    thresholds : array, optional
        Detections with a score below it are left out; by default quantiles of the scores.
    score : array, one value per event, optional
        How certain a detection is, by default its `relative_amplitude`.

    Returns
    -------
    DataFrame
        One row per threshold, increasing: threshold, sensitivity, false_positives (per true
        cycle), timing_bias, timing_error (mean distance) and timing_spread, in samples.

    Examples
    --------
    >>> events = pd.DataFrame(
    ...     {"subject": "A", "atom": 0, "onset_sample": [9, 55, 111], "amplitude": [1.0, 0.2, 1.0]}
    ... )
    >>> curve = trace_trade_off(events, {"A": [10, 110]}, tolerance=5, thresholds=[0, 0.5])
    >>> curve["false_positives"].tolist()
    [0.5, 0.0]
    """
    check_columns(events, {"subject", "onset_sample", "amplitude"})
    warn_of_missing_events(events, cycles)
    scores = np.asarray(relative_amplitude(events) if score is None else score, float)
    if thresholds is None:
        thresholds = np.quantile(scores, np.linspace(0, 1, N_THRESHOLDS)) if len(scores) else [0]
    rows = []
    for threshold in np.unique(np.asarray(thresholds, float)):
        quality = hold_against(events.loc[scores >= threshold], cycles, tolerance)
        rows.append(
            {
                "threshold": threshold,
                "sensitivity": quality.sensitivity,
                "false_positives": quality.false_positives,
                "timing_bias": quality.timing_bias,
                "timing_error": quality.timing_error,
                "timing_spread": quality.timing_spread,
            }
        )
    return pd.DataFrame(rows)


def sensitivity_at(curve: pd.DataFrame, false_positives: float) -> float:
    """Return the best sensitivity of a trade-off curve with no more false positives than this.

    0 where the curve has no such point.

    Parameters
    ----------
    curve : DataFrame
        Of `trace_trade_off`.
    false_positives : float
        Per true cycle.

    Returns
    -------
    float
        0 where the curve has no such point.

    Examples
    --------
    >>> curve = pd.DataFrame({"sensitivity": [0.9, 0.8], "false_positives": [0.1, 0.01]})
    >>> sensitivity_at(curve, 0.05)
    0.8
    """
    reached = curve.loc[curve["false_positives"] <= false_positives, "sensitivity"]
    return float(reached.max()) if len(reached) else 0.0
