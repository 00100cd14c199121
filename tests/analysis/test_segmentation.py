"""Detections are matched with annotations one to one."""

import numpy as np
import pandas as pd
import pytest

from percdl.analysis import score_segmentation
from percdl.exceptions import InvalidParameterError


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
