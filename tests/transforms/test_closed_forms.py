"""What transforms solve in closed form equals the textbook, one subject at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.transforms import Free, Gain, Modulation, Rotation
from percdl.transforms.base import divide
from percdl.transforms.channels import HOLD, WEAKEST

L, P, S = 9, 3, 4


def problem(seed=0):
    """Return an atom, moments and weights that differ between channels."""
    rng = np.random.default_rng(seed)
    atom = rng.standard_normal((L, P))
    weight = rng.uniform(0.5, 2, (S, L, P))
    return atom, weight * (atom + 0.5 * rng.standard_normal((S, L, P))), weight


def solve(transform, *problem):
    return in_double(jax.jit(transform.solve), *problem)


def test_division_by_nothing_gives_nothing():
    x, by = np.full(5, 3.0), np.array([2.0**-30, 0.5, 4.0, 0.0, -2.0])
    assert_array_equal(in_double(divide, x, by), [3 * 2.0**30, 6, 0.75, 0, 0])
    assert_array_equal(jax.grad(lambda b: divide(jnp.ones(1), b).sum())(jnp.zeros(1)), 0)


@pytest.mark.parametrize("transform", [Free(), Gain(), Rotation(), Modulation(3)], ids=repr)
@pytest.mark.parametrize("exponent", [-30, 30])
def test_units_do_not_matter(transform, exponent):
    """Signals and activations of another size, by powers of two: the same, to rounding."""
    atom, moment, weight = problem()
    expected = solve(transform, atom, moment, weight)
    unit = 2.0**exponent
    assert_allclose(solve(transform, atom, unit * moment, weight), expected, rtol=1e-9)
    assert_allclose(solve(transform, atom, unit * moment, unit * weight), expected, rtol=1e-9)
    assert_allclose(solve(transform, unit * atom, moment, weight), expected, rtol=1e-9)


def test_gains_are_regressions_of_each_channel():
    atom, moment, weight = problem()
    moment[:, :, 0] *= 1e-5  # far weaker than the others
    moment[1, :, 1], weight[1, :, 1] = 0, 0  # never seen
    moment[2], weight[2] = 0, 0
    found = solve(Gain(), atom, moment, weight)
    for s in (0, 1, 3):
        seen = [p for p in range(P) if weight[s, :, p].any()]
        slopes = [
            np.polynomial.polynomial.polyfit(
                atom[:, p], moment[s, :, p] / weight[s, :, p], [1], w=np.sqrt(weight[s, :, p])
            )[1]
            for p in seen
        ]
        logs = np.log(np.maximum(slopes, WEAKEST * max(slopes)))
        expected = np.zeros(P)
        expected[seen] = logs - logs.mean()
        assert_allclose(found[s], expected, atol=1e-12)
    assert_array_equal(found[2], 0)
    assert_array_equal(solve(Gain(), atom, -moment, weight)[:, 1:], 0)
    assert WEAKEST == 1e-3


def modulated(knots, atom, moment, weight):
    """Minimize the error of one subject, and the distance to its mean gain where held."""
    hats = np.array(
        [np.interp(np.linspace(0, knots - 1, L), range(knots), h) for h in np.eye(knots)]
    )
    pieces = np.zeros((L, P, P, knots))
    for p in range(P):
        pieces[:, p, p] = (hats * atom[:, p]).T
    design = pieces.reshape(L * P, P * knots)
    stiffness = design.T @ (weight.reshape(-1, 1) * design)
    shared = np.sum(moment * atom) / np.sum(weight * atom**2)
    hold = HOLD * np.diag(stiffness).mean()
    pull = design.T @ moment.ravel() + hold * shared
    values = np.linalg.solve(stiffness + hold * np.eye(P * knots), pull)
    return values / np.sqrt(np.mean(values**2))


@pytest.mark.parametrize("knots", [1, 4])
def test_modulation_is_a_regression_on_pieces_of_the_atom(knots):
    atom, moment, weight = problem(1)
    atom[:, 2] = 0  # a silent channel follows the others
    found = solve(Modulation(knots), atom, moment, weight)
    for s in range(S):
        assert_allclose(found[s], modulated(knots, atom, moment[s], weight[s]), atol=1e-12)
    assert HOLD == 1e-3


def test_subjects_never_seen_are_not_modulated():
    atom, moment, weight = problem(2)
    found = solve(Modulation(3), atom, 0 * moment, 0 * weight)
    assert_array_equal(found, 1)
    assert_array_equal(in_double(Modulation(3).project, np.zeros((2, 9))), 0)


@pytest.mark.parametrize("seed", range(3))
def test_rotations_with_gaps_are_the_best_of_all_angles(seed):
    rng = np.random.default_rng(seed)
    atom = rng.standard_normal((L, 2))
    angle = rng.uniform(0, 2 * np.pi, S)
    weight = rng.uniform(0.2, 2, (S, L, 2)) * (rng.random((S, L, 2)) < 0.7)
    moment = weight * (atom @ turns(angle) + 0.4 * rng.standard_normal((S, L, 2)))
    found = solve(Rotation(allow_reflections=False), atom, moment, weight).reshape(S, 2, 2)
    every = turns(np.linspace(0, 2 * np.pi, 2001))
    for s in range(S):
        best = max(explained(atom @ turn, moment[s], weight[s]) for turn in every)
        ours = explained(atom @ found[s].T, moment[s], weight[s])
        assert ours > best * (1 - 1e-5)


def turns(angle):
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.moveaxis(np.array([[cosine, sine], [-sine, cosine]]), -1, 0)


def explained(personal, moment, weight):
    return max(np.sum(moment * personal), 0) ** 2 / np.sum(weight * personal**2)
