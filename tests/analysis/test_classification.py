"""The AUC protocol on features whose answer is known."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from percdl.analysis import feature_auc
from percdl.exceptions import InvalidParameterError

RNG = np.random.default_rng(0)
LABELS = np.repeat(["a", "b", "c"], 40)
CENTRES = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 40, axis=0)
NOISE = RNG.normal(size=(120, 2))


def test_separable_classes_are_distinguished():
    assert feature_auc(CENTRES + NOISE, LABELS) == pytest.approx(np.ones(5))


def test_any_classifier_will_do():
    forest = RandomForestClassifier(10, random_state=0)
    assert feature_auc(CENTRES + NOISE, LABELS, n_splits=1, classifier=forest).mean() > 0.95


def test_noise_is_chance():
    result = feature_auc(NOISE, LABELS, n_splits=10)
    assert result.mean() == pytest.approx(0.5, abs=0.08)
    assert result.std() > 0


def test_units_names_of_classes_and_seed():
    features = 0.2 * CENTRES + NOISE
    scores = feature_auc(features, LABELS, n_splits=2)
    scaled = features * [1000, 0.01] + [5, -3]
    np.testing.assert_allclose(feature_auc(scaled, LABELS, n_splits=2), scores, atol=1e-6)
    numbers = np.repeat([0, 1, 2], 40)
    np.testing.assert_allclose(feature_auc(features, numbers, n_splits=2), scores)
    others = feature_auc(features, LABELS, n_splits=2, random_state=1)
    assert not np.allclose(others, scores)


def test_given_folds():
    features = 0.1 * CENTRES + NOISE
    test = np.arange(120) % 4 == 0
    result = feature_auc(features, LABELS, splits=[(~test, test)])
    assert result.shape == (1,)
    positions = [(np.flatnonzero(~test), np.flatnonzero(test))]
    assert feature_auc(features, LABELS, splits=positions) == result


def test_two_classes_are_ranked_as_by_the_machine_itself():
    x, y = (0.1 * CENTRES + NOISE)[:80], LABELS[:80]
    test = np.arange(80) % 4 == 0
    machine = make_pipeline(StandardScaler(), SVC(C=1, gamma="scale")).fit(x[~test], y[~test])
    expected = roc_auc_score(y[test] == "b", machine.decision_function(x[test]))
    assert feature_auc(x, y, splits=[(~test, test)]).item() == pytest.approx(expected)


def test_persons_without_features_are_average():
    features = CENTRES + NOISE
    features[5] = np.nan
    assert feature_auc(features, LABELS).mean() > 0.95


def test_a_person_is_not_in_both_parts():
    rng = np.random.default_rng(1)
    persons, labels = np.repeat(np.arange(60), 4), rng.permutation(["a", "b"] * 30)
    features = rng.normal(size=(60, 6))[persons] + 0.01 * rng.normal(size=(240, 6))
    assert feature_auc(features, labels[persons]).mean() > 0.7  # recognizes people
    scores = feature_auc(features, labels[persons], persons=persons, n_splits=20)
    assert abs(scores.mean() - 0.5) < 0.15
    one_each = feature_auc(NOISE, LABELS, persons=range(120))
    np.testing.assert_array_equal(one_each, feature_auc(NOISE, LABELS))


def test_bad_tables_are_named():
    with pytest.raises(InvalidParameterError, match="Person '1' has several labels"):
        feature_auc(NOISE, LABELS, persons=[*range(119), 1])
    with pytest.raises(InvalidParameterError, match="120 rows of features and 3 labels"):
        feature_auc(NOISE, ["a", "b", "c"])
    with pytest.raises(InvalidParameterError, match="one class only"):
        feature_auc(NOISE, ["a"] * 120)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_rows_without_a_label_are_left_out(missing):
    labels = [*np.asarray(LABELS).tolist(), missing, missing]
    features = np.vstack([CENTRES + NOISE, NOISE[:2] + 99])
    expected = feature_auc(CENTRES + NOISE, LABELS, n_splits=2)
    np.testing.assert_array_equal(feature_auc(features, labels, n_splits=2), expected)
    scores = feature_auc(features, labels, n_splits=2, persons=range(122))
    np.testing.assert_array_equal(scores, expected)
    split = np.arange(60), np.arange(60, 120)
    with pytest.raises(InvalidParameterError, match=r"2 of 122 labels are missing.*row 120"):
        feature_auc(features, labels, splits=[split])
    with pytest.raises(InvalidParameterError, match="persons"):
        feature_auc(features, labels, persons=range(3))
