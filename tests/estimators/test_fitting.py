"""What goes into a fit, and what comes out of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose, assert_array_equal
from small_models import (
    LENGTHS,
    NAMES,
    OPTIONS,
    SFREQ,
    SUBJECTS,
    TABLE,
    assert_same_fit,
    make,
    share_explained,
    spaced_cohort,
    spaced_recordings,
)

from percdl import Cohort, PerCDL, TimeWarp
from percdl.estimators import Motif
from percdl.estimators.start import Choices, make_settings

N_PARAMS = {"PerCDL": 3, "PopCDL": 0, "IndCDL": toy.LENGTH}


@pytest.mark.parametrize("name", NAMES)
def test_fitted_attributes_have_their_shapes(name, fitted_models):
    model, n_params = fitted_models[name], N_PARAMS[name]
    assert model.dictionary_.shape == (2, toy.LENGTH, 1)
    assert model.params_.shape == (4, 2, n_params)
    assert model.personal_dictionary_.shape == (4, 2, toy.LENGTH, 1)
    assert model.n_activations_.shape == (4, 2)
    assert_allclose((model.dictionary_**2).sum((1, 2)), 1, rtol=1e-6)
    assert np.isfinite(model.params_).all()
    assert np.isfinite(model.personal_dictionary_).all()
    assert isinstance(model.objective_, float)
    assert isinstance(model.stop_reason_, str)
    assert model.subjects_ == SUBJECTS
    assert (model.channels_, model.units_, model.sfreq_) == (("ch0",), ("",), SFREQ)
    assert model.n_channels_ == 1


def test_events_are_a_table_of_activations(fitted):
    events = fitted.events_
    assert list(events.columns) == TABLE
    kinds = [events[column].dtype.kind for column in ("atom", "onset_sample")]
    assert kinds == ["i", "i"]
    assert events["subject"].map(type).eq(str).all()
    assert_array_equal(events["onset_seconds"], events["onset_sample"] / SFREQ)
    assert (events["amplitude"] > 0).all()
    counts = events.groupby(["subject", "atom"]).size().unstack(fill_value=0)
    assert_array_equal(counts.loc[list(SUBJECTS)], fitted.n_activations_)
    for subject, length in zip(SUBJECTS, LENGTHS, strict=True):
        onsets = events.loc[events["subject"] == subject, "onset_sample"].to_numpy()
        assert (np.diff(onsets) >= toy.LENGTH).all()
        assert 0 <= onsets[0]
        assert onsets[-1] + toy.LENGTH <= length


def test_events_keep_the_order_of_the_cohort(fitted_models, cohort):
    backwards = Cohort(reversed(cohort))
    model = make("PopCDL").fit(backwards)
    assert list(dict.fromkeys(model.events_["subject"])) == list(reversed(SUBJECTS))
    assert_array_equal(model.n_activations_[::-1], fitted_models["PopCDL"].n_activations_)


@pytest.mark.parametrize("name", NAMES)
def test_forms_of_input_agree(name):
    arrays = spaced_recordings(3, lengths=(120,) * 4)
    stacked = np.stack(arrays)
    reference = make(name).fit(stacked)
    assert reference.subjects_ == ("0", "1", "2", "3")
    for X in (arrays, stacked[:, :, 0], Cohort.from_arrays(arrays), [x[:, 0] for x in arrays]):
        assert_same_fit(make(name).fit(X), reference)
        assert_array_equal(reference.transform(X), reference.transform(stacked))


def test_numbers_of_any_kind_are_taken():
    arrays = [np.round(100 * x) for x in spaced_recordings(3, lengths=(120,) * 4)]
    reference = make("PopCDL", penalty=3e3).fit(arrays)
    assert len(reference.events_) > 8
    for kind in (np.float32, np.int16, np.int64):
        model = make("PopCDL", penalty=3e3).fit([x.astype(kind) for x in arrays])
        assert_same_fit(model, reference)


def test_several_channels():
    arrays = toy.recordings(0, LENGTHS, n_channels=2)
    model = make("PopCDL", init=toy.first_guess(0, 2)).fit(arrays)
    assert model.dictionary_.shape == (2, toy.LENGTH, 2)
    assert model.personal_dictionary_.shape == (4, 2, toy.LENGTH, 2)
    assert model.reconstruct(arrays)[3].shape == (128, 2)
    assert model.n_channels_ == 2
    # The second channel is the first, half as large again.
    assert_allclose(model.dictionary_[..., 1], 1.5 * model.dictionary_[..., 0], atol=0.1)
    assert model.score(arrays) > 0.8


@pytest.mark.parametrize("name", ["PerCDL", "PopCDL"])
def test_missing_samples_leave_the_events_where_they_are(name, fitted_models, cohort):
    rng = np.random.default_rng(0)
    arrays = [np.where(rng.random(r.values.shape) < 0.1, np.nan, r.values) for r in cohort]
    gaps = Cohort.from_arrays(arrays, sfreq=SFREQ, subjects=SUBJECTS)
    model, whole = make(name).fit(gaps), fitted_models[name]
    assert np.isfinite(model.dictionary_).all()
    assert np.isfinite(model.objective_)
    assert model.events_[["subject", "atom"]].equals(whole.events_[["subject", "atom"]])
    moved = model.events_["onset_sample"] - whole.events_["onset_sample"]
    assert np.abs(moved).max() <= 1
    ratio = model.events_["amplitude"] / whole.events_["amplitude"]
    assert abs(ratio.mean() - 1) < 0.03  # zeros in their place would take a tenth away
    assert all(np.isfinite(x).all() for x in model.reconstruct(gaps))


def test_rules_of_the_code_are_obeyed(cohort):
    mirrored = Cohort.from_arrays([-r.values for r in cohort], sfreq=SFREQ, subjects=SUBJECTS)
    rules = {"signed": True, "min_gap": 12, "max_activations": 2}
    events = make("PopCDL", population_rounds=1, personal_rounds=0, **rules).fit(mirrored).events_
    assert (events["amplitude"] < 0).any()
    assert events.groupby("subject").size().tolist() == [2] * 4
    assert (events.groupby("subject")["onset_sample"].diff().dropna() >= toy.LENGTH + 12).all()


def test_arguments_reach_the_algorithm(cohort):
    chosen = {
        "weighting": "subjects", "population_rounds": 7, "personal_rounds": 9,
        "realign": True, "multistart": True, "tol": 0.125, "chunk_rows": 3,
        "centering": "paper", "solver": "polyak", "solver_steps": 11, "dtype": "float64",
        "update": "robust", "penalty": 0.7, "n_atoms": 3, "atom_length": 21,
    }  # fmt: skip
    numbers = Choices(n_atoms=3, atom_length=21, penalty=0.7)
    settings = make_settings(make("PerCDL", **chosen), cohort, numbers)
    assert {name: getattr(settings, name) for name in chosen} == chosen
    assert settings.n_channels == 1
    assert make_settings(PerCDL(1, 50, penalty=0.01), cohort, numbers).transform == TimeWarp()


def test_without_rounds_the_first_dictionary_is_coded(cohort):
    model = make("PopCDL", population_rounds=0, personal_rounds=0).fit(cohort)
    first = OPTIONS["init"]
    assert_allclose(model.dictionary_, first / np.sqrt((first**2).sum((1, 2), keepdims=True)))
    assert list(model.history_["phase"]) == ["final"]
    assert len(model.events_) > 8


def test_random_state_decides_everything(cohort):
    def fit(seed):
        return make("PopCDL", init="auto", n_restarts=2, random_state=seed).fit(cohort)

    reference = fit(0)
    assert_same_fit(fit(0), reference)
    assert_same_fit(fit(np.random.RandomState(0)), reference)
    others = [fit(seed).dictionary_ for seed in (1, 2, 3)]
    assert any(np.abs(other - reference.dictionary_).max() > 1e-3 for other in others)


def test_more_restarts_never_end_higher(cohort):
    def objective(n_restarts, seed):
        chosen = {
            "n_restarts": n_restarts,
            "random_state": seed,
            "population_rounds": 1,
            "personal_rounds": 0,
        }
        return make("PopCDL", init="auto", **chosen).fit(cohort).objective_

    ends = np.array([[objective(n, seed) for n in (1, 2, 4)] for seed in range(4)])
    assert (np.diff(ends, axis=1) <= 0).all()
    assert ends[:, 2].sum() < ends[:, 0].sum()


def test_restarts_keep_what_belongs_to_the_best(cohort):
    """The events and the objective are those of the dictionary returned."""
    energy = sum((r.values**2).sum() for r in cohort)
    for seed in range(4):
        chosen = {
            "n_restarts": 3,
            "random_state": seed,
            "population_rounds": 1,
            "personal_rounds": 0,
        }
        model = make("PopCDL", init="auto", **chosen).fit(cohort)
        residual = (1 - share_explained(model, cohort)) * energy
        assert model.objective_ == pytest.approx(residual + 0.3 * len(model.events_), rel=1e-5)
        assert model.history_["objective"].iloc[-1] == model.objective_


def test_motifs_start_from_named_segments():
    cohort = spaced_cohort(0)
    motifs = [Motif("Bo", 4), Motif("Di", 40)]
    cut = np.stack([cohort["Bo"].values[4:20], cohort["Di"].values[40:56]])
    assert_same_fit(make("PopCDL", init=motifs).fit(cohort), make("PopCDL", init=cut).fit(cohort))
    alone = make(
        "PopCDL", n_atoms=1, init=Motif("Bo", 4), population_rounds=0, personal_rounds=0
    ).fit(cohort)
    assert_allclose(alone.dictionary_[0], cut[0] / np.sqrt((cut[0] ** 2).sum()))


def test_new_people_are_personalized_one_by_one(fitted, cohort):
    """What is said of a person does not depend on who else is asked about."""
    new = spaced_cohort(7)
    together = fitted.personalize(new)
    assert together.subjects == SUBJECTS
    for s, subject in enumerate(SUBJECTS):
        alone = fitted.personalize(new.select(subject))
        assert_allclose(alone.params[0], together.params[s], rtol=1e-4, atol=1e-5)
        onsets = together.events.loc[together.events["subject"] == subject, "onset_sample"]
        assert_array_equal(alone.events["onset_sample"], onsets)
    before = fitted.dictionary_.copy()
    fitted.transform(new)
    assert_array_equal(fitted.dictionary_, before)


def test_warps_read_the_common_atoms(fitted_models):
    model = fitted_models["PerCDL"]
    assert model.warps_.shape == (len(model.subjects_), 2, 1, model.atom_length_)
    read = [
        model.resolve("transformation").resample(
            jnp.asarray(atom), jnp.asarray(model.warps_[:, k])
        )
        for k, atom in enumerate(model.dictionary_)
    ]
    np.testing.assert_allclose(model.personal_dictionary_, np.stack(read, 1), atol=1e-5)


@pytest.mark.parametrize("name", ["PopCDL", "IndCDL"])
def test_models_that_warp_nothing_have_no_warps(name, fitted_models):
    assert fitted_models[name].warps_.shape[2] == 0


def test_the_fit_describes_its_own_subjects_as_others(fitted):
    found = fitted.personalization_
    assert found.events is fitted.events_
    np.testing.assert_array_equal(found.personal_dictionary, fitted.personal_dictionary_)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_precision_of_the_process_is_no_matter(dtype):
    """``jax_enable_x64`` is a choice of the caller's own programs."""
    model = make("PerCDL", dtype=dtype, multistart=True)
    outside = model.fit(spaced_cohort(0))
    with jax.enable_x64(True):
        inside = make("PerCDL", dtype=dtype, multistart=True).fit(spaced_cohort(0))
    assert_same_fit(inside, outside)
