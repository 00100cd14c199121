"""The trade-off curve of a segmentation."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from percdl.analysis import (
    relative_amplitude,
    score_events,
    sensitivity_at,
    trace_trade_off,
)

CYCLES = {"A": [100, 200, 300, 400], "B": [50, 150]}


def draw_events(seed, n=30):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "subject": rng.choice(["A", "B"], n),
            "atom": 0,
            "onset_sample": rng.integers(0, 500, n),
            "amplitude": rng.lognormal(size=n),
        }
    )


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_both_axes_fall_as_the_threshold_rises(seed):
    curve = trace_trade_off(
        draw_events(seed), CYCLES, tolerance=20, thresholds=np.geomspace(0.1, 9, 8)
    )
    assert (curve["threshold"].diff()[1:] > 0).all()
    assert (curve["sensitivity"].diff()[1:] <= 1e-12).all()
    assert (curve["false_positives"].diff()[1:] <= 1e-12).all()


def test_a_threshold_keeps_what_reaches_it():
    events = draw_events(0)
    curve = trace_trade_off(
        events, CYCLES, 20, thresholds=[0.5, -np.inf], score=events["amplitude"]
    )
    assert curve["threshold"].tolist() == [-np.inf, 0.5]
    for row, kept in zip(curve.itertuples(), (events, events[events["amplitude"] >= 0.5]),
                         strict=True):  # fmt: skip
        score = score_events(kept, CYCLES, 20)
        assert row.sensitivity == score.sensitivity
        assert row.false_positives == score.false_positives
        assert row.timing_error == score.timing_error


def test_amplitudes_are_relative_to_the_subject_and_the_atom():
    events = draw_events(1)
    gains = events["subject"].map({"A": 3.0, "B": 0.2})
    louder = events.assign(amplitude=-events["amplitude"] * gains)
    pd.testing.assert_series_equal(relative_amplitude(louder), relative_amplitude(events))
    medians = relative_amplitude(events).groupby(events["subject"]).median()
    np.testing.assert_allclose(medians, 1)


def test_nothing_detected_is_one_empty_point():
    curve = trace_trade_off(draw_events(0, n=0), CYCLES, 20)
    assert curve[["sensitivity", "false_positives"]].to_numpy().tolist() == [[0, 0]]


def test_best_sensitivity_within_a_budget():
    curve = pd.DataFrame({"sensitivity": [0.99, 0.95, 0.9], "false_positives": [0.05, 0.01, 0.0]})
    assert [sensitivity_at(curve, rate) for rate in (0.1, 0.02, 0.0)] == [0.99, 0.95, 0.9]
    assert sensitivity_at(curve, -1) == 0
    assert sensitivity_at(curve, 0.01) == pytest.approx(0.95)
