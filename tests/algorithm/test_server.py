"""The server half, from sums made by hand: what it centres with, when, and what it tells."""

from dataclasses import replace

import numpy as np
import pytest
import toy
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.server import LARGE, N_WHOLE_LARGE, fix_gauge, personal_update
from percdl.steps.cdu import normalize
from percdl.steps.centering import find_gauge, smooth_warp
from percdl.transforms import Rotation

SAMPLES = np.arange(toy.LENGTH, dtype=float)
ATOMS = normalize(toy.first_guess(1))
N_SUBJECTS = 10
# All but the centering switched off, and an update that leaves the atoms as they are.
PLAIN = {"update": "robust", "realign": False, "multistart": False}


def bend(size):
    """Return a warp in samples; its inverse bends the other way."""
    end = toy.LENGTH - 1
    return SAMPLES + size * end * np.sin(np.pi * SAMPLES / end) / np.pi


def sums(n_subjects=N_SUBJECTS, mixing=None, **others):
    """Return sums whose mean warps are known, over subjects that have the atoms as they are."""
    mean = np.stack([bend(0.2), bend(-0.3)])[:, None]
    squares = (mean - SAMPLES) ** 2 + 0.04
    inverse = np.stack([np.interp(SAMPLES, warp[0], SAMPLES) for warp in mean])[:, None]
    n = np.full(2, float(n_subjects))
    own = {} if mixing is None else {"mixing": n_subjects * mixing}
    return Sums(
        objective=3.0,
        objective_fitted=3.0,
        energy=5.0,
        signal=5.0,
        counts=n,
        copies=n_subjects * ATOMS,
        warp=n_subjects * mean,
        squared_displacement=n_subjects * squares,
        inverse_warp=n_subjects * inverse,
        n_warps=n,
        **own,
        **others,
    )


def gauge_after(some, rounds_left):
    return personal_update(some, Broadcast(ATOMS), toy.settings(**PLAIN), rounds_left)[0].gauge


def test_the_last_round_centres_with_all_it_knows():
    some = sums()
    mean, inverse = some.warp / N_SUBJECTS, some.inverse_warp / N_SUBJECTS
    spread = np.full(mean.shape, 0.2)
    assert_allclose(gauge_after(some, 0), find_gauge(mean, spread, inverse), atol=1e-9)


def test_rounds_before_centre_with_what_the_mean_shows_clearly():
    some = sums()
    smooth = smooth_warp(some.warp / N_SUBJECTS)
    assert_allclose(gauge_after(some, 1), smooth)
    assert np.abs(gauge_after(some, 0) - smooth).max() > 1e-3


@pytest.mark.parametrize("n_subjects", [LARGE - 1, LARGE])
def test_a_large_population_is_centred_whole_for_more_rounds(n_subjects):
    some = sums(n_subjects)
    mean = some.warp / n_subjects
    whole = [np.array_equal(gauge_after(some, n), mean) for n in range(1, N_WHOLE_LARGE + 1)]
    assert whole == [n_subjects == LARGE] * (N_WHOLE_LARGE - 1) + [False]


def test_atoms_nobody_has_are_not_centred():
    some = replace(sums(), n_warps=np.array([N_SUBJECTS, 0.0]))
    for gauge in (gauge_after(some, 1), fix_gauge(some, Broadcast(ATOMS), toy.settings()).gauge):
        assert_allclose(gauge[1, 0], SAMPLES, atol=1e-12)
        assert np.abs(gauge[0, 0] - SAMPLES).max() > 0.5


def test_atoms_are_read_at_the_warp_they_are_centred_with():
    answer = fix_gauge(sums(), Broadcast(ATOMS), toy.settings())
    read = [
        in_double(toy.WARP.resample, atom, gauge)
        for atom, gauge in zip(ATOMS, answer.gauge, strict=True)
    ]
    assert_allclose(answer.dictionary, normalize(np.array(read)), atol=1e-12)
    assert np.abs(answer.dictionary - ATOMS).max() > 0.05


def test_paper_centering_tells_no_gauge_and_off_does_nothing():
    chosen = {mode: toy.settings(centering=mode, **PLAIN) for mode in ("paper", "off")}
    paper, off = (personal_update(sums(), Broadcast(ATOMS), c, 1)[0] for c in chosen.values())
    assert paper.gauge is None
    assert off.gauge is None
    assert_allclose(off.dictionary, ATOMS, atol=1e-15)
    assert np.abs(paper.dictionary - ATOMS).max() > 0.01


def test_the_mean_rotation_is_taken_over_by_the_atoms():
    atoms = normalize(toy.first_guess(1, 2))
    turns = [[[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in (0.3, -0.5)]
    params = np.reshape(turns, (2, 4))
    some = replace(sums(mixing=params), copies=N_SUBJECTS * atoms)
    chosen = toy.settings(Rotation(), 2, **PLAIN)
    answer = personal_update(some, Broadcast(atoms), chosen, 1)[0]
    assert_allclose(answer.mixing_gauge, params, atol=1e-12)
    turned = [in_double(Rotation().apply, *each) for each in zip(params, atoms, strict=True)]
    assert_allclose(answer.dictionary, turned, atol=1e-12)


def test_the_share_left_unexplained_is_told_where_windows_may_move():
    some = sums(misfit=np.array([[1.0, 4.0], [0.0, 0.0]]), votes=np.zeros((2, 3)))
    options = PLAIN | {"realign": True}
    told = personal_update(some, Broadcast(ATOMS), toy.settings(**options), 0)[0].misfit
    assert_array_equal(told, [0.25, 0.0])


@pytest.mark.parametrize("rounds_left", [1, 2])
def test_windows_move_only_while_they_can_be_fitted_anew(rounds_left):
    some = sums(misfit=np.ones((2, 2)), votes=np.array([[0.0, 0, 9], [9.0, 0, 0]]))
    options = PLAIN | {"realign": True}
    answer = personal_update(some, Broadcast(ATOMS), toy.settings(**options), rounds_left)[0]
    assert_array_equal(answer.move, [1, -1] if rounds_left == 2 else [0, 0])
