"""Periods are found whatever the shape of a cycle; multiples of the period are not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from percdl import Cohort, suggest_atom_length
from percdl.exceptions import InvalidRecordingError, UnclearPeriodWarning
from percdl.plotting import plot_atom_length
from percdl.steps.period import agree_on_length, autocorrelate, estimate_periods


def cycles(period, seed=0, n_times=600, n_channels=1, noise=0.1):
    """Return repetitions of a random smooth cycle, with amplitudes of their own, and noise."""
    rng = np.random.default_rng(seed)
    phase = np.arange(n_times)[:, None] / period
    harmonics = range(1, 4)
    weights = rng.uniform(0.3, 1, (3, n_channels)) * [[1.5], [0.8], [0.6]]
    offsets = rng.uniform(0, 1, (3, n_channels))
    x = sum(
        w * np.sin(2 * np.pi * (h * phase + o))
        for h, w, o in zip(harmonics, weights, offsets, strict=True)
    )
    loudness = rng.uniform(0.8, 1.2, n_times // 20 + 1).repeat(20)[:n_times, None]
    return x * loudness + noise * rng.standard_normal((n_times, n_channels))


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


def test_order_and_units_play_no_part():
    recordings = [cycles(period, period) for period in range(40, 60, 2)]
    base = suggest_atom_length(recordings)
    assert suggest_atom_length(recordings[::-1]).length == base.length
    scaled = suggest_atom_length([1e3 * x for x in recordings])
    assert_array_equal(scaled.periods, base.periods)
    assert_allclose(scaled.strengths, base.strengths)


def test_length_leaves_room_for_nearly_all_cycles():
    periods = np.arange(100.0, 140.0)
    length = agree_on_length(np.append(periods, np.nan))
    assert 0.02 < np.mean(periods < length) < 0.1
    assert agree_on_length(np.full(3, np.nan)) is None


def test_seconds_follow_the_sampling_rate():
    recordings = [cycles(50, seed) for seed in range(3)]
    found = suggest_atom_length(Cohort.from_arrays(recordings, sfreq=100))
    assert found.seconds == found.length / 100
    assert found.period == pytest.approx(50, abs=2)
    assert 0.5 < found.confidence <= 1
    assert "3 of 3 subjects" in repr(found)


def test_missing_samples_do_not_hide_the_period():
    x = cycles(40)
    x[np.random.default_rng(0).random(len(x)) < 0.2] = np.nan
    assert suggest_atom_length([x]).length == pytest.approx(40, abs=2)


def test_noise_is_called_unclear():
    rng = np.random.default_rng(0)
    with pytest.warns(UnclearPeriodWarning, match="choose `atom_length` yourself"):
        suggest_atom_length(rng.standard_normal((3, 400)))


def test_no_repetition_is_an_error():
    with pytest.raises(InvalidRecordingError, match="None of the 2 recordings repeats itself"):
        suggest_atom_length(np.tile(np.linspace(0, 1, 50), (2, 1)))


def test_the_picture_shows_the_length():
    found = suggest_atom_length([cycles(period, period) for period in range(40, 60, 2)])
    ax = plot_atom_length(found)
    assert ax.get_xlabel() == "period (s)"
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert any(f"{found.length} samples" in text for text in texts)
