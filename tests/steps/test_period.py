"""Periods from autocorrelations: found whatever the shape of a cycle, and agreed on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from toy import cycles

from percdl.steps.period import agree_on_length, autocorrelate, estimate_periods, find_intervals


@given(st.integers(20, 120), st.integers(0, 10_000), st.integers(1, 3))
def test_the_period_is_found(period, seed, n_channels):
    recordings = [cycles(period, seed + s, n_channels=n_channels) for s in range(3)]
    found = estimate_periods(recordings).period
    assert abs(np.median(found) / period - 1) < 0.05


def test_multiples_are_outvoted():
    # Two of nine limp: every other cycle is faint, and twice the period is their own proposal.
    limp = np.where(np.arange(600)[:, None] // 40 % 2, 0.2, 1)
    recordings = [cycles(40, seed) for seed in range(7)]
    recordings += [limp * cycles(40, seed) for seed in (7, 8)]
    assert_allclose(estimate_periods(recordings[7:]).period, 80, atol=4)
    assert_allclose(estimate_periods(recordings).period, 40, atol=4)


def spikes(intervals, n_times=2000, seed=0):
    """Return pulses at these intervals, with a little noise."""
    rng, time = np.random.default_rng(seed), np.arange(n_times)[:, None]
    onsets = 10 + np.cumsum(intervals)
    pulses = np.exp(-0.5 * ((time - onsets) / 3) ** 2).sum(1, keepdims=True)
    return pulses + 0.02 * rng.standard_normal((n_times, 1))


def test_people_far_from_the_vote_keep_their_own_period():
    paces = (100, 104, 96, 102, 98, 50, 45, 240)
    periods = estimate_periods([spikes(np.full(40, pace)) for pace in paces]).period
    assert_allclose(periods, paces, atol=1)


def test_intervals_are_found_one_by_one():
    intervals = np.random.default_rng(0).normal(100, 8, 18).round()
    found = find_intervals(spikes(intervals), 100)
    assert_allclose(np.sort(found), np.sort(intervals[1:]), atol=2)


def test_a_length_for_people_who_are_alike_leaves_room_for_their_short_cycles():
    rng = np.random.default_rng(0)
    every = [rng.normal(100, 6, 18) for _ in range(6)]
    recordings = [spikes(intervals, seed=s) for s, intervals in enumerate(every)]
    periods = estimate_periods(recordings).period
    before, after = agree_on_length(periods), agree_on_length(periods, recordings)
    lost = [np.mean(np.concatenate(every) < length) for length in (before, after)]
    assert lost[0] > 0.15
    assert lost[1] < 0.05
    assert agree_on_length(periods[:1], recordings[:1]) < periods[0]


def test_autocorrelation_is_the_naive_one():
    x = cycles(20, n_times=50, n_channels=2)
    x[5:8, 0] = np.nan
    centred = x - np.nanmean(x, axis=0)
    expected = []
    for lag in range(26):
        early, late = centred[: 50 - lag], centred[lag:]
        both = np.isfinite(early) & np.isfinite(late)
        early, late = np.where(both, early, 0), np.where(both, late, 0)
        expected.append((early * late).sum() / np.sqrt((early**2).sum() * (late**2).sum()))
    assert_allclose(autocorrelate(x), expected, atol=1e-9)


def test_length_leaves_room_for_nearly_all_cycles():
    periods = np.arange(100.0, 140.0)
    length = agree_on_length(np.append(periods, np.nan))
    assert 0.02 < np.mean(periods < length) < 0.1
    assert agree_on_length(np.full(3, np.nan)) is None


def test_units_and_channels_that_say_nothing_play_no_part():
    """A channel never seen, and one seen once, have nothing that varies."""
    x = cycles(20, n_times=60)
    dumb = np.full((60, 2), np.nan)
    dumb[7, 1] = 5.0
    expected = autocorrelate(x)
    assert_allclose(autocorrelate(np.concatenate([x, dumb], axis=1)), expected, atol=1e-9)
    assert_allclose(autocorrelate(2.0**-20 * x), expected, atol=1e-9)


def test_lags_at_which_nothing_was_seen_twice_have_no_correlation():
    x = cycles(10, n_times=200)
    x[30:] = np.nan
    found = autocorrelate(x)
    assert_array_equal(found[30:], 0)
    assert_allclose(found[0], 1)
    assert np.abs(found[1:29]).max() > 0.3


def test_without_cycles_there_is_no_period():
    silent, cyclic = np.ones((100, 1)), cycles(20, n_times=200)
    period, strength = estimate_periods([silent, silent])
    assert_array_equal(period, [np.nan, np.nan])
    assert_array_equal(strength, [0, 0])
    period, strength = estimate_periods([silent, cyclic])
    assert np.isnan(period[0])
    assert strength[0] == 0
    assert abs(period[1] - 20) < 2
    assert_allclose(strength[1], autocorrelate(cyclic)[int(period[1])])


def test_low_peaks_before_the_period_do_not_count():
    """Three bumps in a cycle: at a third of the period the correlation has a low peak."""
    time = 2 * np.pi * np.arange(400)[:, None] / 40
    bumps = np.sin(time) + 0.8 * np.sin(3 * time)
    assert autocorrelate(bumps)[11:16].max() > 0.05
    assert_allclose(estimate_periods([bumps]).period, 40, atol=1)


@pytest.mark.parametrize("ratio", [0.75, 0.7, 0.667])
@pytest.mark.parametrize("change", [0.4, 0.5])
def test_a_change_of_pace_does_not_give_a_common_multiple(ratio, change):
    rng, recordings = np.random.default_rng(0), []
    for slow in (110, 120, 130):
        paces = np.where(np.arange(34) < 34 * change, slow, ratio * slow)
        recordings.append(bumps_at(paces * rng.normal(1, 0.02, 34)))
    low, high = (ratio + 1) / 2 * 105, (ratio + 1) / 2 * 135
    found = estimate_periods(recordings).period
    assert ((low <= found) & (found <= high)).all()


def bumps_at(durations):
    """Return a recording of bumps and troughs that last as long as given."""
    phases = [np.arange(round(n)) / round(n) for n in durations]
    shape = [
        np.exp(-(((u - 0.3) / 0.1) ** 2)) - 0.7 * np.exp(-(((u - 0.65) / 0.12) ** 2))
        for u in phases
    ]
    return np.concatenate(shape)[:, None]
