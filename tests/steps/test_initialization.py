"""The first dictionary holds the patterns that recur, for any order of subjects."""

from itertools import cycle

import jax.numpy as jnp
import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose, assert_array_equal

from percdl import Cohort, make_synthetic
from percdl.estimators.start import first_dictionary
from percdl.steps.csc import L0Coder
from percdl.steps.initialization import (
    choose_segments,
    cut_segments,
    draw_shapes,
    mean_shares,
    propose_windows,
)
from percdl.steps.types import Signals

LENGTH, N_TIMES, SPACING = 16, 160, 24
N_CANDIDATES = 96
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
    assert_array_equal(np.unique(windows, axis=0), [[0, 0, LENGTH]])


def distinct(recordings, share=1.0, seed=0):
    rng = np.random.default_rng(seed)
    windows = propose_windows(as_signals(recordings), LENGTH, rng, share)
    assert len(windows) == N_CANDIDATES
    return np.unique(windows, axis=0)


def noises(n_recordings, n_times=4000, seed=0):
    return list(np.random.default_rng(seed).standard_normal((n_recordings, n_times, 1)))


@pytest.mark.parametrize("n_recordings", [1, 3, 5])
def test_recordings_have_the_same_number_of_candidates(n_recordings):
    """No window comes twice where there are enough, and none lies near another."""
    rows, starts, _ = distinct(noises(n_recordings)).T
    quota = -(-N_CANDIDATES // n_recordings)
    counts = np.bincount(rows)
    assert counts.max() == quota
    assert counts.min() >= quota - n_recordings  # a few of all, evenly, if there are too many
    starts = np.split(starts, np.cumsum(counts)[:-1])
    gaps = np.concatenate([np.diff(some) for some in starts])
    assert LENGTH // 2 <= gaps.min() < LENGTH


@pytest.mark.parametrize(("share", "n_windows"), [(0.5, N_CANDIDATES // 2), (1e-6, 1)])
def test_a_share_of_the_candidates_is_drawn(share, n_windows):
    some, others = (distinct(noises(1), share, seed) for seed in (0, 1))
    assert len(some) == len(others) == n_windows
    assert (some != others).any()


def test_louder_windows_are_drawn_more_often():
    loud = np.where(np.arange(4000)[:, None] // 400 % 2, 1, 10)
    starts = distinct([loud * x for x in noises(1)])[:, 1]
    assert np.mean(loud[starts + LENGTH // 2] > 1) > 0.9


def test_the_units_of_recordings_play_no_part():
    recordings = [*noises(2, 100), np.zeros((100, 1))]
    tiny = [2.0**-20 * x for x in recordings]
    assert_array_equal(distinct(tiny), distinct(recordings))
    signals, small = as_signals(recordings), as_signals(tiny)
    windows = np.array([[0, 10, LENGTH], [1, 20, LENGTH], [2, 5, LENGTH]])
    segments = cut_segments(signals, windows, LENGTH)
    assert_array_equal(cut_segments(small, windows, LENGTH), segments)
    assert_allclose(np.linalg.norm(segments, axis=(1, 2)), [1, 1, 0])


def test_shares_are_averaged_over_the_recordings_that_are_not_silent():
    """Half a recording is explained by its one hump; all of another one by its own."""
    hump = HUMP / np.linalg.norm(HUMP)
    pair = np.concatenate([hump, -hump])
    recordings = [2.0**-10 * pair, np.zeros_like(pair), 2.0**-10 * np.tile(hump, (2, 1))]
    atoms = np.stack([hump, -hump])[:, None].astype(np.float32)
    signals = as_signals(recordings)
    signals = signals._replace(values=signals.values.astype(np.float32))
    shares = mean_shares(signals, jnp.asarray(atoms), jnp.zeros(()), L0Coder())
    assert_allclose(shares, [0.75, 0.25], atol=1e-6)
    silent = signals._replace(values=0 * signals.values)
    assert_array_equal(mean_shares(silent, jnp.asarray(atoms), jnp.zeros(()), L0Coder()), 0)


def test_no_window_around_the_winner_explains_more():
    rng = np.random.default_rng(1)
    recordings = [recording(rng, HUMP, WAVE, noise=0.3) for _ in range(3)]
    found = choose(recordings, 1)[0]
    signals = as_signals(recordings)
    last = N_TIMES - LENGTH
    rows, starts = np.divmod(np.arange(3 * (last + 1)), last + 1)
    everywhere = np.stack([rows, starts, np.full_like(rows, LENGTH)], axis=1)
    segments = cut_segments(signals, everywhere, LENGTH)
    row, start, _ = everywhere[np.abs(segments - found).max((1, 2)).argmin()]
    near = np.arange(max(0, start - LENGTH // 2), min(last, start + LENGTH // 2) + 1)
    beside = np.stack([0 * near + row, near, 0 * near + LENGTH], axis=1)
    around = cut_segments(signals, beside, LENGTH)
    candidates = jnp.asarray(np.concatenate([found[None], around]))[:, None]
    shares = np.asarray(mean_shares(signals, candidates, 0.1, L0Coder()))
    assert shares[0] >= shares.max() - 1e-6
    first = propose_windows(signals, LENGTH, np.random.default_rng(0))
    assert not (first[:, :2] == [row, start]).all(1).any()  # it was not among the loudest


def test_the_only_window_of_a_short_recording_is_chosen():
    assert_allclose(choose([HUMP], 1)[0], HUMP / np.linalg.norm(HUMP), atol=1e-6)


@pytest.mark.parametrize("n_channels", [1, 3])
def test_shapes_out_of_nothing_are_smooth_and_fade(n_channels):
    shapes = draw_shapes(200, LENGTH, n_channels, np.random.default_rng(0))
    assert shapes.shape == (200, LENGTH, n_channels)
    assert_allclose((shapes**2).sum((1, 2)), 1)
    power = (shapes**2).sum(2).mean(0)
    assert power[[0, -1]].max() < 0.5 * power[LENGTH // 4 : -LENGTH // 4].min()
    steps = (np.diff(shapes, axis=1) ** 2).sum((1, 2))
    assert np.median(steps) < 0.5  # of white noise: 2
    # Before they fade they have no mean.
    fade = np.sqrt(np.hanning(LENGTH + 2)[1:-1])[:, None]
    assert_allclose((shapes / fade).sum(1), 0, atol=1e-12)
    # Channels differ in size and sign alone.
    assert_allclose(np.linalg.svd(shapes, compute_uv=False)[:, 1:], 0, atol=1e-12)


@pytest.mark.parametrize("length", [16, 64])
def test_shapes_are_as_coarse_or_fine_whatever_their_length(length):
    shapes = draw_shapes(200, length, 1, np.random.default_rng(0))[..., 0]
    crossings = (np.diff(np.sign(shapes), axis=1) != 0).sum(1)
    assert np.median(crossings) == 2
    assert crossings.min() == 1
    assert 5 <= crossings.max() <= 12
