"""The server half, from sums made by hand: centering, its time, and the broadcast."""

from dataclasses import replace

import jax
import numpy as np
import pytest
import toy
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.server import fix_gauge, personal_update, population_update
from percdl.steps import overlap
from percdl.steps.centering import WarpMoments, find_gauge, smooth_warp, sum_warps
from percdl.steps.dictionary import (
    normalize,
    personal_explained,
    update_personal,
    update_population,
)
from percdl.transforms import Compose, Free, Gain, Identity, Rotation

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
    n = np.full(2, float(n_subjects))
    # As many subjects a little slower as a little faster.
    pairs = np.stack([mean + side * (bend(0.1) - SAMPLES) for side in (-1, 1)])
    each = [
        in_double(jax.jit(sum_warps), pairs[:, k], np.full(2, n_subjects / 2)) for k in range(2)
    ]
    moments = jax.tree.map(lambda *parts: np.stack(parts), *each)._asdict()
    own = {} if mixing is None else {"mixing": n_subjects * mixing}
    return Sums(
        objective=3.0,
        objective_fitted=3.0,
        energy=5.0,
        signal=5.0,
        counts=n,
        copies=n_subjects * ATOMS,
        **moments,
        n_warps=n,
        **own,
        **others,
    )


def windows(*moves):
    """Return the sums of segments whose pattern begins this many samples after the window."""
    chosen = toy.settings(**PLAIN | {"realign": True})
    width = toy.LENGTH + 2 * chosen.margin
    moment = np.zeros((2, width, 1))
    for k, move in enumerate(moves):
        first = chosen.margin + move
        moment[k, first : first + toy.LENGTH, 0] = np.sin(np.pi * SAMPLES / SAMPLES[-1])
    return {"moment": moment, "weight": np.ones((2, width, 1))}


def gauge_after(some, rounds_left):
    return personal_update(some, Broadcast(ATOMS), toy.settings(**PLAIN), rounds_left)[0].gauge


def gauge_of(some, n_subjects):
    moments = (getattr(some, name) / n_subjects for name in WarpMoments._fields)
    return find_gauge(WarpMoments(*moments), np.full((2, 1), float(n_subjects)))


def test_the_last_round_centres_with_all_it_knows():
    assert_allclose(gauge_after(sums(), 0), gauge_of(sums(), N_SUBJECTS), atol=1e-9)


def test_rounds_before_centre_with_what_the_mean_shows_clearly():
    some = sums()
    smooth = smooth_warp(some.warp / N_SUBJECTS)
    assert_allclose(gauge_after(some, 1), smooth)
    assert np.abs(gauge_after(some, 0) - smooth).max() > 1e-3


@pytest.mark.parametrize("n_subjects", [511, 512])
def test_a_large_population_is_centred_whole_for_more_rounds(n_subjects):
    some = sums(n_subjects)
    mean = some.warp / n_subjects
    whole = [np.array_equal(gauge_after(some, n), mean) for n in (1, 2, 3)]
    assert whole == ([True, True, False] if n_subjects == 512 else [False] * 3)


def test_rounding_makes_no_spread():
    """Rounding leaves a square a little below that of the mean; its root is still zero."""
    one = sums(1)
    less = replace(one, squared_displacement=(one.warp - SAMPLES) ** 2 * (1 - 1e-12))
    assert_allclose(gauge_after(less, 0), gauge_of(less, 1), atol=1e-6)


def test_atoms_nobody_has_are_not_centred():
    some = replace(sums(), n_warps=np.array([N_SUBJECTS, 0.0]))
    for rounds_left in (0, 1):
        gauge = gauge_after(some, rounds_left)
        assert_allclose(gauge[1, 0], SAMPLES, atol=1e-9)
        assert np.abs(gauge[0, 0] - SAMPLES).max() > 0.5


def test_atoms_are_read_at_the_warp_they_are_centred_with():
    some = sums()
    answer = fix_gauge(some, Broadcast(ATOMS), toy.settings(**PLAIN))
    read = [
        in_double(toy.WARP.resample, atom, gauge)
        for atom, gauge in zip(ATOMS, gauge_of(some, N_SUBJECTS), strict=True)
    ]
    assert_allclose(answer.dictionary, normalize(np.array(read)), atol=1e-9)
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
    some = sums(misfit=np.array([[1.0, 4.0], [0.0, 0.0]]), **windows(0, 0))
    options = PLAIN | {"realign": True}
    told = personal_update(some, Broadcast(ATOMS), toy.settings(**options), 0)[0].misfit
    assert_array_equal(told, [0.25, 0.0])


@pytest.mark.parametrize("rounds_left", [1, 2])
def test_windows_move_only_while_they_can_be_fitted_anew(rounds_left):
    some = sums(misfit=np.full((2, 2), 1e-6), **windows(1, -1))
    options = PLAIN | {"realign": True}
    answer = personal_update(some, Broadcast(ATOMS), toy.settings(**options), rounds_left)[0]
    assert_array_equal(answer.move, [1, -1] if rounds_left == 2 else [0, 0])


