"""Checks that several analyses share: fitted models, recordings, tables of events, levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from percdl.estimators.personalization import Personalization
from percdl.exceptions import InvalidParameterError
from percdl.signals import Cohort, as_cohort
from percdl.signals.events import event_lengths

PASS_THOSE = "Pass the recordings of the fit, or those that were personalized, in the same order."
#: A fitted model (`BaseCDL`), or the result of its ``personalize``.
Fitted: TypeAlias = Any
#: One label per row.
Labels = Sequence[Any] | np.ndarray | pd.Series


def as_personalization(fitted: Fitted) -> Personalization:
    """Return the parameters and events of the subjects of a fit or of ``personalize``."""
    if isinstance(fitted, Cohort):
        raise InvalidParameterError(
            "Recordings were passed instead of a fitted model. Pass `model`, or "
            "`model.personalize(cohort)` for new subjects."
        )
    return fitted if isinstance(fitted, Personalization) else fitted.personalization_


def check_fitted_on(fitted: Fitted, X: Any) -> Cohort:
    """Return the recordings as a cohort; raise if they are not those of the events."""
    found, cohort = as_personalization(fitted), as_cohort(X)
    length, n_channels = found.dictionary.shape[1:]
    if cohort.subjects != found.subjects or cohort.n_channels != n_channels:
        raise InvalidParameterError(
            f"The events are of {len(found.subjects)} recording(s) of {n_channels} channel(s), "
            f"first subject {found.subjects[0]!r}; X has {len(cohort)} of {cohort.n_channels}, "
            f"first subject {cohort.subjects[0]!r}. {PASS_THOSE}"
        )
    ends = found.events["onset_sample"].to_numpy() + event_lengths(found.events, length)
    names = found.events["subject"].to_numpy(str)
    n_times = cohort.lengths[pd.Index(cohort.subjects).get_indexer(names)]
    for row in np.flatnonzero(ends > n_times)[:1]:
        raise InvalidParameterError(
            f"Subject {str(names[row])!r} has an event up to sample {ends[row]}, but "
            f"the recording has {n_times[row]} samples. {PASS_THOSE}"
        )
    return cohort


def check_complete(events: pd.DataFrame, names: Sequence[str]) -> None:
    """Raise if one of these numbers of an event is missing."""
    for row, name in np.argwhere(events[names].isna().to_numpy())[:1]:
        raise InvalidParameterError(
            f"Event {row} of subject {events['subject'].iloc[row]!r} has no {names[name]}. Drop "
            f"it: events.dropna(subset={names!r})."
        )


def check_lengths(what: str, count: int, labels: Sized, name: str) -> None:
    """Raise unless there is one label for each of the things counted, in their order."""
    if isinstance(labels, Mapping):
        raise InvalidParameterError(f"`{name}` is a dict, but {what} have no names. Pass a list.")
    if count != len(labels):
        raise InvalidParameterError(
            f"There are {count} {what} and {len(labels)} {name}. Pass one for each."
        )


def name_each(what: str, count: int, labels: Labels, name: str) -> np.ndarray:
    """Return the labels of the things counted, as text; raise if one is missing."""
    check_lengths(what, count, labels, name)
    each = pd.Series(list(labels), dtype=object)
    if each.isna().any():
        raise InvalidParameterError(
            f"`{name}` has no label at position {each.isna().argmax()} ({each.isna().sum()} of "
            f"{count} {what}). Leave those out, or label them."
        )
    return each.map(str).to_numpy(object)


def as_numbers(values: Any, name: str) -> np.ndarray:
    """Return numbers as floats, NaN where they are masked."""
    try:
        return np.ma.filled(np.ma.asanyarray(values).astype(float), np.nan)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"`{name}` must be numbers: {error}.") from error


def check_level(level: float, name: str = "level") -> None:
    """Raise unless a level is between 0 and 1."""
    if not 0 < level < 1:
        raise InvalidParameterError(f"`{name}={level!r}` must be between 0 and 1.")


def has_own_windows(model: Fitted) -> bool:
    """Return whether cycles have individual lengths or baselines, so are not plain windows."""
    return "duration_samples" in model.events_ or model.personalization_.n_terms > 0
