"""Detections are matched with annotations one to one."""

import numpy as np
import pandas as pd
import pytest

from percdl.analysis import score_events, trace_trade_off
from percdl.exceptions import InvalidParameterError, MissingEventsWarning


def events(onsets, amplitude=1.0, subject="A"):
    return pd.DataFrame({"subject": subject, "onset_sample": onsets, "amplitude": amplitude})


def test_the_truth_is_perfect():
    cycles = {"A": [10, 90, 170], "B": [5]}
    found = pd.concat([events(cycles["A"]), events(cycles["B"], subject="B")])
    score = score_events(found, cycles, tolerance=0)
    assert (score.sensitivity, score.false_positives) == (1, 0)


def test_a_detection_counts_once():
    score = score_events(events([50]), {"A": [40, 60]}, tolerance=20)
    assert score.sensitivity == 0.5
    score = score_events(events([40, 60]), {"A": [50]}, tolerance=20)
    assert (score.sensitivity, score.false_positives) == (1, 1)


def test_faint_detections_are_left_out():
    found = events([10, 500], amplitude=np.array([1.0, 0.001]))
    assert score_events(found, {"A": [10]}, 5).false_positives == 1
    assert score_events(found, {"A": [10]}, 5, least_amplitude=0.02).false_positives == 0


def test_nothing_detected_is_nothing_found():
    assert score_events(events([]), {"A": [10]}, 5).sensitivity == 0


def test_bad_tables_are_named():
    with pytest.raises(InvalidParameterError, match="no column 'onset_sample'"):
        score_events(pd.DataFrame({"subject": ["A"]}), {"A": [1]}, 5)
    with pytest.raises(InvalidParameterError, match="no annotation"):
        score_events(events([1]), {"A": []}, 5)


def test_timing_is_that_of_the_nearest_maximal_matching():
    score = score_events(events([12, 95, 210]), {"A": [10, 100, 200]}, tolerance=20)
    assert sorted(score.timing_errors) == [-5, 2, 10]
    assert score.timing_bias == pytest.approx(7 / 3)
    assert score.timing_lag == 2
    assert score.timing_spread == pytest.approx((7 + 0 + 8) / 3)
    assert score.timing_error == pytest.approx(17 / 3)
    # Two pairs beat one, even if the one were nearer.
    score = score_events(events([10, 20]), {"A": [0, 10]}, tolerance=10)
    assert score.timing_errors.tolist() == [10, 10]
    # Both detections could stand for the cycle: the nearer one does.
    score = score_events(events([4, 11]), {"A": [10]}, tolerance=10)
    assert score.timing_errors.tolist() == [1]


def test_a_lag_common_to_all_is_bias_alone():
    onsets = np.array([10, 110, 230])
    exact, late = (
        score_events(events(onsets + lag), {"A": onsets}, tolerance=30) for lag in (0, 7)
    )
    assert (exact.timing_bias, exact.timing_error, exact.timing_spread) == (0, 0, 0)
    assert (late.timing_bias, late.timing_error, late.timing_spread) == (7, 7, 0)
    assert (exact.timing_lag, late.timing_lag) == (0, 7)


def test_nothing_found_has_no_timing():
    score = score_events(events([900]), {"A": [10]}, 5)
    timing = score.timing_bias, score.timing_lag, score.timing_error, score.timing_spread
    assert np.isnan(timing).all()


def test_subjects_and_rows_may_come_in_any_order():
    rng = np.random.default_rng(0)
    cycles = {name: np.sort(rng.integers(0, 900, 9)) for name in "ABC"}
    found = pd.concat([events(rng.integers(0, 900, 8), subject=name) for name in "ABC"])
    first = score_events(found, cycles, 40)
    again = score_events(found.sample(frac=1, random_state=0), dict(reversed(cycles.items())), 40)
    assert (first.sensitivity, first.false_positives) == (again.sensitivity, again.false_positives)
    assert first.timing_error == pytest.approx(again.timing_error)


def test_subjects_without_events_are_named_once():
    found = events([10, 90], np.array([1.0, 2.0])).assign(atom=0)
    cycles = {"A": [10, 90], "B": [5], "C": [5], "D": []}
    message = r"2 of 4 annotated subjects have no event: B, C\. Their annotations count"
    with pytest.warns(MissingEventsWarning, match=message):
        score = score_events(found, cycles, 5)
    assert score.sensitivity == 0.5
    with pytest.warns(MissingEventsWarning, match=message) as sent:
        trace_trade_off(found, cycles, 5)
    assert len(sent) == 1


