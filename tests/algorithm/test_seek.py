"""Who is searched, and that everyone gets what a search of all rows finds for them."""

from functools import cache

import jax
import numpy as np
from double import in_double
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm import programs
from percdl.algorithm.programs import Orders, Prepared
from percdl.algorithm.settings import N_TRY_STEPS, PATIENCE, PATIENCE_MISPLACED
from percdl.steps.realignment import search
from percdl.steps.types import Statistics
from percdl.transforms import Compose, Gain, TimeWarp

S, K, L, R, P = 6, 2, 12, 2, 2
WARP, MIXER = TimeWarp(1, 3), Gain()
TRANSFORM = Compose(WARP, MIXER)
SHIFTS = np.arange(-R, R + 1, dtype=np.int32)
LIMIT = 0.5
BY_ATOM = (S, K)

fast_search = jax.jit(search, static_argnums=(0, 6, 7))


@cache
def scene():
    """Return atoms, wide statistics of shifted personal atoms, and a start."""
    rng = np.random.default_rng(0)
    time = np.linspace(0, 1, L)[:, None]
    dictionary = np.stack([np.sin(4 * np.pi * time), np.cos(3 * np.pi * time)]) * [1, 0.7]
    true = rng.uniform(-0.3, 0.3, (*BY_ATOM, TRANSFORM.n_params(L, P)))
    true[..., WARP.width :] -= true[..., WARP.width :].mean(-1, keepdims=True)
    personal = in_double(programs.apply_params, TRANSFORM, true, dictionary)
    moment = 0.01 * rng.standard_normal((*BY_ATOM, L + 2 * R, P))
    for place in np.ndindex(BY_ATOM):
        onset = R + rng.integers(-R, R + 1)
        moment[place][onset : onset + L] += 2 * personal[place]
    statistics = Statistics(moment, np.ones_like(moment[..., :1]), np.ones(BY_ATOM, np.int32))
    start = true.copy()
    start[..., : WARP.width] = 0
    return dictionary, statistics, start


@cache
def searched_all(move):
    """Return what a search of all subjects finds, warp parameters and shifts, atom by atom."""
    dictionary, statistics, start = scene()
    begin = np.full(S, move, np.int32)
    found = []
    for k in range(K):
        warp, gain = start[:, k, : WARP.width], start[:, k, WARP.width :]
        unmixed = statistics.moment[:, k] / np.exp(gain)[:, None]
        weight = statistics.weight[:, k]
        given = dictionary[k], unmixed, weight, (warp, begin), SHIFTS, True, N_TRY_STEPS
        found.append(in_double(fast_search, WARP, *given))
    params, shifts = zip(*found, strict=True)
    return np.stack(params, axis=1), np.stack(shifts, axis=1)


def seek(prepared, fruitless, orders, n_together=4, rows=slice(None)):
    dictionary, statistics, _ = scene()
    statistics, prepared, fruitless = jax.tree.map(
        lambda x: x[rows], (statistics, prepared, fruitless)
    )
    given = dictionary, statistics, prepared, fruitless, orders, np.tile(SHIFTS, (K, 1))
    return in_double(programs.seek, TRANSFORM, True, n_together, *given)


def everybody():
    """Return the arguments of a first round: everyone is searched."""
    ones = np.ones(BY_ATOM)
    prepared = Prepared(scene()[2], ones, ones, ones, ones, ones > 1, ones)
    still = np.zeros(K, np.int32)
    return prepared, np.zeros(BY_ATOM, np.int32), Orders(still, np.ones(K, bool), np.zeros(K))


def flags(shape=BY_ATOM):
    return hnp.arrays(bool, shape)


@given(
    misfit=hnp.arrays(float, BY_ATOM, elements=st.sampled_from([0.4, LIMIT, 0.6])),
    misplaced=flags(),
    explains=flags(),
    fruitless=hnp.arrays(np.int32, BY_ATOM, elements=st.integers(0, 6)),
    move=hnp.arrays(np.int32, (K,), elements=st.integers(-1, 1)),
    everyone=flags((K,)),
)
def test_the_rule_of_who_is_searched(misfit, misplaced, explains, fruitless, move, everyone):
    """All if so told; else the worse and the misplaced, until searches were in vain too often."""
    start = scene()[2]
    none, ones = np.zeros(BY_ATOM), np.ones(BY_ATOM)
    prepared = Prepared(start, explains * 1e-9, none, ones, misfit, misplaced, ones)
    params, shift, after = seek(prepared, fruitless, Orders(move, everyone, np.full(K, LIMIT)))
    for s, k in np.ndindex(BY_ATOM):
        begin = (start[s, k], move[k], fruitless[s, k])
        patience = PATIENCE_MISPLACED if misplaced[s, k] else PATIENCE
        has_reason = misfit[s, k] > LIMIT or misplaced[s, k]
        is_searched = everyone[k] or (has_reason and fruitless[s, k] < patience)
        if not (explains[s, k] and is_searched):
            for ours, before in zip((params, shift, after), begin, strict=True):
                assert_array_equal(ours[s, k], before)
            continue
        expected, moved = (x[s, k] for x in searched_all(int(move[k])))
        assert_allclose(params[s, k, : WARP.width], expected, atol=1e-9)
        assert_array_equal(params[s, k, WARP.width :], start[s, k, WARP.width :])
        assert shift[s, k] == moved
        assert after[s, k] == (0 if moved != move[k] else fruitless[s, k] + 1)


def test_a_search_moves_some_and_keeps_others():
    """Or the theorems of this file would say little."""
    _, shift = searched_all(0)
    assert (shift != 0).any()
    assert (shift == 0).any()


def test_results_do_not_depend_on_how_many_are_searched_together():
    for ours, theirs in zip(seek(*everybody(), 1), seek(*everybody()), strict=True):
        assert_allclose(ours, theirs, atol=1e-9)


def test_results_follow_the_rows():
    order = np.array([3, 0, 5, 1, 4, 2])
    plain, permuted = seek(*everybody()), seek(*everybody(), rows=order)
    for ours, theirs in zip(permuted, plain, strict=True):
        assert_allclose(ours, theirs[order], atol=1e-9)
