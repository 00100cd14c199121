"""How well events agree with annotations, and the trade-off with false detections."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike

from percdl.exceptions import InvalidParameterError, MissingEventsWarning
from percdl.parameters import in_samples
from percdl.signals.events import SUCH_AS
from percdl.signals.reconstruction import match_onsets
from percdl.signals.recording import abbreviate
from percdl.signals.tables import check_columns

N_THRESHOLDS = 51
# A frame such as that of `read_annotations`, or samples of each subject.
Annotations: TypeAlias = pd.DataFrame | Mapping[str, ArrayLike]
Times: TypeAlias = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Segmentation:
    """Detections matched with annotations, over all subjects.

    Attributes
    ----------
    timing_errors : array (n_found,)
        Detected minus annotated time of each annotation that was found.
    n_cycles, n_detections : int
        Number of annotations and of detections.
    table : DataFrame
        The same per subject: n_cycles, n_detections, n_found, sensitivity, ppv, f1, timing_bias,
        timing_sd.
    lag : float
        The lag of all events, subtracted before they were matched.
    unit : str
        Unit of all times: "samples", or "s" if the tolerance was a duration.
    """

    timing_errors: Float[np.ndarray, " n_found"]
    n_cycles: int
    n_detections: int
    table: pd.DataFrame
    lag: float = 0.0
    unit: Literal["samples", "s"] = "samples"

    @property
    def n_found(self) -> int:
        """Annotations that were found."""
        return len(self.timing_errors)

    @property
    def sensitivity(self) -> float:
        """Share of the annotations that were found."""
        return ratio(self.n_found, self.n_cycles)

    @property
    def ppv(self) -> float:
        """Positive predictive value: share of the detections that are annotated."""
        return ratio(self.n_found, self.n_detections)

    @property
    def f1(self) -> float:
        """Harmonic mean of sensitivity and positive predictive value."""
        return ratio(2 * self.n_found, self.n_cycles + self.n_detections)

    @property
    def false_positives(self) -> float:
        """Detections that match no annotation, per annotation."""
        return ratio(self.n_detections - self.n_found, self.n_cycles)

    @property
    def timing_bias(self) -> float:
        """Mean of detected minus annotated time."""
        return float(pd.Series(self.timing_errors).mean())

    @property
    def timing_sd(self) -> float:
        """Standard deviation of detected minus annotated time."""
        return float(np.std(self.timing_errors, ddof=1)) if self.n_found > 1 else np.nan

    @property
    def timing_lag(self) -> float:
        """Median of detected minus annotated time: the lag common to all."""
        return float(pd.Series(self.timing_errors).median())

    @property
    def timing_error(self) -> float:
        """Mean distance of matched times."""
        return float(pd.Series(self.timing_errors).abs().mean())

    @property
    def timing_spread(self) -> float:
        """Mean distance without the common lag: an atom may start anywhere in the cycle."""
        return float(pd.Series(self.timing_errors - self.timing_lag).abs().mean())

    def __repr__(self) -> str:
        return (
            f"Segmentation(sensitivity {self.sensitivity:.3f}, PPV {self.ppv:.3f}, F1 "
            f"{self.f1:.3f}; {self.n_found} of {self.n_cycles} found, {self.n_detections} "
            "detections)"
        )


def score_events(
    events: Annotations,
    annotations: Annotations,
    tolerance: float | str,
    *,
    lag: float | Literal["auto"] = 0.0,
    between: bool = False,
    least_amplitude: float = 0.0,
) -> Segmentation:
    """Match events with annotations one to one: as many as possible, as close as possible.

    Events of other subjects, and missing times, are ignored. Cost O(n log n) for n events, and
    O(m^3) for m events and annotations in a row that are closer than the tolerance.

    Parameters
    ----------
    events, annotations : DataFrame or mapping of subject to times
        Frames such as ``model.events_`` or of `read_annotations`, or samples of each subject.
    tolerance : float or str
        Largest distance of two that match, in samples; or a duration such as ``"150ms"``, with
        which times are compared in seconds.
    lag : float or "auto"
        Time from an annotation to the onset of its event, in the unit of the tolerance; an atom
        may begin before the annotated moment. "auto": the lag that matches most, one for all.
    between : bool
        Ignore events before the first and after the last annotation of a subject.
    least_amplitude : float
        Events below this share of the mean magnitude of all amplitudes are ignored.

    Returns
    -------
    Segmentation

    Examples
    --------
    >>> events = pd.DataFrame({"subject": "A", "onset_sample": [9, 55], "amplitude": 1.0})
    >>> score = score_events(events, {"A": [10, 110]}, tolerance=5)
    >>> score.sensitivity, score.ppv, score.timing_error
    (0.5, 0.5, 1.0)
    """
    _check_subjects(events, annotations)
    if least_amplitude and isinstance(events, pd.DataFrame):
        check_columns("The events", events, ("amplitude",), SUCH_AS)
        magnitude = events["amplitude"].abs()
        events = events.loc[magnitude >= least_amplitude * magnitude.mean()]
    return _score(events, annotations, tolerance, lag, between)


def _check_subjects(events: Annotations, annotations: Annotations) -> None:
    """Raise if no subject is in both."""
    both = []
    for given in (events, annotations):
        own: Any = given.get("subject", []) if isinstance(given, pd.DataFrame) else given
        both.append(dict.fromkeys(map(str, own)))
    found, annotated = both
    if found and annotated and not found.keys() & annotated.keys():
        raise InvalidParameterError(
            f"Events are of {abbreviate(map(repr, found))}, but annotations of "
            f"{abbreviate(map(repr, annotated))}. Subjects must have the same names in both: "
            "rename them in one of the files, or pass subject_of= to `read_annotations` in Python."
        )


def _score(
    events: Annotations,
    annotations: Annotations,
    tolerance: float | str,
    lag: float | Literal["auto"] = 0.0,
    between: bool = False,
) -> Segmentation:
    """Match the events that are given."""
    if isinstance(tolerance, str):
        reach, column, unit = in_samples(tolerance, 1e6) / 1e6, "onset_seconds", "s"
    else:
        reach, column, unit = float(tolerance), "onset_sample", "samples"
    tables = isinstance(events, pd.DataFrame) and isinstance(annotations, pd.DataFrame)
    if unit == "s" and not tables:
        raise InvalidParameterError(
            f"tolerance={tolerance!r} compares seconds, but a mapping of subject to times holds "
            "samples. Pass a tolerance in samples, or two tables."
        )
    cycles, given = (_times(frame, column) for frame in (annotations, events))
    _check(given, cycles)
    found = {subject: given.get(subject, np.empty(0)) for subject in cycles}
    late = _common_lag(found, cycles, reach) if lag == "auto" else float(lag)
    for subject, true in cycles.items():
        times = found[subject] - late
        if between:
            low, high = (true.min() - reach, true.max() + reach) if len(true) else (0, -1)
            times = times[(times >= low) & (times <= high)]
        found[subject] = times
    return replace(_match(found, cycles, reach), lag=late, unit=unit)


def _times(annotations: Annotations, column: str) -> dict[str, np.ndarray]:
    """Return the annotated times of each subject, in samples or seconds."""
    times: Any = annotations
    if isinstance(annotations, pd.DataFrame):
        short = column.removeprefix("onset_")
        name = short if short in annotations else column
        check_columns("The times", annotations, ("subject", name), SUCH_AS)
        times = {s: x.dropna() for s, x in annotations.groupby("subject", sort=False)[name]}
    given = {str(subject): np.asarray(x, float) for subject, x in times.items()}
    return {subject: np.sort(x[~np.isnan(x)]) for subject, x in given.items()}


def _common_lag(found: Times, cycles: Times, reach: float) -> float:
    """Return the lag with most pairs within reach, among lags up to the usual interval."""
    widest = np.median(np.concatenate([[reach], *map(np.diff, cycles.values())]))
    lags = [np.empty(0)]
    for subject, true in cycles.items():
        first, last = (np.searchsorted(found[subject], true + side * widest) for side in (-1, 1))
        lags += [found[subject][a:b] - t for a, b, t in zip(first, last, true, strict=True)]
    every = np.sort(np.concatenate(lags))
    if not len(every):
        return 0.0
    upto = np.searchsorted(every, every + 2 * reach, side="right")
    best = int(np.argmax(upto - np.arange(len(every))))
    return float(np.median(every[best : upto[best]]))


def _match(found: Times, cycles: Times, reach: float) -> Segmentation:
    """Match the events of each subject with its annotations."""
    names = "n_cycles n_detections n_found sensitivity ppv f1 timing_bias timing_sd".split()
    errors, rows, empty = [], [], pd.DataFrame(columns=["subject", *names])
    for subject, true in cycles.items():
        pairs = match_onsets(found[subject], true, reach)
        errors.append(found[subject][pairs[:, 0]] - true[pairs[:, 1]])
        own = Segmentation(errors[-1], len(true), len(found[subject]), empty)
        rows.append([subject, *(getattr(own, name) for name in names)])
    table = pd.DataFrame(rows, columns=empty.columns)
    n_cycles, n_detections = map(int, table[["n_cycles", "n_detections"]].sum())
    return Segmentation(np.concatenate(errors), n_cycles, n_detections, table)


def ratio(part: float, whole: float) -> float:
    """Return part over whole, NaN over zero."""
    return part / whole if whole else np.nan


def _check(found: Times, cycles: Times) -> None:
    """Raise without annotations; warn of annotated subjects without events."""
    if not any(map(np.size, cycles.values())):
        raise InvalidParameterError("There is no annotation. Pass at least one.")
    unseen = [subject for subject, x in cycles.items() if subject not in found and len(x)]
    if found and unseen:
        warnings.warn(
            f"{len(unseen)} of {len(cycles)} annotated subjects have no event: "
            f"{abbreviate(unseen)}. Their annotations count as missed.",
            MissingEventsWarning,
            stacklevel=4,
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
    check_columns("The events", events, ("subject", "atom", "amplitude"), SUCH_AS)
    magnitude = events["amplitude"].abs()
    typical = magnitude.groupby([events["subject"], events["atom"]]).transform("median")
    return pd.Series(magnitude / typical)


def trace_trade_off(
    events: pd.DataFrame,
    annotations: Annotations,
    tolerance: float | str,
    *,
    thresholds: ArrayLike | None = None,
    score: ArrayLike | None = None,
) -> pd.DataFrame:
    """Score a segmentation at several thresholds on the certainty of its detections.

    Cost: one `score_events` per threshold.

    Parameters
    ----------
    events, annotations, tolerance
        See `score_events`.
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
    _check_subjects(events, annotations)
    scores = np.asarray(relative_amplitude(events) if score is None else score, float)
    if thresholds is None:
        thresholds = np.quantile(scores, np.linspace(0, 1, N_THRESHOLDS)) if len(scores) else [0]
    names = ["sensitivity", "false_positives", "timing_bias", "timing_error", "timing_spread"]
    rows = []
    with warnings.catch_warnings():
        for threshold in np.unique(np.asarray(thresholds, float)):
            quality = _score(events.loc[scores >= threshold], annotations, tolerance)
            rows.append([threshold, *(getattr(quality, name) for name in names)])
            # Warn about subjects without events only once.
            warnings.simplefilter("ignore", MissingEventsWarning)
    return pd.DataFrame(rows, columns=["threshold", *names])


def sensitivity_at(curve: pd.DataFrame, false_positives: float) -> float:
    """Return the best sensitivity with at most some false positives; 0 if there is no such point.

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
