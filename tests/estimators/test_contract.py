"""PerCDL, PopCDL and IndCDL are scikit-learn estimators."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
import small_models
import toy
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from small_models import NAMES, make, spaced_recordings

from percdl import Algorithm, Identity, IndCDL, L0Coder, PerCDL, PopCDL, TimeWarp
from percdl.exceptions import InvalidParameterError

TINY = {
    "n_atoms": 1,
    "atom_length": 3,
    "penalty": 0.0,
    "coder": L0Coder(signed=True),
    "algorithm": Algorithm(
        population_rounds=1, personal_rounds=1, realign=False, multistart=False, chunk_rows=4
    ),
    "init": np.array([[[0.0], [1.0], [0.5]]]),
}
SHORT = "its recordings have 1 or 2 samples, fewer than the shortest atom; refused"
FLAT = "some of its recordings are constant where observed; refused"
# What they are about is tested below, on recordings that can be used.
EXPECTED_FAILED = {
    "check_estimators_overwrite_params": SHORT,
    "check_estimators_fit_returns_self": SHORT,
    "check_readonly_memmap_input": SHORT,
    "check_fit_idempotent": SHORT,
    "check_fit_check_is_fitted": SHORT,
    "check_fit2d_1feature": SHORT,
    "check_n_features_in": SHORT,
    "check_estimators_dtypes": FLAT,
    "check_estimators_pickle": FLAT,
    "check_n_features_in_after_fitting": "recordings may be of any length, then and later",
    "check_dtype_object": "object arrays are refused, never converted",
}


@pytest.mark.filterwarnings("ignore::percdl.exceptions.OffsetWarning")  # samples around 100
@parametrize_with_checks(
    [
        PopCDL(**TINY),
        IndCDL(**TINY),
        PerCDL(transformation=TimeWarp(1, 2), **TINY),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILED,
)
def test_scikit_learn_check(estimator, check, any_types):
    check(estimator)


@pytest.mark.parametrize("model", [PerCDL, PopCDL, IndCDL])
def test_constructor_only_stores(model, any_types):
    names = model().get_params(deep=False)
    marks = {name: object() for name in names}
    estimator = model(**marks)
    assert vars(estimator) == marks
    assert estimator.get_params() == marks
    with pytest.raises(TypeError, match="n_atom"):
        model(n_atom=2)


def test_clone_keeps_arguments_and_forgets_the_fit(fitted):
    twin = clone(fitted)
    assert not [name for name in vars(twin) if name.endswith("_")]
    assert not hasattr(twin, "personal_dictionary_")
    for name, value in fitted.get_params().items():
        assert_array_equal(twin.get_params()[name], value)
    with pytest.raises(NotFittedError):
        twin.transform(spaced_recordings(0))


def test_the_transformation_is_an_argument_and_transform_a_method(cohort):
    warp = TimeWarp(1, 3)
    model = make("PerCDL", transformation=warp)
    assert model.get_params()["transformation"] is warp
    assert model.fit(cohort).transform(cohort).shape == (4, 2 * 3)
    assert model.set_params(transformation=Identity()) is model
    assert model.get_params()["transformation"] == Identity()
    assert clone(model).get_params()["transformation"] == Identity()
    assert "transformation=Identity()" in repr(model)
    assert model.fit(cohort).params_.shape == (4, 2, 0)
    assert model.transform(cohort).shape == (4, 0)
    assert callable(PerCDL.transform)


@pytest.mark.parametrize("name", NAMES)
def test_fit_returns_self_and_changes_neither_arguments_nor_data(name, fitted_models):
    model = make(name)
    before = copy.deepcopy(model.get_params())
    arrays = spaced_recordings(0)
    for x in arrays:
        x.flags.writeable = False
    assert model.fit(arrays) is model
    for argument, value in before.items():
        assert_array_equal(model.get_params()[argument], value)
    for x, untouched in zip(arrays, spaced_recordings(0), strict=True):
        assert_array_equal(x, untouched)
    assert_array_equal(model.dictionary_, fitted_models[name].dictionary_)


@pytest.mark.parametrize("name", NAMES)
def test_a_second_fit_forgets_the_first(name, cohort, fitted_models):
    model = make(name).fit(spaced_recordings(1)[:2])
    assert model.personal_dictionary_.shape[0] == 2
    small_models.assert_same_fit(model.fit(cohort), fitted_models[name])


def test_y_is_ignored(cohort, fitted_models):
    y = ["left", "right", None, 3]
    model = make("PopCDL").fit(cohort, y)
    assert_array_equal(model.dictionary_, fitted_models["PopCDL"].dictionary_)
    assert model.score(cohort, y) == model.score(cohort)
    assert_array_equal(make("PopCDL").fit_transform(cohort, y), model.transform(cohort))


def test_a_pickled_model_is_the_same_model(fitted, cohort):
    for twin in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        small_models.assert_same_fit(twin, fitted)
        assert_array_equal(twin.transform(cohort), fitted.transform(cohort))
        assert repr(twin) == repr(fitted)


def test_feature_names_name_the_columns(fitted, cohort):
    names = fitted.get_feature_names_out()
    assert len(set(names)) == len(names) == fitted.transform(cohort).shape[1]
    assert all(name.startswith(("atom0_", "atom1_")) for name in names)


def test_features_are_the_parameters(fitted_models, cohort):
    for name in ("PerCDL", "IndCDL"):
        found = fitted_models[name].personalize(cohort)
        features = fitted_models[name].transform(cohort)
        assert_array_equal(features, found.params.reshape(4, -1))


def test_population_features_count_and_average_the_activations(fitted_models, cohort):
    model = fitted_models["PopCDL"]
    table = model.personalize(cohort).events.groupby(["subject", "atom"])["amplitude"]
    features = pd.DataFrame(
        model.transform(cohort), index=cohort.subjects, columns=model.get_feature_names_out()
    )
    for (subject, atom), amplitudes in table:
        assert features.loc[subject, f"atom{atom}_n_activations"] == len(amplitudes)
        mean = features.loc[subject, f"atom{atom}_mean_amplitude"]
        assert mean == pytest.approx(amplitudes.mean(), rel=1e-6)
    assert features.filter(like="n_activations").to_numpy().sum() == len(table.obj)


@pytest.mark.parametrize("name", ["PerCDL", "PopCDL"])
def test_set_output_gives_a_frame(name, cohort):
    model = make(name).set_output(transform="pandas").fit(cohort)
    frame = model.transform(cohort)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(model.get_feature_names_out())
    values = model.set_output(transform="default").transform(cohort)
    assert_array_equal(frame.to_numpy(), values)


def test_pipeline_ends_in_a_classifier():
    """Slow walkers from fast ones: the first group lacks the second atom."""
    arrays = spaced_recordings(0, lengths=(128,) * 8)
    for x in arrays[:4]:
        x[60:] = 0.02 * np.random.default_rng(0).standard_normal((68, 1))
    X, y = np.stack(arrays), ["few"] * 4 + ["many"] * 4
    pipeline = make_pipeline(make("PopCDL"), StandardScaler(), LogisticRegression())
    assert list(pipeline.fit(X, y).predict(X)) == y
    features = StandardScaler().fit_transform(pipeline[0].transform(X))
    assert_array_equal(pipeline[:-1].transform(X), features)


@pytest.mark.filterwarnings("ignore::percdl.exceptions.NoActivationWarning")
@pytest.mark.parametrize("name", ["PerCDL", "PopCDL"])
def test_grid_search_avoids_a_penalty_that_leaves_little(name):
    X = np.stack(spaced_recordings(2, lengths=(120,) * 8))
    penalties, folds = [6.0, 0.3], KFold(2)
    search = GridSearchCV(make(name), {"penalty": penalties}, cv=folds).fit(X)
    for penalty, mean in zip(penalties, search.cv_results_["mean_test_score"], strict=True):
        by_hand = [
            make(name, penalty=penalty).fit(X[train]).score(X[test])
            for train, test in folds.split(X)
        ]
        assert mean == pytest.approx(np.mean(by_hand), rel=1e-6)
    assert search.best_params_ == {"penalty": 0.3}
    assert search.best_estimator_.dictionary_.shape == (2, toy.LENGTH, 1)


def test_grid_search_cuts_lists_and_cohorts(cohort):
    def scores(X):
        search = GridSearchCV(make("PopCDL"), {"penalty": [0.3]}, cv=KFold(2))
        return search.fit(X).cv_results_["mean_test_score"]

    from_list = scores([record.values for record in cohort])
    assert from_list[0] > 0.5
    assert_array_equal(scores(cohort), from_list)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_in_a_notebook_names_every_argument(name):
    page = make(name, penalty=0.3)._repr_html_()
    assert name in page
    assert all(argument in page for argument in make(name).get_params(deep=False))


def test_a_runtime_is_routed_through_a_pipeline():
    with sklearn.config_context(enable_metadata_routing=True):
        model = make("PopCDL").set_fit_request(runtime=True)
        pipeline = make_pipeline(model, StandardScaler())
        with pytest.raises(InvalidParameterError, match="`runtime='here'` is not a runtime"):
            pipeline.fit(spaced_recordings(0), runtime="here")


def test_tags_say_what_is_accepted():
    tags = get_tags(PerCDL())
    assert tags.input_tags.three_d_array
    assert tags.input_tags.allow_nan
    assert tags.transformer_tags is not None
    assert not tags.target_tags.required
