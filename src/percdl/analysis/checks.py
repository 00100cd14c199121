"""Checks that several analyses share: fitted models, recordings, tables of events, levels."""

from __future__ import annotations

from collections.abc import Sequence, Sized
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


def check_columns(events: pd.DataFrame, needed: set[str]) -> None:
    """Raise if a table of events lacks a column."""
    if missing := needed - set(events.columns):
        raise InvalidParameterError(
            f"`events` has no column {', '.join(sorted(missing))}; it has "
            f"{', '.join(map(str, events.columns))}. Pass a table such as `model.events_`."
        )


def check_lengths(what: str, count: int, labels: Sized, name: str) -> None:
    """Raise unless there is one label for each of the things counted."""
    if count != len(labels):
        raise InvalidParameterError(
            f"There are {count} {what} and {len(labels)} {name}. Pass one for each."
        )


def check_level(level: float, name: str = "level") -> None:
    """Raise unless a level is between 0 and 1."""
    if not 0 < level < 1:
        raise InvalidParameterError(f"`{name}={level!r}` must be between 0 and 1.")


def has_own_windows(model: Fitted) -> bool:
    """Return whether cycles have individual lengths or baselines, so are not plain windows."""
    return "duration_samples" in model.events_ or model.personalization_.n_terms > 0
