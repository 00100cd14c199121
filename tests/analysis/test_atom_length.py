"""Periods are found whatever the shape of a cycle; multiples of the period are not."""

import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose, assert_array_equal

from percdl import Cohort, suggest_atom_length
from percdl.exceptions import InvalidRecordingError, UnclearPeriodWarning
from percdl.plotting import plot_atom_length


def test_order_and_units_play_no_part():
    recordings = [toy.cycles(period, period) for period in range(40, 60, 2)]
    base = suggest_atom_length(recordings)
    assert suggest_atom_length(recordings[::-1]).length == base.length
    scaled = suggest_atom_length([1e3 * x for x in recordings])
    assert_array_equal(scaled.periods, base.periods)
    assert_allclose(scaled.strengths, base.strengths)


def test_seconds_follow_the_sampling_rate():
    recordings = [toy.cycles(50, seed) for seed in range(3)]
    found = suggest_atom_length(Cohort.from_arrays(recordings, sfreq=100))
    assert found.seconds == found.length / 100
    assert found.period == pytest.approx(50, abs=2)
    assert 0.5 < found.confidence <= 1
    assert "3 of 3 subjects" in repr(found)


def test_missing_samples_do_not_hide_the_period():
    x = toy.cycles(40)
    x[np.random.default_rng(0).random(len(x)) < 0.2] = np.nan
    found = suggest_atom_length([x])
    assert found.period == pytest.approx(40, abs=2)
    assert 0.8 * found.period <= found.length <= found.period


def test_noise_is_called_unclear():
    rng = np.random.default_rng(0)
    with pytest.warns(UnclearPeriodWarning, match="choose `atom_length` yourself"):
        suggest_atom_length(rng.standard_normal((3, 400)))


def test_no_repetition_is_an_error():
    with pytest.raises(InvalidRecordingError, match="None of the 2 recordings repeats itself"):
        suggest_atom_length(np.tile(np.linspace(0, 1, 50), (2, 1)))


def test_the_picture_shows_the_length():
    found = suggest_atom_length([toy.cycles(period, period) for period in range(40, 60, 2)])
    ax = plot_atom_length(found)
    assert ax.get_xlabel() == "period (s)"
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert any(f"{found.length} samples" in text for text in texts)
