"""Onsets that are off by a few samples are found; the alignment behind it is exact."""

from itertools import product

import jax
import numpy as np
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal
from scipy.signal import lfilter

from percdl.steps.ipu import explained_energy
from percdl.steps.realignment import MAX_SPEED, align, best_window, search
from percdl.steps.statistics import at_shift
from percdl.transforms import Free, TimeWarp

B, L, R, N_STEPS = 14, 20, 3, 4
WARP = TimeWarp(2, 4)
SHIFTS = np.arange(-R, R + 1)
REFINEMENT = 2  # short atoms are read in half samples

fast_search = jax.jit(search, static_argnums=(0, 6, 7))
fast_window = jax.jit(best_window, static_argnums=0)
fast_align = jax.jit(align)


def an_atom():
    time = np.linspace(0, 1, L)[:, None]
    return np.sin(4 * np.pi * time) + 0.5 * np.sin(np.pi * time)


def shifted_statistics(seed=0):
    """Return wide statistics of warped atoms, each at a known shift, and these shifts."""
    rng = np.random.default_rng(seed)
    params = rng.uniform(-0.25, 0.25, (B, WARP.n_params(L, 1)))
    atoms = in_double(jax.jit(WARP.apply), params, an_atom())
    shifts = np.resize(SHIFTS, B)
    moment = 0.01 * rng.standard_normal((B, L + 2 * R, 1))
    for row, shift, atom in zip(moment, shifts, atoms, strict=True):
        row[R + shift : R + shift + L] += 2 * atom
    return moment, np.ones_like(moment), shifts


def run(moment, weight, start, shifts=SHIFTS):
    return in_double(fast_search, WARP, an_atom(), moment, weight, start, shifts, True, N_STEPS)


@jax.jit
def _explained(params, atom, shift, moment, weight):
    cut = at_shift(moment, shift, L), at_shift(weight, shift, L)
    return explained_energy(WARP.apply(params, atom), *cut)[0]


def explained(params, shift, moment, weight):
    return in_double(_explained, params, an_atom(), shift, moment, weight)


def test_a_known_shift_is_recovered():
    moment, weight, truth = shifted_statistics()
    start = np.zeros((B, WARP.n_params(L, 1))), np.zeros(B, int)
    params, shift = run(moment, weight, start)
    assert_array_equal(shift, truth)
    share = explained(params, shift, moment, weight) / np.sum(moment**2, axis=(1, 2))
    assert share.min() > 0.98


def test_shifts_are_relative_to_the_start_and_stay_in_the_margin():
    moment, weight, truth = shifted_statistics(seed=1)
    start = np.zeros((B, WARP.n_params(L, 1))), np.full(B, 2)
    _, shift = run(moment, weight, start)
    within = truth >= 2 - R
    assert_array_equal(shift[within], truth[within])
    assert np.abs(shift).max() <= R


def test_only_the_shifts_given_are_tried():
    moment, weight, truth = shifted_statistics(seed=2)
    start = np.zeros((B, WARP.n_params(L, 1))), np.zeros(B, int)
    some = np.resize([0, -3, -2], len(SHIFTS))
    _, shift = run(moment, weight, start, some)
    assert set(shift) <= {-3, -2, 0}
    assert_array_equal(shift[truth < -1], truth[truth < -1])


def test_search_is_never_worse_than_its_start():
    rng = np.random.default_rng(3)
    moment, weight = rng.standard_normal((B, L + 2 * R, 1)), rng.uniform(0.5, 2, (B, L + 2 * R, 1))
    start = rng.uniform(-0.2, 0.2, (B, WARP.n_params(L, 1))), rng.integers(-R, R + 1, B)
    params, shift = run(moment, weight, start)
    assert (explained(params, shift, moment, weight) >= explained(*start, moment, weight)).all()
    assert (shift != start[1]).any()


def test_noise_shifts_nobody_whether_white_or_smooth():
    start = np.zeros((B, WARP.n_params(L, 1))), np.zeros(B, int)
    for seed, smooth in product(range(5), (0.0, 0.9)):
        rng = np.random.default_rng(seed)
        noise = 0.3 * rng.standard_normal((B, L + 2 * R, 1))
        noise = lfilter([np.sqrt(1 - smooth**2)], [1, -smooth], noise, axis=1)
        moment = np.pad(np.broadcast_to(2 * an_atom(), (B, L, 1)), ((0, 0), (R, R), (0, 0)))
        _, shift = run(moment + noise, np.ones_like(moment), start)
        assert (shift != 0).mean() <= 0.15


def test_a_free_atom_takes_the_window_of_largest_energy():
    moment = np.random.default_rng(6).standard_normal((B, L + 2 * R, 1))
    weight = np.ones_like(moment)
    shift = in_double(fast_window, Free(), an_atom(), moment, weight)
    energy = [np.sum(moment[:, t : t + L] ** 2, axis=(1, 2)) for t in range(2 * R + 1)]
    assert_array_equal(shift, np.argmax(energy, axis=0) - R)
    assert len(set(shift)) > 3
    assert_array_equal(in_double(fast_window, Free(), an_atom(), weight, weight), 0)


