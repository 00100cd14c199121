"""The first dictionary holds the patterns that recur, whoever comes first."""

from itertools import cycle

import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose, assert_array_equal

from percdl import Cohort, make_synthetic
from percdl.estimators.first_dictionary import first_dictionary
from percdl.steps.csc import L0Coder
from percdl.steps.initialization import (
    choose_segments,
    cut_segments,
    draw_shapes,
    propose_windows,
)
from percdl.steps.types import Signals

LENGTH, N_TIMES, SPACING = 16, 160, 24
HUMP = np.hanning(LENGTH)[:, None]
WAVE = np.sin(np.linspace(0, 4 * np.pi, LENGTH))[:, None]


def recording(rng, *patterns, noise=0.02):
    """Return (n, 1) noise with the patterns in turn."""
    x = noise * rng.standard_normal((N_TIMES, 1))
    onsets = range(int(rng.integers(0, 8)), N_TIMES - LENGTH + 1, SPACING)
    for onset, pattern in zip(onsets, cycle(patterns), strict=False):
        x[onset : onset + LENGTH] += pattern
    return x


def as_signals(recordings):
    lengths = np.array([len(x) for x in recordings], np.int32)
    values = np.zeros((len(recordings), lengths.max(), 1))
    for row, x in enumerate(recordings):
        values[row, : len(x)] = x
    return Signals(values, lengths, None)


def choose(recordings, n_atoms, seed=0, **options):
    rng = np.random.default_rng(seed)
    signals = as_signals(recordings)
    return choose_segments(signals, n_atoms, LENGTH, 0.1, L0Coder(), rng, **options)


def similarity(atom, pattern):
    return float(np.sum(atom * pattern) / np.linalg.norm(atom) / np.linalg.norm(pattern))


@pytest.mark.parametrize("seed", range(3))
def test_candidates_hold_the_pattern_in_the_middle(seed):
    rng = np.random.default_rng(seed)
    signals = as_signals([recording(rng, HUMP, noise=0.0) for _ in range(4)])
    for segment in cut_segments(signals, propose_windows(signals, LENGTH, rng), LENGTH):
        assert similarity(segment, HUMP) > 0.999
        assert_allclose(np.linalg.norm(segment), 1)


@pytest.mark.parametrize("seed", range(3))
def test_what_everybody_repeats_wins_over_what_one_shouts(seed):
    rng = np.random.default_rng(seed)
    recordings = [recording(rng, HUMP) for _ in range(5)]
    recordings.append(20 * recording(rng, -WAVE))
    found = choose(recordings, 1)[0]
    # A little off its place, perhaps: that is worth a little of the loud recording.
    assert similarity(found, HUMP) > 0.85
    assert abs(similarity(found, WAVE)) < 0.3


@pytest.mark.parametrize("seed", range(3))
def test_the_next_atom_is_what_the_first_leaves(seed):
    rng = np.random.default_rng(seed)
    recordings = [recording(rng, HUMP, WAVE) for _ in range(6)]
    found = choose(recordings, 2)
    by_pattern = np.array([[similarity(atom, p) for p in (HUMP, WAVE)] for atom in found])
    assert (by_pattern.max(0) > 0.97).all()
    assert set(by_pattern.argmax(1)) == {0, 1}


def test_given_atoms_are_kept():
    rng = np.random.default_rng(0)
    recordings = [recording(rng, HUMP, WAVE) for _ in range(6)]
    given = WAVE[None] / np.linalg.norm(WAVE)
    found = choose(recordings, 2, chosen=given)
    assert_array_equal(found[0], given[0])
    assert similarity(found[1], HUMP) > 0.97


def test_short_and_silent_recordings_offer_nothing():
    rng = np.random.default_rng(0)
    signals = as_signals([np.zeros((N_TIMES, 1)), recording(rng, HUMP), np.ones((4, 1))])
    assert set(propose_windows(signals, LENGTH, rng)[:, 0]) == {1}


@pytest.fixture(scope="module")
def cohort():
    return make_synthetic(40, 200, n_repetitions=1, random_state=0).cohort


def start(cohort, seed=0, **options):
    chosen = toy.settings(**options)
    return first_dictionary("auto", cohort, chosen, np.random.RandomState(seed))


def test_the_order_of_subjects_plays_no_part(cohort):
    shuffled = cohort[np.random.default_rng(0).permutation(len(cohort))]
    assert_array_equal(start(shuffled), start(cohort))


def test_units_play_no_part(cohort):
    doubled = Cohort.from_arrays([4 * record.values for record in cohort])
    assert_allclose(start(doubled, penalty=16 * 0.3), start(cohort, penalty=0.3), atol=1e-12)


def test_the_random_state_decides(cohort):
    assert_array_equal(start(cohort, 1), start(cohort, 1))
    assert (start(cohort, 1) != start(cohort, 0)).any()


def test_a_recording_as_long_as_the_atom_is_a_candidate():
    signals = as_signals([HUMP, np.zeros_like(HUMP)])
    windows = propose_windows(signals, LENGTH, np.random.default_rng(0))
    assert_array_equal(np.unique(windows, axis=0), [[0, 0]])


@pytest.mark.parametrize("n_channels", [1, 3])
def test_shapes_out_of_nothing_are_smooth_and_fade(n_channels):
    shapes = draw_shapes(200, LENGTH, n_channels, np.random.default_rng(0))
    assert shapes.shape == (200, LENGTH, n_channels)
    assert_allclose((shapes**2).sum((1, 2)), 1)
    power = (shapes**2).sum(2).mean(0)
    assert power[[0, -1]].max() < 0.5 * power[LENGTH // 4 : -LENGTH // 4].min()
    steps = (np.diff(shapes, axis=1) ** 2).sum((1, 2))
    assert np.median(steps) < 0.5  # of white noise: 2
    # Channels differ in size and sign alone.
    assert_allclose(np.linalg.svd(shapes, compute_uv=False)[:, 1:], 0, atol=1e-12)
