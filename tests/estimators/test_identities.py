"""What must be equal: models that are special cases of others, and ways to say the same."""

import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose, assert_array_equal
from small_models import (
    SFREQ,
    SUBJECTS,
    assert_same_fit,
    make,
    share_explained,
    spaced_cohort,
    spaced_recordings,
)

from percdl import Cohort, Free, Identity, PerCDL, TimeWarp


@pytest.mark.parametrize(
    ("transform", "special"), [(Identity(), "PopCDL"), (Free(), "IndCDL")], ids=["pop", "ind"]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_percdl_contains_the_other_models(transform, special, seed):
    arrays = toy.recordings(seed, (97, 110, 118, 128))
    general = make("PerCDL", transformation=transform, multistart=True).fit(arrays)
    assert_same_fit(general, make(special).fit(arrays), rtol=1e-6, atol=1e-6)
    assert len(general.events_) > 8


@pytest.mark.parametrize("realign", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_indcdl_is_popcdl_for_each_person(realign, seed):
    """IndCDL ends with one more fit of the atoms, hence a round more for PopCDL.

    A person alone accepts new codes only if they are better, a population always does. So
    the first atoms are off by a little, the atoms do not touch, and moving is never worse.
    """
    cohort = spaced_cohort(seed)
    options = {
        "init": np.roll(toy.first_guess(seed), 2, axis=1),
        "realign": realign,
        "dtype": "float64",
        "population_rounds": 1,
    }
    everyone = make("IndCDL", personal_rounds=3, **options).fit(cohort)
    objective = 0.0
    for s, subject in enumerate(SUBJECTS):
        alone = make("PopCDL", personal_rounds=4, **options).fit(cohort.select(subject))
        assert_allclose(everyone.personal_dictionary_[s], alone.dictionary_, atol=1e-12)
        own = everyone.events_[everyone.events_["subject"] == subject].reset_index(drop=True)
        exact = ["subject", "atom", "onset_sample", "onset_seconds"]
        assert own[exact].equals(alone.events_[exact])
        assert_allclose(own["amplitude"], alone.events_["amplitude"], rtol=1e-12)
        assert_array_equal(everyone.n_activations_[s], alone.n_activations_[0])
        objective += alone.objective_
    assert everyone.objective_ == pytest.approx(objective, rel=1e-12)


@pytest.mark.parametrize("factor", [2.0**-10, 2.0**10], ids=["small", "large"])
def test_units_do_not_matter(factor, fitted, cohort):
    """Signals in other units, and the penalty in their square: the same, in other units.

    The factors are powers of two, so that nothing is rounded.
    """
    arrays = [factor * r.values for r in cohort]
    scaled = Cohort.from_arrays(arrays, sfreq=SFREQ, subjects=SUBJECTS)
    model = make(type(fitted).__name__, penalty=0.3 * factor**2).fit(scaled)
    assert_array_equal(model.dictionary_, fitted.dictionary_)
    assert_array_equal(model.params_, fitted.params_)
    assert model.objective_ == factor**2 * fitted.objective_
    expected = fitted.events_.assign(amplitude=factor * fitted.events_["amplitude"])
    assert model.events_.equals(expected)
    assert model.score(scaled) == pytest.approx(fitted.score(cohort), rel=1e-12)


@pytest.fixture(scope="module")
def searching(cohort):
    """PerCDL as users get it, with realignment and several starts."""
    model = PerCDL(2, toy.LENGTH, TimeWarp(1, 3), 0.3, init=toy.first_guess(0))
    return model.fit(cohort)


def test_personalizing_explains_as_much_as_training(searching, fitted, cohort):
    for model in (searching, fitted):
        assert model.score(cohort) == pytest.approx(share_explained(model, cohort), rel=0.01)


def test_personalization_beats_the_population(searching, fitted_models, cohort):
    assert searching.score(cohort) > fitted_models["PopCDL"].score(cohort) + 0.02
    new = spaced_cohort(5)
    assert searching.score(new) > fitted_models["PopCDL"].score(new) + 0.02


def test_score_reconstruction_and_objective_tell_one_story(fitted, cohort):
    rebuilt = fitted.reconstruct(cohort)
    assert [x.shape for x in rebuilt] == [record.values.shape for record in cohort]
    missed = sum(((r.values - x) ** 2).sum() for r, x in zip(cohort, rebuilt, strict=True))
    energy = sum((r.values**2).sum() for r in cohort)
    assert fitted.score(cohort) == pytest.approx(1 - missed / energy, rel=1e-12)
    found = fitted.personalize(cohort)
    for s, (record, x) in enumerate(zip(cohort, rebuilt, strict=True)):
        expected = np.zeros_like(x)
        for event in found.events[found.events["subject"] == record.subject].itertuples():
            span = slice(event.onset_sample, event.onset_sample + toy.LENGTH)
            expected[span] += event.amplitude * found.personal_dictionary[s, event.atom]
        assert_allclose(x, expected, atol=1e-12)
    at_the_end = (1 - share_explained(fitted, cohort)) * energy + 0.3 * len(fitted.events_)
    assert fitted.objective_ == pytest.approx(at_the_end, rel=1e-4)


@pytest.mark.filterwarnings("ignore::percdl.exceptions.NoActivationWarning")
def test_score_is_one_for_a_perfect_model_and_zero_for_a_mute_one(fitted_models, cohort):
    model = fitted_models["PopCDL"]
    rebuilt = model.reconstruct(cohort)
    assert model.score(Cohort.from_arrays(rebuilt, sfreq=SFREQ)) == pytest.approx(1, abs=1e-6)
    quiet = Cohort.from_arrays([1e-3 * r.values for r in cohort], sfreq=SFREQ)
    assert model.score(quiet) == 0


def with_a_quiet_middle(fill):
    """Return recordings in which nothing happens from sample 45 to 85, and what stands there."""
    arrays = []
    for seed in range(4):
        x = spaced_recordings(seed, lengths=(128,), noise=0.0, bend=0.0)[0]
        x[25:] = 0
        x[100:116] = 0.8 * toy.patterns()[1]
        x[45:85] = fill
        arrays.append(x)
    return arrays


@pytest.mark.parametrize("name", ["PerCDL", "PopCDL"])
def test_missing_quiet_samples_change_nothing(name):
    silent, missing = with_a_quiet_middle(0.0), with_a_quiet_middle(np.nan)
    options = {"init": toy.patterns() + 0.05, "penalty": 0.1}
    whole, gaps = make(name, **options).fit(silent), make(name, **options).fit(missing)
    assert len(whole.events_) >= 8
    exact = ["subject", "atom", "onset_sample"]
    assert gaps.events_[exact].equals(whole.events_[exact])
    assert_allclose(gaps.events_["amplitude"], whole.events_["amplitude"], rtol=1e-4)
    assert_allclose(gaps.dictionary_, whole.dictionary_, atol=1e-4)
    assert gaps.objective_ == pytest.approx(whole.objective_, rel=1e-3)
    assert gaps.score(missing) == pytest.approx(whole.score(silent), abs=1e-4)
    for x in gaps.reconstruct(missing):
        assert_array_equal(x[45:85], 0)
