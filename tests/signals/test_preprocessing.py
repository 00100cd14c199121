"""Resampling, filtering and scaling: what they do to signals, and that they are written down."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from percdl import Cohort
from percdl.exceptions import InvalidParameterError, InvalidRecordingError

RATES = st.sampled_from([50, 64, 100, 128, 250, 360.5])


def tone(frequency, sfreq, n_seconds=20.0, phase=0.3):
    return np.sin(2 * np.pi * frequency * np.arange(int(n_seconds * sfreq)) / sfreq + phase)


def cohort_of(*signals, sfreq=100, **labels):
    return Cohort.from_arrays(list(signals), sfreq=sfreq, **labels)


def inner(values, margin=0.15):
    """Cut both ends off, where filters have to guess what came before."""
    cut = int(margin * len(values))
    return values[cut : len(values) - cut]


# Resampling


@given(RATES, RATES, st.floats(0.02, 0.35), st.floats(0, 6))
def test_a_tone_below_both_nyquist_rates_stays_the_same_tone(before, after, share, phase):
    frequency = share * min(before, after)
    resampled = cohort_of(tone(frequency, before, phase=phase), sfreq=before).resample(after)
    assert resampled.sfreq == after
    values = resampled[0].values[:, 0]
    assert len(values) == pytest.approx(20 * after, abs=2)
    expected = np.sin(2 * np.pi * frequency * np.arange(len(values)) / after + phase)
    np.testing.assert_allclose(inner(values), inner(expected), atol=5e-3)


def test_a_tone_above_the_new_nyquist_rate_is_removed_not_folded():
    resampled = cohort_of(tone(35, 100)).resample(50)
    assert np.abs(inner(resampled[0].values)).max() < 2e-3


@given(arrays(np.float64, (40, 2), elements=st.floats(-10, 10)), RATES)
def test_resampling_to_its_own_rate_changes_nothing(values, sfreq):
    cohort = cohort_of(values, sfreq=sfreq)
    assert cohort.resample(sfreq) == cohort
    assert cohort.resample(sfreq).processing == ()


@given(st.floats(-100, 100), st.floats(-10, 10), RATES, RATES)
def test_lines_are_resampled_exactly(level, slope, before, after):
    line = level + slope * np.arange(int(before)) / before
    values = cohort_of(line, sfreq=before).resample(after)[0].values[:, 0]
    expected = level + slope * np.arange(len(values)) / after
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("after", [50, 200])
def test_what_a_hole_touches_is_missing_and_the_rest_is_untouched(after):
    whole = tone(3, 100, 10)
    holed = whole.copy()
    holed[400:403] = np.nan
    full = cohort_of(whole).resample(after)[0].values[:, 0]
    with_hole = cohort_of(holed).resample(after)[0].values[:, 0]
    missing = np.isnan(with_hole)
    np.testing.assert_array_equal(with_hole[~missing], full[~missing])
    seconds = np.flatnonzero(missing) / after
    assert seconds.min() >= 4.0 - 10 / min(after, 100) - 1e-9
    assert seconds.max() <= 4.02 + 10 / min(after, 100) + 1e-9
    assert missing[int(4.01 * after)]


def test_precision_and_all_missing_channels_are_kept():
    values = np.stack([tone(3, 100), np.full(2000, np.nan)], 1).astype(np.float32)
    resampled = cohort_of(values).resample(50)[0]
    assert resampled.values.dtype == np.float32
    assert resampled.mask.all(0).tolist() == [True, False]


@pytest.mark.parametrize("sfreq", [0, -1, np.nan, np.inf, 1e7])
def test_rates_that_cannot_be(sfreq):
    with pytest.raises((InvalidParameterError, InvalidRecordingError), match="resample"):
        cohort_of(np.zeros(100)).resample(sfreq)


# Band-pass


@pytest.mark.parametrize(
    ("low", "high", "kept", "removed"),
    [(2, 10, [4, 5], [0.3, 30]), (None, 10, [1, 4], [30]), (5, None, [15, 30], [0.5])],
)
def test_tones_inside_the_band_pass_without_delay_and_others_do_not(low, high, kept, removed):
    for frequency in kept:
        passed = cohort_of(tone(frequency, 100)).bandpass(low, high)[0].values[:, 0]
        np.testing.assert_allclose(inner(passed), inner(tone(frequency, 100)), atol=0.02)
    for frequency in removed:
        stopped = cohort_of(tone(frequency, 100)).bandpass(low, high)[0].values
        assert np.abs(inner(stopped)).max() < 0.02


def test_the_gain_at_an_edge_is_one_half():
    passed = cohort_of(tone(10, 100)).bandpass(None, 10)[0].values[:, 0]
    np.testing.assert_allclose(inner(passed), 0.5 * inner(tone(10, 100)), atol=0.01)


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_filtering_is_linear(a, b):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 200))
    filtered = [cohort_of(z).bandpass(1, 20)[0].values for z in (x, y, a * x + b * y)]
    np.testing.assert_allclose(filtered[2], a * filtered[0] + b * filtered[1], atol=1e-9)


def test_runs_between_holes_are_filtered_by_themselves():
    x = np.random.default_rng(0).standard_normal(400)
    x[200:203] = np.nan
    filtered = cohort_of(x).bandpass(1, 20)[0].values[:, 0]
    assert np.flatnonzero(np.isnan(filtered)).tolist() == [200, 201, 202]
    alone = cohort_of(x[203:]).bandpass(1, 20)[0].values[:, 0]
    np.testing.assert_array_equal(filtered[203:], alone)


def test_short_pieces_name_the_subject():
    x = np.zeros(100)
    x[10] = np.nan
    cohort = cohort_of(x, subjects=["Ada"], channels=["gyro"])
    with pytest.raises(InvalidRecordingError, match=r"'Ada'.*'gyro' has 10 sample.*more than 27"):
        cohort.bandpass(1, 20)


@pytest.mark.parametrize(
    ("low", "high", "order"),
    [
        (None, None, 4),
        (0, 10, 4),
        (10, 5, 4),
        (1, 50, 4),
        (60, None, 4),
        (None, -1, 4),
        (1, 20, 0),
    ],
)
def test_bands_that_cannot_be(low, high, order):
    with pytest.raises(InvalidParameterError, match="bandpass"):
        cohort_of(np.zeros(100)).bandpass(low, high, order=order)


# Z-scores


@given(
    arrays(np.float64, (30, 3), elements=st.floats(-1e3, 1e3)).filter(
        lambda x: (x.std(0) > 1e-3).all()
    )
)
def test_z_scores_have_mean_zero_and_unit_spread(values):
    values[3, 0] = np.nan
    scaled = cohort_of(values).zscore()[0].values
    np.testing.assert_allclose(np.nanmean(scaled, 0), 0, atol=1e-9)
    np.testing.assert_allclose(np.nanstd(scaled, 0), 1, rtol=1e-9)
    assert np.isnan(scaled).sum() == 1


@given(arrays(np.float64, (30, 3), elements=st.floats(-1e3, 1e3)).filter(lambda x: x.std() > 1e-3))
def test_one_scale_keeps_proportions_between_channels(values):
    scaled = cohort_of(values).zscore(per="recording")[0].values
    centred = values - values.mean(0)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(np.mean(scaled**2), 1, rtol=1e-9)
    np.testing.assert_allclose(scaled * np.sqrt(np.mean(centred**2)), centred, atol=1e-9)


@given(st.floats(0.01, 100), st.floats(-100, 100))
def test_scale_and_level_do_not_matter(scale, level):
    x = np.random.default_rng(0).standard_normal((50, 2))
    np.testing.assert_allclose(
        cohort_of(scale * x + level).zscore()[0].values, cohort_of(x).zscore()[0].values, atol=1e-9
    )


def test_flat_and_empty_channels_name_the_subject():
    flat = np.stack([np.arange(9.0), np.full(9, 0.1)], 1)
    cohort = cohort_of(flat, subjects=["Ada"], channels=["x", "y"])
    with pytest.raises(InvalidRecordingError, match=r"'Ada': channel 'y' is constant.*per='rec"):
        cohort.zscore()
    assert np.abs(cohort.zscore(per="recording")[0].values[:, 1]).max() < 1e-12
    with pytest.raises(InvalidRecordingError, match="'Ada': channel 'x' is constant"):
        cohort_of(flat[:, 1], subjects=["Ada"], channels=["x"]).zscore(per="recording")
    flat[:, 1] = np.nan
    with pytest.raises(InvalidRecordingError, match="'Ada': channel 'y' is missing"):
        cohort_of(flat, subjects=["Ada"], channels=["x", "y"]).zscore()
    with pytest.raises(InvalidParameterError, match=r"zscore\(per='subject'\)"):
        cohort.zscore(per="subject")


def test_z_scores_are_counted_in_standard_deviations():
    cohort = cohort_of(np.arange(9.0), units="deg/s")
    assert cohort.zscore().units == ("SD",)
    assert cohort.resample(50).units == ("deg/s",)


# What was done is written down


STEPS = (
    "resampled from 200 to 100 Hz",
    "band-pass 0.5 to 20 Hz, Butterworth order 4, zero phase",
    "z-scored per channel",
)


@pytest.fixture
def treated():
    """Return six recordings of 200 Hz, resampled, filtered and scaled."""
    signals = np.random.default_rng(0).standard_normal((6, 400))
    cohort = Cohort.from_arrays(signals, sfreq=200, groups=["a", "b"] * 3)
    return cohort.resample(100).bandpass(0.5, 20).zscore()


def test_steps_are_recorded_in_order(treated):
    assert treated.processing == STEPS
    assert treated[0].processing == STEPS
    assert "; ".join(STEPS) in repr(treated)
    assert "; ".join(STEPS) in repr(treated[0])


def test_steps_survive(treated):
    train, test = treated.split(random_state=0)
    for kept in (
        treated[:2],
        treated[[0, 3]],
        treated.select(["1"]),
        treated.select(group="a"),
        treated.drop(["0"]),
        train,
        test,
        train + test,
        pickle.loads(pickle.dumps(treated)),
        copy.deepcopy(treated),
    ):
        assert kept.processing == STEPS
        assert all(recording.processing == STEPS for recording in kept)


def test_one_edge_is_named_as_such():
    cohort = cohort_of(np.random.default_rng(0).standard_normal(100))
    steps = cohort.bandpass(None, 20, order=2).bandpass(1, None).zscore("recording").processing
    assert steps == (
        "low-pass 20 Hz, Butterworth order 2, zero phase",
        "high-pass 1 Hz, Butterworth order 4, zero phase",
        "z-scored per recording (one scale for all channels)",
    )


def test_steps_of_ones_own_are_recorded():
    cohort = cohort_of(-np.arange(9.0))
    rectified = cohort.apply(np.abs, "rectified")
    assert rectified.processing == ("rectified",)
    assert rectified[0].values.ravel().tolist() == list(range(9))
    in_volts = Cohort.from_arrays([np.ones(3)], units="V")
    assert in_volts.apply(np.log1p, "logarithm").units == ("",)
    assert in_volts.apply(lambda x: 1000 * x, "in mV", units="mV").units == ("mV",)
    with pytest.raises(InvalidParameterError, match=r"'halved' turned values of shape \(9, 1\)"):
        cohort.apply(lambda values: values[::2], "halved")


def test_recordings_of_a_cohort_are_processed_alike():
    raw = cohort_of(np.arange(9.0), subjects=["A"])
    other = cohort_of(np.arange(9.0), subjects=["B"]).zscore()
    with pytest.raises(
        InvalidRecordingError, match="'A' has the processing none and subject 'B' has 'z-scored"
    ):
        _ = raw + other


def test_rates_of_different_devices_may_be_brought_together():
    signals = [np.random.default_rng(0).standard_normal(n) for n in (400, 200, 500)]
    mixed = Cohort.from_arrays(signals, sfreq=[200, 100, 250])
    alike = mixed.resample(100).zscore()
    assert alike.sfreq == 100
    assert alike.processing == (
        "resampled from 200 to 100 Hz",
        "z-scored per channel",
    )
    assert alike["1"].processing == ("z-scored per channel",)
