"""Checks that a model is fitted, and that the recordings are those it was fitted on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from percdl.estimators.personalization import Personalization
from percdl.exceptions import InvalidParameterError
from percdl.signals import Cohort, as_cohort

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL


def check_fitted_on(model: BaseCDL, X: Any) -> Cohort:
    """Return the recordings as a cohort; raise unless they can be those of the fit."""
    check_is_fitted(model)
    cohort = as_cohort(X)
    if cohort.subjects != tuple(model.subjects_) or cohort.n_channels != model.n_channels_:
        raise InvalidParameterError(
            f"`{type(model).__name__}` was fitted on {len(model.subjects_)} recording(s) of "
            f"{model.n_channels_} channel(s), first subject {model.subjects_[0]!r}; X has "
            f"{len(cohort)} of {cohort.n_channels}, first subject {cohort.subjects[0]!r}. Pass "
            "the recordings of the fit, in the same order."
        )
    for subject, onset in model.events_[["subject", "onset_sample"]].to_numpy():
        end, n_times = onset + model.atom_length_, cohort[str(subject)].n_times
        if end > n_times:
            raise InvalidParameterError(
                f"The fit has an activation of subject {subject!r} up to sample {end}, but the "
                f"recording passed has {n_times} samples. Pass the recordings of the fit."
            )
    return cohort


def as_personalization(fitted: BaseCDL | Personalization) -> Personalization:
    """Return what is known of the subjects: of a fit, or of people met afterwards."""
    return fitted if isinstance(fitted, Personalization) else fitted.personalization_


def check_level(level: float) -> None:
    """Raise unless a level is a probability."""
    if not 0 < level < 1:
        raise InvalidParameterError(
            f"`level={level!r}` must be between 0 and 1, such as 0.95 for 95% bands."
        )
