"""Kinds: segments sorted by shape, how many there are, and atoms that are copies."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from percdl.steps.kinds import count_kinds, detrend, find_alike, sort_segments

LENGTH, REACH = 40, 3
TIME = np.linspace(0, 1, LENGTH + 2 * REACH)
SHAPES = np.stack([np.exp(-(((TIME - 0.5) / 0.06) ** 2)), np.sin(6 * TIME), TIME * (1 - TIME)])


def draw(counts, noise=0.03, seed=0):
    """Return segments of some shapes, on drifting baselines, some samples off; and their kinds."""
    rng = np.random.default_rng(seed)
    kind = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    moved = [np.roll(SHAPES[k], shift) for k, shift in zip(kind, _shifts(kind, rng), strict=True)]
    line = rng.standard_normal((len(kind), 2)) @ np.stack([np.ones_like(TIME), TIME])
    return (np.stack(moved) + line + noise * rng.standard_normal(line.shape))[:, :, None], kind


def _shifts(kind, rng):
    return rng.integers(-1, 2, len(kind)) * (kind == 0)


def test_kinds_are_those_that_were_drawn_whatever_the_baseline_and_the_shift():
    wide, kind = draw((40, 20, 10))
    found = sort_segments(wide, LENGTH, 3, np.random.default_rng(0))
    assert (found.kind == kind).all()
    assert found.probabilities[np.arange(len(kind)), kind].min() > 0.99
    assert_allclose(found.probabilities.sum(1), 1)


def test_sums_of_squares_are_those_of_the_kinds():
    wide, _ = draw((9, 6))
    found = sort_segments(wide, LENGTH, 2, np.random.default_rng(0))
    for k, mean in enumerate(found.means):
        assert_allclose(mean, found.aligned[found.kind == k].mean(0), atol=1e-12)
        every = detrend(
            np.lib.stride_tricks.sliding_window_view(wide[..., 0], LENGTH, 1)[..., None]
        )
        direct = ((every - mean) ** 2).sum((2, 3)).min(1)
        assert_allclose(found.errors[:, k], direct, atol=1e-9)


@pytest.mark.parametrize("n_kinds", [3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_a_rare_kind_is_found_among_noisy_cycles(n_kinds, seed):
    rng = np.random.default_rng(seed)
    usual, rare = SHAPES[0], 1.3 * SHAPES[0] - 0.4 * np.exp(-(((TIME - 0.65) / 0.1) ** 2))
    is_rare = rng.permutation(1200) < 18
    wide = np.where(is_rare[:, None], rare, usual) * (1 + 0.1 * rng.standard_normal((1200, 1)))
    noise = 0.03 * np.exp(0.5 * rng.standard_normal((1200, 1)))
    noise[rng.random(1200) < 0.05] *= 10
    wide = (wide + noise * rng.standard_normal(wide.shape))[:, :, None]
    kind = sort_segments(wide, LENGTH, n_kinds, np.random.default_rng(0)).kind
    both = [2 * (is_rare & (kind == k)).sum() / (18 + (kind == k).sum()) for k in range(n_kinds)]
    assert max(both) > 0.85


def test_kinds_do_not_depend_on_the_unit():
    wide, _ = draw((30, 20, 3), noise=0.3)
    for size in (2.0**-40, 2.0**40):
        kinds = [
            sort_segments(x, LENGTH, 2, np.random.default_rng(0)).kind for x in (wide, size * wide)
        ]
        assert (kinds[0] == kinds[1]).all()


@pytest.mark.parametrize("counts", [(60,), (60, 12), (80, 60, 40)])
def test_there_are_as_many_kinds_as_groups(counts):
    wide, kind = draw(counts)
    found = count_kinds(wide, LENGTH, np.random.default_rng(1))
    assert len(found.means) == len(counts)
    assert (found.kind == kind).mean() > 0.95


@pytest.mark.parametrize("spread", ["normal", "uniform"])
@pytest.mark.parametrize("seed", range(5))
def test_segments_that_vary_continuously_are_one_kind(spread, seed):
    rng = np.random.default_rng(seed)
    size = {
        "normal": rng.standard_normal(200),
        "uniform": rng.uniform(-2, 2, 200),
    }[spread]
    wide = SHAPES[0] + 0.5 * size[:, None] * SHAPES[1]
    wide = (wide + 0.1 * rng.standard_normal(wide.shape))[:, :, None]
    assert len(count_kinds(wide, LENGTH, rng).means) == 1


def test_copies_of_an_atom_are_found_moved_bent_and_scaled():
    time = np.linspace(0, 1, 100)
    bent = time + 0.04 * np.sin(np.pi * time)

    def wave(t):
        return (np.exp(-(((t - 0.4) / 0.05) ** 2)) - np.exp(-(((t - 0.6) / 0.1) ** 2)))[:, None]

    other = np.exp(-(((time - 0.5) / 0.2) ** 2))[:, None]
    atoms = np.stack([wave(time), 3 * wave(bent + 0.1), other, -wave(time)])
    assert [pair[:2] for pair in find_alike(atoms)] == [(0, 1)]
    assert {pair[:2] for pair in find_alike(atoms, signed=True)} == {(0, 1), (0, 3), (1, 3)}
