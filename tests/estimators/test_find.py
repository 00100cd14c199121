"""Given atoms, found without a fit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from percdl import Algorithm, PerCDL, PopCDL, TimeWarp, make_synthetic
from percdl.exceptions import InvalidParameterError


@pytest.fixture(scope="module")
def truth():
    return make_synthetic(4, random_state=0)


def test_given_atoms_stay_and_are_found_as_by_a_fitted_model(truth):
    atoms = truth.personal_dictionary[0]
    found = PopCDL(penalty=1.0, init=3 * atoms).find(truth.cohort)
    assert_allclose(found.dictionary_, atoms / np.sqrt((atoms**2).sum((1, 2), keepdims=True)))
    again = found.personalize(truth.cohort)
    assert again.events.equals(found.events_)
    mine = found.events_[found.events_["subject"] == truth.cohort.subjects[0]]
    onsets = truth.events[truth.events["subject"] == truth.cohort.subjects[0]]["onset_sample"]
    assert sorted(mine["onset_sample"]) == sorted(onsets)


def test_personalized_atoms_explain_more(truth):
    options = {"penalty": 1.0, "init": truth.dictionary}
    plain = PopCDL(**options).find(truth.cohort)
    warped = PerCDL(transformation=TimeWarp(3, 10), **options).find(truth.cohort)
    assert warped.score(truth.cohort) > plain.score(truth.cohort)
    assert np.isfinite(warped.params_).all()


def test_without_atoms_there_is_nothing_to_find(truth):
    with pytest.raises(InvalidParameterError, match=r"PopCDL\.find` needs the atoms"):
        PopCDL(2, 50, 1.0, algorithm=Algorithm()).find(truth.cohort)