def test_alignment_climbs_from_end_to_end():
    rng = np.random.default_rng(4)
    moment = rng.standard_normal((B, L, 1))
    weight = (rng.random((B, L, 1)) < 0.8).astype(float)
    path = in_double(fast_align, an_atom(), moment, weight)
    assert_array_equal(path[:, [0, -1]], np.broadcast_to([0, L - 1], (B, 2)))
    steps = np.diff(path) * REFINEMENT
    assert_array_equal(steps, steps.round())
    assert ((steps >= 0) & (steps <= MAX_SPEED * REFINEMENT)).all()


def test_alignment_of_an_atom_with_itself_is_straight():
    moment = np.broadcast_to(3 * an_atom(), (B, L, 1))
    path = in_double(fast_align, an_atom(), moment, np.ones_like(moment))
    assert_array_equal(path, np.broadcast_to(np.arange(L), (B, L)))


def test_alignment_equals_exhaustive_search():
    """All paths of four samples through an atom, on half samples, with their exact cost."""
    rng = np.random.default_rng(5)
    length, n_rows = 4, 20
    atom = rng.standard_normal((length, 2))
    fine = np.stack([np.interp(np.arange(7) / 2, np.arange(4), a) for a in atom.T], axis=1)
    seen = rng.random((n_rows, length, 2)) < 0.8
    segment = rng.standard_normal((n_rows, length, 2)) * seen
    segment *= np.abs(atom).max() / np.abs(segment).max((1, 2), keepdims=True)
    paths = np.array([p for p in product(range(7), repeat=length) if p[0] == 0 and p[-1] == 6])
    paths = paths[(np.diff(paths) >= 0).all(1)]
    speed = np.diff(paths) / REFINEMENT - 1

    def cost(row, knots, speed):
        mismatch = seen[row] * (segment[row] - fine[knots]) ** 2
        energy = np.sum(segment[row] ** 2) / length
        return mismatch[..., 1:, :].sum((-2, -1)) + 1e-3 * energy * (speed**2).sum(-1)

    path = in_double(fast_align, atom, 3 * segment * seen, 1.5 * seen)
    for row in range(n_rows):
        knots = (path[row] * REFINEMENT).astype(int)
        ours = cost(row, knots, np.diff(path[row]) - 1)
        assert_allclose(ours, cost(row, paths, speed).min(), rtol=1e-9)


def test_the_alignment_of_a_long_atom_is_increasing_and_finds_a_known_warp():
    length = 150
    time = np.linspace(0, 1, length)
    atom = np.sin(4 * np.pi * time)[:, None] + time[:, None]
    truth = time + 0.1 * np.sin(np.pi * time)
    segment = np.interp(truth, time, atom[:, 0])[None, :, None]
    path = in_double(fast_align, atom, segment, np.ones_like(segment))[0]
    assert path[0] == 0
    assert path[-1] == length - 1
    assert np.diff(path).min() >= 0
    assert np.abs(path - (length - 1) * truth).max() < 3


def test_atoms_up_to_sixty_samples_are_read_in_half_samples():
    for length, refinement in ((60, 2), (61, 1)):
        time = np.linspace(0, 1, length)
        atom = np.sin(4 * np.pi * time)[:, None] + time[:, None]
        segment = np.interp(time + 0.1 * np.sin(np.pi * time), time, atom[:, 0])[None, :, None]
        steps = np.diff(in_double(fast_align, atom, segment, np.ones_like(segment)))
        assert_array_equal(refinement * steps, (refinement * steps).round())
        assert (steps == 1 / 2).any() == (refinement == 2)


def test_an_alignment_is_at_most_three_times_as_fast_as_usual():
    """A segment that lingers at the start of the atom, then rushes."""
    position = np.interp(np.arange(L), [0, 14, 18, L - 1], [0, 1, 18, L - 1])
    segment = np.interp(position, np.arange(L), an_atom()[:, 0])[None, :, None]
    path = in_double(fast_align, an_atom(), segment, np.ones_like(segment))
    assert np.diff(path).max() == 3


def test_units_and_repeated_weights_play_no_part_in_an_alignment():
    rng = np.random.default_rng(7)
    atom = rng.standard_normal((L, 2))
    moment = atom + 0.5 * rng.standard_normal((B, L, 2))
    weight = (rng.random((B, L, 1)) < 0.8).astype(float)
    moment, small = weight * moment, 2.0**-30
    path = in_double(fast_align, atom, moment, weight)
    both = np.repeat(weight, 2, axis=2)
    assert_array_equal(in_double(fast_align, atom, moment, both), path)
    assert_array_equal(in_double(fast_align, atom, small * moment, small * both), path)
    assert_array_equal(in_double(fast_align, atom, small * moment, both), path)
    assert_array_equal(in_double(fast_align, atom, 0 * moment, both)[:, 0], 0)
