"""Checks that a model is fitted, and that the recordings are those it was fitted on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from percdl.estimators.personalization import Personalization
from percdl.exceptions import InvalidParameterError
from percdl.signals import Cohort, as_cohort

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL


def check_fitted_on(fitted: BaseCDL | Personalization, X: Any) -> Cohort:
    """Return the recordings as a cohort; raise unless events can have been found in them."""
    found, cohort = as_personalization(fitted), as_cohort(X)
    length, n_channels = found.dictionary.shape[1:]
    if cohort.subjects != found.subjects or cohort.n_channels != n_channels:
        raise InvalidParameterError(
            f"The events are of {len(found.subjects)} recording(s) of {n_channels} channel(s), "
            f"first subject {found.subjects[0]!r}; X has {len(cohort)} of {cohort.n_channels}, "
            f"first subject {cohort.subjects[0]!r}. Pass the recordings of the fit (or those that "
            "were personalized), in the same order."
        )
    for subject, onset in found.events[["subject", "onset_sample"]].to_numpy():
        end, n_times = onset + length, cohort[str(subject)].n_times
        if end > n_times:
            raise InvalidParameterError(
                f"There is an event of subject {subject!r} up to sample {end}, but the recording "
                f"passed has {n_times} samples. Pass the recordings of the fit (or those that "
                "were personalized)."
            )
    return cohort


def as_personalization(fitted: BaseCDL | Personalization) -> Personalization:
    """Return what is known of the subjects: of a fit, or of people met afterwards."""
    if isinstance(fitted, Cohort):
        raise InvalidParameterError(
            "Recordings were passed where a fitted model, or what `model.personalize(cohort)` "
            "returns, is needed. Pass `model`, or `model.personalize(cohort)` for new people."
        )
    return fitted if isinstance(fitted, Personalization) else fitted.personalization_


def check_level(level: float) -> None:
    """Raise unless a level is a probability."""
    if not 0 < level < 1:
        raise InvalidParameterError(
            f"`level={level!r}` must be between 0 and 1, such as 0.95 for 95% bands."
        )
