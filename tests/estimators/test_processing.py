"""Models remember how their recordings were processed, and say so when others were not."""

import warnings

import pytest
import small_models

from percdl.exceptions import NoActivationWarning, ProcessingWarning

CALLS = ("personalize", "transform", "reconstruct", "score")


@pytest.fixture(scope="module")
def scaled(cohort):
    return cohort.zscore()


@pytest.fixture(scope="module")
def model(scaled):
    return small_models.make("PopCDL").fit(scaled)


def warnings_of(call, X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", NoActivationWarning)
        call(X)
    return [str(warning.message) for warning in caught]


def test_the_steps_are_a_fitted_attribute(model, fitted_models):
    assert model.processing_ == ("z-scored per channel",)
    assert fitted_models["PerCDL"].processing_ == ()


@pytest.mark.parametrize("name", CALLS)
def test_another_processing_warns_once(model, cohort, scaled, name):
    assert warnings_of(getattr(model, name), scaled) == []
    (message,) = warnings_of(getattr(model, name), cohort)
    assert "fitted on recordings that were processed (z-scored per channel)" in message
    assert "X was not processed" in message


def test_plain_arrays_are_not_processed(fitted_models, cohort):
    signals = [recording.values for recording in cohort]
    plain = small_models.make("PopCDL").fit(signals)
    assert warnings_of(plain.personalize, signals) == []
    with pytest.warns(ProcessingWarning, match="not processed, but X was processed"):
        fitted_models["PopCDL"].personalize(cohort.zscore())


def test_the_rate_before_resampling_does_not_matter(cohort):
    there_and_back = cohort.resample(2 * cohort.sfreq).resample(cohort.sfreq)
    model = small_models.make("PopCDL").fit(there_and_back)
    assert model.processing_ == (
        "resampled from 50 to 100 Hz",
        "resampled from 100 to 50 Hz",
    )
    assert warnings_of(model.personalize, cohort) == []