def test_a_score_is_shown_in_a_line():
    score = score_events(events([10, 50]), {"A": [10, 90]}, 5)
    assert repr(score) == (
        "Segmentation(sensitivity 0.500, PPV 0.500, F1 0.500; 1 of 2 found, 2 detections)"
    )


def test_each_subject_has_a_row_that_adds_up():
    found = pd.concat([events([10, 52, 90]), events([7], subject="B")])
    score = score_events(found, {"A": [10, 50], "B": [5, 100]}, 5)
    assert score.table["subject"].tolist() == ["A", "B"]
    assert score.table["sensitivity"].tolist() == [1, 0.5]
    assert score.table["ppv"].tolist() == [2 / 3, 1]
    assert score.table["f1"].tolist() == pytest.approx([0.8, 2 / 3])
    assert score.table["timing_bias"].tolist() == [1, 2]
    assert score.f1 == pytest.approx(2 / (1 / score.sensitivity + 1 / score.ppv))
    assert score.timing_sd == pytest.approx(np.std([0, 2, 2], ddof=1))


def test_durations_compare_seconds_whatever_the_rates():
    found = events([100, 250]).assign(onset_seconds=[1.0, 2.5])
    marks = pd.DataFrame({"subject": "A", "sample": [410, 1000], "seconds": [1.025, 2.5]})
    score = score_events(found, marks, "30ms")
    assert (score.n_found, score.timing_bias) == (2, pytest.approx(-0.0125))
    assert score_events(found, marks, "20ms").n_found == 1


def test_a_frame_scores_as_its_samples_do():
    found, marks = events([12, 95, 210]), pd.DataFrame({"subject": "A", "sample": [10, 100, 200]})
    one, other = (score_events(found, x, 20) for x in (marks, {"A": [10, 100, 200]}))
    pd.testing.assert_frame_equal(one.table, other.table)
    assert score_events(found, found, 0).f1 == 1


@pytest.mark.parametrize("lag", [-30, 0, 30])
def test_the_common_lag_is_found(lag):
    rng = np.random.default_rng(0)
    true = np.cumsum(rng.integers(80, 120, 50))
    found = events(np.append(true + lag + rng.integers(-2, 3, 50), [3, 900]))
    score = score_events(found, {"A": true}, 10, lag="auto")
    assert score.sensitivity == 1
    assert abs(score.timing_bias) < 1
    given = score_events(found, {"A": true}, 10, lag=lag)
    assert given.n_found == score.n_found


def test_events_outside_the_annotated_part_can_be_left_out():
    found, cycles = events([0, 100, 150, 200, 300]), {"A": [100, 200]}
    assert score_events(found, cycles, 5).ppv == 0.4
    assert score_events(found, cycles, 5, between=True).ppv == 2 / 3


def test_missing_times_do_not_count():
    found = {"A": [10, np.nan, 50]}
    frame = pd.DataFrame({"subject": "A", "onset_sample": found["A"]})
    marks = pd.DataFrame({"subject": "A", "sample": [10, 50, np.nan]})
    for given in (found, frame):
        for true in (marks, {"A": [np.nan, 10, 50]}):
            score = score_events(given, true, 5, between=True)
            assert (score.n_cycles, score.n_detections, score.n_found) == (2, 2, 2)
    score = score_events(events([10]), {"A": [10, np.nan]}, 5, lag="auto")
    assert score.f1 == 1
    with pytest.raises(InvalidParameterError, match="There is no annotation"):
        score_events(events([1]), {"A": [np.nan]}, 5)


def test_subjects_that_never_match_are_named():
    found, true = events([10], subject="007").assign(atom=0), {"7": [10], "8": [20]}
    message = "Events are of '007', but annotations of '7', '8'"
    for score in (score_events, trace_trade_off):
        with pytest.raises(InvalidParameterError, match=message):
            score(found, true, 5)
    assert score_events(events([]), true, 5).n_found == 0


def test_a_trade_off_goes_on_where_only_others_are_left():
    others = events([10, 20], np.array([1.0, 9.0]), subject="C")
    found = pd.concat([events([10]), others]).assign(atom=0)
    curve = trace_trade_off(found, {"A": [10]}, 5, thresholds=[0, 1.5])
    assert curve["sensitivity"].tolist() == [1, 0]


def test_seconds_are_not_compared_with_samples():
    with pytest.raises(InvalidParameterError, match="mapping of subject to times holds samples"):
        score_events(events([10]), {"A": [10]}, "50ms")
