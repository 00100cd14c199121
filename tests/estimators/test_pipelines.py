"""PerCDL among the tools of scikit-learn: pipelines, grids, cross-validation, frames."""

import numpy as np
import pandas as pd
import pytest
import toy
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler
from small_models import SFREQ, make

from percdl import Cohort, Free, Identity, PerCDL, TimeWarp
from percdl.exceptions import InvalidParameterError

BEND = 0.9


def bent(rng, bend):
    """Return a recording in which both atoms are warped by ``bend``."""
    time = np.linspace(0, 1, toy.LENGTH)
    warp = time + bend * np.sin(np.pi * time) / np.pi
    x = 0.02 * rng.standard_normal(120)
    for turn, onset in enumerate(range(4, 100, 26)):
        atom = toy.patterns()[turn % 2][:, 0]
        x[onset : onset + toy.LENGTH] += np.interp(warp, time, atom)
    return x


@pytest.fixture(scope="module")
def walkers():
    """Early and late: two groups of people who differ in their warps only, in mixed order."""
    rng = np.random.default_rng(0)
    groups = ["early", "late"] * 8
    arrays = [
        bent(rng, (BEND if g == "late" else -BEND) + 0.1 * rng.standard_normal()) for g in groups
    ]
    return Cohort.from_arrays(arrays, sfreq=SFREQ, groups=groups)  # fmt: skip


def steps(**options):
    """Return the usual steps: parameters, NaN where an atom is absent filled in, scaled."""
    return Pipeline(
        [
            ("percdl", make("PerCDL", population_rounds=1, personal_rounds=2, **options)),
            ("fill", SimpleImputer(keep_empty_features=True)),
            ("scale", StandardScaler()),
            ("classify", LogisticRegression()),
        ]
    )


def test_groups_are_distinguished_by_their_warps(walkers):
    predicted = cross_val_predict(steps(), walkers, walkers.groups, cv=StratifiedKFold(4))
    assert tuple(predicted) == walkers.groups


def test_cohort_list_and_array_go_through_a_pipeline_alike(walkers):
    stacked = np.stack([recording.values for recording in walkers])
    found = [
        cross_val_score(steps(), X, walkers.groups, cv=KFold(2))
        for X in (Cohort.from_arrays(stacked), list(stacked), stacked)
    ]
    assert_array_equal(found[0], found[1])
    assert_array_equal(found[0], found[2])


def test_frames_come_out_with_names(walkers):
    pipeline = steps().set_output(transform="pandas").fit(walkers, walkers.groups)
    frame = pipeline[:-1].transform(walkers)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [f"atom{k}_layer1_sine{m}" for k in range(2) for m in (1, 2, 3)]
    assert list(pipeline[:-1].get_feature_names_out()) == list(frame.columns)
    assert list(pipeline["classify"].feature_names_in_) == list(frame.columns)
    plain = steps().fit(walkers, walkers.groups)
    assert_array_equal(plain[:-1].transform(walkers), frame.to_numpy())


@pytest.mark.filterwarnings("ignore::percdl.exceptions.NoActivationWarning")
def test_grid_reaches_parameters_by_their_path(walkers):
    grid = {"percdl__penalty": [0.3, 1e3], "classify__C": [1.0]}
    search = GridSearchCV(steps(), grid, cv=StratifiedKFold(2)).fit(walkers, walkers.groups)
    assert search.best_params_ == {"percdl__penalty": 0.3, "classify__C": 1.0}
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] == 1
    assert scores[1] <= 0.5  # nothing is found, so nothing is known
    assert search.best_estimator_["percdl"].penalty_ == 0.3
    assert tuple(search.predict(walkers)) == walkers.groups


def test_grid_by_the_score_of_the_model_prefers_a_transform_that_fits(walkers):
    """Warped atoms are explained better by warps than by one shape for all."""
    transforms = [Identity(), TimeWarp(1, 3)]
    model = make("PerCDL", population_rounds=1)
    search = GridSearchCV(model, {"transformation": transforms}, cv=KFold(2)).fit(walkers)
    assert search.best_params_ == {"transformation": TimeWarp(1, 3)}


@pytest.mark.parametrize("transform", [TimeWarp(2, 4), Identity(), Free(), None])
def test_clones_keep_the_transform(transform):
    pipeline = steps(transformation=transform)
    twin = clone(pipeline)
    assert twin.get_params()["percdl__transformation"] == transform
    assert "percdl__atom_length" in twin.get_params()
    twin.set_params(percdl__transformation=TimeWarp(1, 5), percdl__algorithm__personal_rounds=7)
    assert twin["percdl"].get_params()["transformation"] == TimeWarp(1, 5)
    assert pipeline.get_params()["percdl__transformation"] == transform


def test_grid_reaches_into_the_transform(walkers):
    """The same as a grid of transforms; the transform given is left as it was."""
    given = TimeWarp(1, 2)
    grid = {"percdl__transformation__width": [2, 3]}
    search = GridSearchCV(steps(transformation=given), grid, cv=StratifiedKFold(2))
    search.fit(walkers, walkers.groups)
    for width, mean in zip((2, 3), search.cv_results_["mean_test_score"], strict=True):
        model = steps(transformation=TimeWarp(1, width))
        by_hand = cross_val_score(model, walkers, walkers.groups, cv=StratifiedKFold(2))
        assert mean == pytest.approx(by_hand.mean())
    assert given == TimeWarp(1, 2)
    width = search.best_params_["percdl__transformation__width"]
    assert search.best_estimator_["percdl"].get_params()["transformation"] == TimeWarp(1, width)


def test_arguments_of_the_transform_are_seen_and_set():
    model = PerCDL(1, 50, transformation=TimeWarp(2, 4), penalty=0.01)
    assert model.get_params()["transformation__depth"] == 2
    assert "transformation__depth" not in model.get_params(deep=False)
    assert model.set_params(transformation__depth=3, penalty=0.5) is model
    assert model.get_params()["transformation"] == TimeWarp(3, 4)
    assert model.set_params(transformation=TimeWarp(1, 9), transformation__depth=5).get_params()[
        "transformation"
    ] == TimeWarp(5, 9)
    assert (
        PerCDL(1, 50, penalty=0.01)
        .set_params(transformation__width=7)
        .get_params()["transformation__width"]
        == 7
    )
    with pytest.raises(
        InvalidParameterError, match=r"TimeWarp.*no argument 'dept', only depth, w"
    ):
        model.set_params(transformation__dept=3)
    with pytest.raises(InvalidParameterError, match=r"Identity.*only none at all"):
        PerCDL(1, 50, transformation=Identity(), penalty=0.01).set_params(transformation__depth=3)
    with pytest.raises(ValueError, match="Invalid parameter 'penalti'"):
        model.set_params(penalti=3)


def test_two_models_side_by_side(walkers):
    """Warps and amplitudes as one table, each column named by the model it comes from."""
    union = FeatureUnion(
        [
            ("warp", make("PerCDL", population_rounds=1)),
            ("mean", make("PopCDL", population_rounds=1)),
        ]
    ).set_output(transform="pandas")
    table = union.fit_transform(walkers)
    assert [name.partition("__")[0] for name in table.columns].count("warp") == 6
    warps_only = ColumnTransformer([("warps", "passthrough", table.columns[:6].tolist())])
    assert_array_equal(
        warps_only.fit_transform(table), make("PerCDL", population_rounds=1).fit_transform(walkers)
    )
