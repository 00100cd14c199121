"""Detections are matched with annotations one to one."""

import numpy as np
import pandas as pd
import pytest

from percdl.analysis import score_segmentation, trace_trade_off
from percdl.exceptions import InvalidParameterError, MissingEventsWarning


def events(onsets, amplitude=1.0, subject="A"):
    return pd.DataFrame({"subject": subject, "onset_sample": onsets, "amplitude": amplitude})


def test_the_truth_is_perfect():
    cycles = {"A": [10, 90, 170], "B": [5]}
    found = pd.concat([events(cycles["A"]), events(cycles["B"], subject="B")])
    score = score_segmentation(found, cycles, tolerance=0)
    assert (score.sensitivity, score.false_positives) == (1, 0)


def test_a_detection_counts_once():
    score = score_segmentation(events([50]), {"A": [40, 60]}, tolerance=20)
    assert score.sensitivity == 0.5
    score = score_segmentation(events([40, 60]), {"A": [50]}, tolerance=20)
    assert (score.sensitivity, score.false_positives) == (1, 1)


def test_faint_detections_are_left_out():
    found = events([10, 500], amplitude=np.array([1.0, 0.001]))
    assert score_segmentation(found, {"A": [10]}, 5).false_positives == 1
    assert score_segmentation(found, {"A": [10]}, 5, least_amplitude=0.02).false_positives == 0


def test_nothing_detected_is_nothing_found():
    assert score_segmentation(events([]), {"A": [10]}, 5).sensitivity == 0


def test_bad_tables_are_named():
    with pytest.raises(InvalidParameterError, match="no column amplitude, onset_sample"):
        score_segmentation(pd.DataFrame({"subject": ["A"]}), {"A": [1]}, 5)
    with pytest.raises(InvalidParameterError, match="no annotated cycle"):
        score_segmentation(events([1]), {"A": []}, 5)


def test_timing_is_that_of_the_nearest_maximal_matching():
    score = score_segmentation(events([12, 95, 210]), {"A": [10, 100, 200]}, tolerance=20)
    assert sorted(score.timing_errors) == [-5, 2, 10]
    assert score.timing_bias == pytest.approx(7 / 3)
    assert score.timing_lag == 2
    assert score.timing_spread == pytest.approx((7 + 0 + 8) / 3)
    assert score.timing_error == pytest.approx(17 / 3)
    # Two pairs beat one, even if the one were nearer.
    score = score_segmentation(events([10, 20]), {"A": [0, 10]}, tolerance=10)
    assert score.timing_errors.tolist() == [10, 10]
    # Both detections could stand for the cycle: the nearer one does.
    score = score_segmentation(events([4, 11]), {"A": [10]}, tolerance=10)
    assert score.timing_errors.tolist() == [1]


def test_a_lag_common_to_all_is_bias_alone():
    onsets = np.array([10, 110, 230])
    exact, late = (
        score_segmentation(events(onsets + lag), {"A": onsets}, tolerance=30) for lag in (0, 7)
    )
    assert (exact.timing_bias, exact.timing_error, exact.timing_spread) == (0, 0, 0)
    assert (late.timing_bias, late.timing_error, late.timing_spread) == (7, 7, 0)
    assert (exact.timing_lag, late.timing_lag) == (0, 7)


def test_nothing_found_has_no_timing():
    score = score_segmentation(events([900]), {"A": [10]}, 5)
    timing = score.timing_bias, score.timing_lag, score.timing_error, score.timing_spread
    assert np.isnan(timing).all()


def test_subjects_and_rows_may_come_in_any_order():
    rng = np.random.default_rng(0)
    cycles = {name: np.sort(rng.integers(0, 900, 9)) for name in "ABC"}
    found = pd.concat([events(rng.integers(0, 900, 8), subject=name) for name in "ABC"])
    first = score_segmentation(found, cycles, 40)
    again = score_segmentation(
        found.sample(frac=1, random_state=0), dict(reversed(cycles.items())), 40
    )
    assert (first.sensitivity, first.false_positives) == (again.sensitivity, again.false_positives)
    assert first.timing_error == pytest.approx(again.timing_error)


def test_subjects_without_events_are_named_once():
    found = events([10, 90], np.array([1.0, 2.0])).assign(atom=0)
    cycles = {"A": [10, 90], "B": [5], "C": [5], "D": []}
    message = r"2 of 4 subjects .* no event: B, C\. Their cycles count as missed"
    with pytest.warns(MissingEventsWarning, match=message):
        score = score_segmentation(found, cycles, 5)
    assert score.sensitivity == 0.5
    with pytest.warns(MissingEventsWarning, match=message) as sent:
        trace_trade_off(found, cycles, 5)
    assert len(sent) == 1


def test_a_score_is_shown_in_a_line():
    score = score_segmentation(events([10, 50]), {"A": [10, 90]}, 5)
    assert repr(score) == (
        "Segmentation(sensitivity 0.500, false positives 0.500 per cycle; 1 of 2 cycles found, "
        "2 detections)"
    )
