"""An atom whose window is off by one is moved; one that is not is left alone."""

import numpy as np
import pytest
from double import in_double
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from percdl.steps.windows import (
    MOVES,
    elect_windows,
    move_windows,
    prefer_windows,
    settle_windows,
    window_variance,
)

L, MARGIN = 20, 4


def profile(off: int, level: float = 0.0) -> np.ndarray:
    """Return the energy of a pattern that ends in silence, seen through a window ``off`` it."""
    energy = np.full(L + 2 * MARGIN, level)
    first = MARGIN - off
    energy[first : first + L] += np.sin(np.pi * np.arange(L) / (L - 1)) ** 2
    return energy


def prefer(energy, seen=True):
    energy = np.atleast_2d(energy)
    return in_double(prefer_windows, energy, np.broadcast_to(seen, energy.shape), L)


@pytest.mark.parametrize("off", [-2, -1, 0, 1, 2])
def test_a_subject_prefers_its_own_window(off):
    vote = prefer(profile(off))[0]
    assert vote.sum() == 1
    assert MOVES[int(vote.argmax())] == -np.sign(off)


def test_patterns_that_do_not_end_in_silence_stay():
    """A gait cycle is cut out of an ongoing signal: its ends are as loud as their neighbours."""
    assert_array_equal(prefer(profile(1, level=0.5)), [[0, 1, 0]])


def test_without_margins_there_is_nowhere_to_go():
    assert_array_equal(
        in_double(prefer_windows, np.ones((3, L)), np.ones((3, L), bool), L), [[0, 1, 0]] * 3
    )


def test_what_was_not_seen_is_not_silent():
    """At the end of a recording the window beside has no samples, and no energy."""
    energy = profile(-1)
    seen = np.arange(L + 2 * MARGIN) < MARGIN + L
    assert_array_equal(prefer(energy), [[0, 0, 1]])
    assert_array_equal(prefer(energy, seen), [[0, 1, 0]])
    hidden = np.arange(L + 2 * MARGIN) != MARGIN
    assert_array_equal(prefer(energy, hidden), [[0, 1, 0]])
    # The window beside ends where the last sample was seen: it may be moved to.
    assert_array_equal(prefer(energy, np.arange(L + 2 * MARGIN) < MARGIN + L + 1), [[0, 0, 1]])


@pytest.mark.parametrize(("lost", "moves"), [(0.0009, True), (0.0011, False)])
def test_a_window_that_loses_energy_inside_is_not_taken(lost, moves):
    """However quiet its ends: at most a thousandth of what the atom has."""
    energy = np.zeros(L + 2 * MARGIN)
    energy[MARGIN], energy[MARGIN + 5] = lost, 1 - lost
    energy[MARGIN - 1] = 1  # no way to the left
    assert_array_equal(prefer(energy), [[0, not moves, moves]])


@pytest.mark.parametrize(("ends", "moves"), [(0.49, True), (0.51, False)])
def test_ends_must_be_half_as_loud_beside(ends, moves):
    energy = np.zeros(L + 2 * MARGIN)
    energy[MARGIN + 5] = 1e6
    energy[MARGIN], energy[MARGIN + L] = 1, ends
    energy[MARGIN - 1] = 1  # no way to the left
    assert_array_equal(prefer(energy), [[0, not moves, moves]])


@given(hnp.arrays(float, (5, L + 2 * MARGIN), elements=st.floats(0, 1e6)))
def test_everyone_prefers_one_window(energy):
    assert_array_equal(prefer(energy).sum(1), 1)


def elect(offsets, noise=0.0, level=0.0, seed=0):
    """Return the move for the mean segment of subjects with these offsets."""
    rng = np.random.default_rng(seed)
    segments = np.sqrt([profile(off) for off in offsets]) + level
    segments = segments + noise * rng.standard_normal(segments.shape)
    weight = np.full((1, L + 2 * MARGIN, 1), float(len(offsets)))
    return elect_windows(segments.sum(0)[None, :, None], weight, np.array([noise**2]), L)[0]


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("off", MOVES)
def test_a_window_follows_the_population(off, noise):
    """One subject does not show it in this noise, a hundred do."""
    assert elect([off] * 100, noise) == -off