def test_mixtures_of_atoms_nobody_has_mix_nothing():
    """Those of one subject alone are its own."""
    logs = np.array([[0.4, -0.4], [0.7, -0.7]])
    n = np.array([1.0, 0.0])
    some = replace(sums(mixing=logs), mixing=n[:, None] * logs, n_warps=n)
    chosen = toy.settings(Gain(), 2, **PLAIN)
    atoms = normalize(toy.first_guess(1, 2))
    answer = fix_gauge(some, Broadcast(atoms), chosen)
    assert_allclose(answer.dictionary[1], atoms[1], rtol=1e-12)
    assert_allclose(answer.dictionary[0], normalize(atoms * np.exp(logs[0]))[0], rtol=1e-12)


@pytest.mark.parametrize("centering", ["refit", "paper", "off"])
def test_warps_and_mixtures_are_centred_together(centering):
    """The paper centres only warps, and does not broadcast the gauge."""
    logs = np.array([[0.4, -0.4], [0.0, 0.0]])
    atoms = normalize(toy.first_guess(1, 2))
    some = replace(sums(mixing=logs), copies=N_SUBJECTS * atoms)
    both = Compose(toy.WARP, Gain())
    chosen = toy.settings(both, 2, centering=centering, **PLAIN)
    answer = personal_update(some, Broadcast(atoms), chosen, 1)[0]
    mean = some.warp / N_SUBJECTS
    gauge = {"refit": smooth_warp(mean), "paper": mean, "off": SAMPLES + 0 * mean}[centering]
    read = [in_double(toy.WARP.resample, atom, g) for atom, g in zip(atoms, gauge, strict=True)]
    mixed = np.exp(logs)[:, None] if centering == "refit" else 1
    assert_allclose(answer.dictionary, normalize(mixed * np.array(read)), atol=1e-12)
    assert (answer.gauge is not None) is (centering == "refit")
    assert (answer.mixing_gauge is not None) is (centering == "refit")


WIDE = toy.settings(Identity()).margin
SEGMENTS = {
    "moment": np.random.default_rng(3).standard_normal((2, toy.LENGTH + 2 * WIDE, 1)),
    "weight": np.random.default_rng(4).uniform(1, 2, (2, toy.LENGTH + 2 * WIDE, 1)),
}


@pytest.mark.parametrize("weighting", ["amplitude", "subjects"])
def test_an_update_tells_what_is_left_in_the_window_where_it_can(weighting):
    chosen = toy.settings(Identity(), weighting=weighting)
    some = sums(**SEGMENTS)
    answer, objective = population_update(some, Broadcast(ATOMS), chosen)
    atoms, move = update_population(some.moment, some.weight, ATOMS)
    assert_allclose(answer.dictionary, normalize(atoms))
    assert_array_equal(answer.move, move)
    within = slice(WIDE, -WIDE)
    inside = (SEGMENTS["moment"] ** 2 / SEGMENTS["weight"])[:, within].sum()
    assert objective == pytest.approx(5.0 - inside if weighting == "amplitude" else 3.0)


@pytest.mark.parametrize("weighting", ["amplitude", "subjects"])
def test_a_personal_update_tells_what_is_left_where_it_can(weighting):
    rng = np.random.default_rng(5)
    roots = rng.standard_normal((2, 1, toy.LENGTH, toy.LENGTH))
    gram, right = roots @ roots.swapaxes(2, 3), 0.1 * rng.standard_normal(ATOMS.shape)
    options = PLAIN | {"update": "closed-form", "centering": "off", "weighting": weighting}
    some = sums(gram=gram, transported=right)
    answer, objective = personal_update(some, Broadcast(ATOMS), toy.settings(**options), 1)
    atoms = update_personal(gram, right, ATOMS)
    assert_allclose(answer.dictionary, normalize(atoms))
    left = 5.0 - personal_explained(gram, right, atoms)
    assert objective == pytest.approx(left if weighting == "amplitude" else 3.0)
    assert answer.misfit is None
    assert_array_equal(answer.move, 0)


def test_without_shared_structure_the_common_atom_is_the_mean_in_its_window():
    answer, objective = personal_update(
        sums(**SEGMENTS), Broadcast(ATOMS), toy.settings(Free(), centering="off"), 5
    )
    mean = (SEGMENTS["moment"] / SEGMENTS["weight"])[:, WIDE:-WIDE]
    assert_allclose(answer.dictionary, normalize(mean))
    assert objective == 3.0


def test_overlapping_codes_make_atoms_of_norm_one_at_most():
    rng = np.random.default_rng(6)
    ztz = np.zeros((2, 2, 2 * toy.LENGTH - 1))
    ztz[[0, 1], [0, 1], toy.LENGTH - 1] = 1.0
    ztx = np.stack([2 * ATOMS[0], 0.5 * ATOMS[1]]) + 0.01 * rng.standard_normal(ATOMS.shape)
    some, move = sums(ztz=ztz, ztx=ztx), np.array([1, 0])
    answer, objective = population_update(some, Broadcast(ATOMS, move=move), toy.settings())
    best = ztx / np.maximum(np.linalg.norm(ztx, axis=(1, 2), keepdims=True), 1)
    assert_allclose(answer.dictionary, normalize(best), atol=1e-4)
    assert objective == pytest.approx(5.0 - overlap.explained(ztz, ztx, best), rel=1e-4)
    assert_array_equal(answer.move, move)
