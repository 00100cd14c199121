"""Who is searched, and that what was found comes back to whom it was found for."""

from dataclasses import replace

import numpy as np
import pytest
import toy
from numpy.testing import assert_array_equal

from percdl.algorithm import searching
from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.programs import Prepared
from percdl.algorithm.searching import search_starts
from percdl.steps.types import Statistics

K, M = 2, 4
SETTINGS = toy.settings()
WIDE = toy.LENGTH + 2 * SETTINGS.margin
ATOMS = toy.first_guess(0)


def block(rows, first):
    """Return statistics and parameters of a block, all numbers different, and its counters."""
    numbers = np.arange(first, first + rows * K * WIDE, dtype=float).reshape(rows, K, WIDE, 1)
    statistics = Statistics(numbers, 1e6 + numbers, np.ones((rows, K), np.int32))
    params = numbers[:, :, :M, 0].copy()
    by_atom = np.ones((rows, K))
    nobody = np.zeros((rows, K), bool)
    return statistics, Prepared(params, by_atom, by_atom, by_atom / 2, nobody), nobody.astype(int)


def told(monkeypatch, broadcast, blocks, stays=lambda params: params[:, 0] < 0, settings=SETTINGS):
    """Run the search with one that adds a hundred to the parameters; return what it was asked.

    Those who do not stay are shifted by three.
    """
    asked = []

    def seek(transform, align_first, atom, moment, weight, start, shifts):
        params, shift = (np.asarray(x) for x in start)
        moment, weight = np.asarray(moment), np.asarray(weight)
        assert transform == settings.transform
        assert align_first is settings.multistart
        assert tuple(np.asarray(shifts)) == settings.shifts
        assert_array_equal(moment[:, :M, 0], params)
        assert_array_equal(weight, moment + 1e6)
        k = int(np.flatnonzero([np.array_equal(atom, a) for a in ATOMS])[0])
        asked.append((k, params, shift))
        return params + 100, np.where(stays(params), shift, shift + 3)

    monkeypatch.setattr(searching.programs, "seek", seek)
    statistics, prepared, fruitless = zip(*blocks, strict=True)
    starts = search_starts(settings, broadcast, ATOMS, statistics, prepared, fruitless)
    return asked, starts


@pytest.mark.parametrize("sizes", [(5,), (5, 3), (20, 16)])
def test_everybody_is_searched_in_the_first_round(monkeypatch, sizes):
    """Of one block or several, everybody gets what was found for them and nobody else."""
    blocks = [block(rows, 1000 * i) for i, rows in enumerate(sizes)]
    blocks[0][2][:] = 9
    asked, starts = told(monkeypatch, Broadcast(ATOMS), blocks)
    for (_, before, fruitless), (params, shift) in zip(blocks, starts, strict=True):
        assert_array_equal(params, before.params + 100)
        assert_array_equal(shift, 3)
        assert_array_equal(fruitless, 0)
    for k in range(K):
        own = np.concatenate([before.params[:, k] for _, before, _ in blocks])
        given = np.concatenate([params for atom, params, _ in asked if atom == k])
        assert_array_equal(given[: len(own)], own)
        assert_array_equal(given[len(own) :], np.broadcast_to(own[-1], given[len(own) :].shape))
        assert all(len(params) in {5, 16, 20} for _, params, _ in asked)


def test_searches_that_keep_the_onsets_are_counted(monkeypatch):
    one = block(4, 0)
    one[2][:] = [[0, 3], [1, 3], [2, 3], [3, 3]]
    move = np.array([0, 1])
    stays = lambda params: params[:, 0] < 2 * K * WIDE  # noqa: E731  (the first two subjects)
    _, ((_, shift),) = told(monkeypatch, Broadcast(ATOMS, move=move), [one], stays)
    assert_array_equal(shift, [[0, 1], [0, 1], [3, 4], [3, 4]])
    assert_array_equal(one[2], [[1, 4], [2, 4], [0, 0], [0, 0]])


def test_later_only_the_worse_and_the_misplaced_are_searched(monkeypatch):
    """The worse until a search has kept their onsets, the misplaced until five have."""
    statistics, before, _ = block(10, 0)
    misfit, misplaced, explained = np.full((10, K), 0.5), np.zeros((10, K), bool), np.ones((10, K))
    fruitless = np.full((10, K), 9)
    fruitless[:, 0] = [0, 0, 0, 1, 0, 4, 5, 0, 0, 0]
    misfit[1:4, 0] = 0.7  # worse: 1 and 2, and 3 who was searched in vain
    misplaced[4:7, 0] = True  # 4 and 5, and 6 who was searched in vain too often
    misplaced[7, 0], explained[7, 0] = True, 0  # has none
    misfit[8, 0], explained[8, 0] = 0.7, 1e-9
    before = before._replace(misfit=misfit, misplaced=misplaced, explained=explained)
    broadcast = Broadcast(ATOMS, move=np.zeros(K, int), misfit=np.full(K, 0.5))
    asked, ((params, shift),) = told(monkeypatch, broadcast, [(statistics, before, fruitless)])
    searched = [1, 2, 4, 5, 8]
    assert_array_equal(np.flatnonzero(shift[:, 0]), searched)
    assert {k for k, _, _ in asked} == {0}
    assert_array_equal(params - before.params, 100 * (shift == 3)[..., None] * np.ones(M))
    # Where the window has moved, everybody is.
    moved = replace(broadcast, move=np.array([0, -1]))
    _, ((_, shift),) = told(monkeypatch, moved, [(statistics, before, fruitless)])
    assert_array_equal(shift[:, 1], 2)


def test_without_a_search_windows_move_alone(monkeypatch):
    blocks = [block(3, 0), block(2, 500)]
    still = toy.settings(solver="polyak")
    asked, starts = told(
        monkeypatch, Broadcast(ATOMS, move=np.array([1, 0])), blocks, settings=still
    )
    assert asked == []
    for (_, before, _), (params, shift) in zip(blocks, starts, strict=True):
        assert params is before.params
        assert_array_equal(shift, [[1, 0]] * len(params))