def test_noise_alone_moves_no_window():
    moves = [elect([0] * 30, noise=1.0, seed=seed) for seed in range(200)]
    assert np.count_nonzero(moves) <= 4  # three standard errors


def test_a_window_stays_where_ends_are_loud_or_unseen():
    assert elect([1] * 10, level=0.5) == 0
    moment = np.sqrt(profile(-1))[None, :, None]
    weight = np.ones_like(moment)
    assert elect_windows(moment, weight, np.zeros(1), L) == 1
    weight[:, MARGIN + L :] = 0
    assert elect_windows(moment, weight, np.zeros(1), L) == 0
    inner = slice(MARGIN, MARGIN + L)
    assert elect_windows(moment[:, inner], weight[:, inner], np.zeros(1), L) == 0


@given(hnp.arrays(float, (2, L, 3), elements=st.floats(-1, 1)), st.sampled_from(MOVES))
def test_moving_there_and_back_changes_one_end_only(atoms, move):
    there = move_windows(atoms, np.array([move, 0]))
    inside = slice(max(0, -move), L - max(0, move))
    assert_array_equal(there[0, inside], np.roll(atoms[0], -move, axis=0)[inside])
    end = {-1: 0, 0: 0, 1: -1}[move]
    assert_array_equal(there[0, end], atoms[0, end])
    back = move_windows(there, np.array([-move, 0]))
    assert_array_equal(there[1], atoms[1])
    assert_array_equal(back[:, 1:-1], atoms[:, 1:-1])


def arc(off: float, n_channels: int = 1) -> np.ndarray:
    """Return a pattern that begins in silence, read ``off`` samples late; atoms (1, 50, P)."""
    time = np.arange(50) + off
    inside = np.sin(np.pi * time / 49) * ((time >= 0) & (time <= 49))
    return np.stack([inside * (channel + 1) for channel in range(n_channels)], -1)[None]


def settle(atoms, information=1e3, n_subjects=1e9):
    return settle_windows(atoms, np.array([float(information)]), np.array([float(n_subjects)]))


@given(off=st.floats(-0.9, 0.9), n_channels=st.integers(1, 2))
def test_a_fraction_of_a_sample_is_moved_back(off, n_channels):
    """Known exactly by many subjects, the atom returns to where the pattern begins."""
    truth = arc(0, n_channels)
    left = np.abs(settle(arc(off, n_channels)) - truth).max()
    assert left <= 0.05 * np.abs(arc(1, n_channels) - truth).max()


@pytest.mark.parametrize(("information", "n_subjects"), [(1e12, 10), (1e-9, 10), (0, 10), (1, 0)])
def test_windows_stay_where_onsets_are_certain_or_ends_unknown(information, n_subjects):
    assert_allclose(settle(arc(0.4), information, n_subjects), arc(0.4), atol=1e-4)


def test_loud_ends_and_short_atoms_stay():
    """A cycle cut out of an ongoing signal begins nowhere."""
    for atoms in (arc(0.4) + 1, arc(0.4)[:, :7]):
        assert_array_equal(settle(atoms), atoms)


def test_a_settled_atom_turned_around_is_the_turned_atom_settled():
    assert_allclose(settle(arc(0.4)[:, ::-1]), settle(arc(0.4))[:, ::-1], atol=1e-12)


@given(information=st.floats(1e-3, 1e6), n_subjects=st.integers(1, 10_000))
def test_more_subjects_or_less_noise_leave_less_open(information, n_subjects):
    """The variance of a settled window is below that of one onset, and falls with both."""
    atom = arc(0)[0]
    variance = window_variance(atom, information, n_subjects)
    assert 0 < variance < 1
    assert window_variance(atom, information, 2 * n_subjects) < variance
    assert window_variance(atom, 2 * information, n_subjects) < variance
