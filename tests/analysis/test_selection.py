"""A path of models is scored on people never seen; the simplest good one is chosen."""

import numpy as np
import pytest
import small_models
from sklearn.model_selection import GridSearchCV, KFold

from percdl import (
    Cohort,
    Compose,
    Identity,
    PerCDL,
    Rotation,
    TimeWarp,
    select,
)
from percdl.analysis.choosing import _size
from percdl.plotting import plot_selection


@pytest.fixture(scope="module")
def cohort():
    return small_models.spaced_cohort(0)


@pytest.fixture(scope="module")
def found(cohort):
    model = small_models.make("PopCDL", init="auto", random_state=0)
    grid = {"n_atoms": [2, 1], "penalty": [0.3, 3.0]}
    return select(cohort, grid, model, n_folds=2)


def test_two_patterns_need_two_atoms(found):
    assert found.chosen["n_atoms"] == 2
    assert found.model.n_atoms == 2
    assert not hasattr(found.model, "dictionary_")
    assert "n_atoms=2" in repr(found)


def test_the_simplest_within_one_error_is_chosen(found):
    table = found.table
    assert table["n_atoms"].is_monotonic_increasing
    assert (table.groupby("n_atoms")["penalty"].first() == 3.0).all()
    best = table.loc[table["score"].idxmax()]
    good = table[table["score"] >= best["score"] - best["error"]]
    assert table["chosen"].sum() == 1
    assert good.index[0] == table.index[table["chosen"]][0]


def test_more_atoms_and_cheaper_ones_explain_more_of_others(found):
    scores = found.table.pivot(index="n_atoms", columns="penalty", values="score")
    assert (scores.loc[2] >= scores.loc[1]).all()
    assert (scores[0.3] >= scores[3.0]).all()


def test_scores_are_those_of_grid_search(cohort):
    model, grid = small_models.make("PopCDL"), {"penalty": [0.3, 1.0]}
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(model, grid, cv=folds).fit([record.values for record in cohort])
    table = select(cohort, grid, model, n_folds=2).table.sort_values("penalty")
    np.testing.assert_allclose(table["score"], search.cv_results_["mean_test_score"], rtol=1e-6)


def test_parts_of_the_transformation_vary(cohort):
    model = small_models.make("PerCDL", personal_rounds=1)
    name = "transformation__width"
    found = select(cohort, {name: [3, 2]}, model, n_folds=2)
    assert list(found.table[name]) == [2, 3]
    assert found.model.get_params()["transformation"] == TimeWarp(1, found.chosen[name])


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        ({"transformation__depth": [1]}, {}, "Invalid parameter 'transformation'"),
        ({"wings": [1]}, {}, "Invalid parameter 'wings'"),
        ({"n_atoms": [1]}, {"n_folds": 9}, "n_splits=9 greater than the number of samples"),
    ],
)
def test_bad_grids_are_named(cohort, grid, options, message):
    with pytest.raises(ValueError, match=message):
        select(cohort, grid, small_models.make("PopCDL"), **options)


def test_the_picture_shows_every_model(found):
    ax = plot_selection(found)
    assert ax.get_ylabel() == "held-out score (share explained)"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"chosen", "best - 1 s.e."} <= set(labels)
    assert len(labels) == 4


def test_smaller_transforms_come_first():
    warp, both = TimeWarp(2, 3), Compose(TimeWarp(2, 3), Rotation())
    cohort = Cohort.from_arrays(np.zeros((1, 30, 3)))
    models = [PerCDL(1, 20, t) for t in (Identity(), warp, both)]
    sizes = [_size(model, cohort) for model in models]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3
