"""CSC with an l1 penalty solves its convex problem: it equals dense solvers of it."""

from functools import partial
from typing import NamedTuple

import jax
import naive
import numpy as np
import pytest
from double import in_double
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls
from sklearn.linear_model import Lasso

from percdl.steps.csc_l1 import encode_l1, largest_useful_penalty
from percdl.steps.types import Signals

S, N, L = 6, 24, 5
V = N - L + 1

fast_encode = jax.jit(encode_l1, static_argnames="signed")
fast_bound = jax.jit(largest_useful_penalty, static_argnames="signed")
# All options are always passed: a program is compiled again for those that are not.
solve = partial(
    in_double, fast_encode, signed=False, n_steps=np.int32(20_000), tolerance=np.float64(1e-10)
)


class Case(NamedTuple):
    """A family of small problems: K atoms, P channels, weights of Q channels (0: none)."""

    n_atoms: int
    n_channels: int
    n_weights: int = 0
    signed: bool = False
    shared: bool = False
    fractions: bool = False


PLAIN = Case(2, 2)
MASKED = Case(2, 2, 2, shared=True, fractions=True)
CASES = [PLAIN, MASKED, Case(1, 1, signed=True, shared=True), Case(2, 3, 1, signed=True)]
EACH = np.full(S, 0.5)


class Draw(NamedTuple):
    """Recordings (S, N, P) with their weights (S, N, P), the signals made of them, atoms."""

    x: np.ndarray
    weights: np.ndarray
    signals: Signals
    atoms: np.ndarray
    lengths: np.ndarray

    def dictionary(self, s):
        return self.atoms[s % len(self.atoms)]

    def cost(self, s, penalty, activations):
        n = self.lengths[s]
        activations = activations[:, : n - L + 1]
        weights = self.weights[s, :n]
        return naive.l1_cost(self.x[s, :n], self.dictionary(s), penalty, weights, activations)

    def dense(self, s):
        """Return matrix and target of the recording's least-squares problem."""
        n = self.lengths[s]
        root = np.sqrt(self.weights[s, :n]).ravel()
        matrix = naive.convolution_matrix(self.dictionary(s), n)
        return root[:, None] * matrix, root * self.x[s, :n].ravel()


def draw(case, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2 * L, N + 1, S)
    inside = (np.arange(N) < lengths[:, None])[..., None]
    observed, weights = None, inside
    if case.n_weights:
        weights = inside * (rng.random((S, N, case.n_weights)) < 0.7)
        if case.fractions:
            weights = weights * rng.random(weights.shape)
        observed = weights.astype(float)
    x = rng.standard_normal((S, N, case.n_channels)) * inside
    weights = np.broadcast_to(weights, x.shape).astype(float)
    atoms = rng.standard_normal((1 if case.shared else S, case.n_atoms, L, case.n_channels))
    signals = Signals(x * weights, lengths.astype(np.int32), observed)
    return Draw(x, weights, signals, atoms, lengths)


def lasso(matrix, target, penalty, signed):
    """Minimize ``|y - M z|^2 + penalty |z|_1``; scikit-learn divides it by twice the samples."""
    model = Lasso(
        penalty / (2 * len(target)),
        fit_intercept=False,
        positive=not signed,
        tol=1e-10,
        max_iter=100_000,
    )
    return model.fit(matrix, target).coef_


@pytest.mark.parametrize("share", [0.1, 0.6])
@pytest.mark.parametrize("case", CASES)
def test_code_equals_dense_lasso(case, share):
    drawn = draw(case)
    penalty = share * in_double(fast_bound, drawn.signals, drawn.atoms, signed=case.signed)
    activations, objective = solve(drawn.signals, drawn.atoms, penalty, signed=case.signed)
    assert case.signed or (activations >= 0).all()
    assert np.count_nonzero(activations) > S
    for s in range(S):
        expected = lasso(*drawn.dense(s), penalty[s], case.signed)
        expected = expected.reshape(case.n_atoms, -1)
        n_positions = expected.shape[1]
        best = drawn.cost(s, penalty[s], expected)
        assert_allclose(objective[s], best, rtol=1e-8)
        assert_allclose(drawn.cost(s, penalty[s], activations[s]), best, rtol=1e-8)
        assert_array_equal(activations[s, :, n_positions:], 0)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("exponent", [0, -6])
def test_each_step_is_that_of_restarted_fista(case, exponent):
    """Dense algebra takes the same steps, and rests at the same gap; in whatever units."""
    unit = 2.0**exponent
    drawn = draw(case, seed=14)
    signals = drawn.signals._replace(values=unit**2 * drawn.signals.values)
    atoms = unit * drawn.atoms
    penalty = 0.1 * in_double(fast_bound, signals, atoms, signed=case.signed)
    dense = [(unit * matrix, unit**2 * y) for matrix, y in map(drawn.dense, range(S))]
    for n_steps, tolerance in [(1, 0.0), (2, 0.0), (5, 0.0), (40, 0.0), (40, 0.1), (40, 1e-3)]:
        activations, _ = solve(
            signals,
            atoms,
            penalty,
            signed=case.signed,
            n_steps=np.int32(n_steps),
            tolerance=np.float64(tolerance),
        )
        for s, (matrix, y) in enumerate(dense):
            n_positions = drawn.lengths[s] - L + 1
            curvature = naive.spectral_curvature(unit * drawn.dictionary(s), N)
            curvature = np.repeat(curvature, n_positions)
            expected = naive.fista(
                matrix, y, penalty[s], curvature, case.signed, n_steps, tolerance
            )
            ours = activations[s, :, :n_positions].ravel()
            assert_allclose(ours, expected, rtol=1e-6, atol=1e-9 * unit)


def test_a_recording_opposed_to_all_atoms_needs_no_penalty():
    drawn = draw(PLAIN, seed=15)
    signals = drawn.signals._replace(
        values=np.full_like(drawn.signals.values, -1.0), lengths=np.full(S, N, np.int32)
    )
    largest = in_double(fast_bound, signals, np.abs(drawn.atoms), signed=False)
    assert_array_equal(largest, 0)


@pytest.mark.parametrize("case", [PLAIN, MASKED])
def test_without_penalty_it_is_non_negative_least_squares(case):
    drawn = draw(case, seed=1)
    _, objective = solve(drawn.signals, drawn.atoms, 0 * EACH)
    for s in range(S):
        matrix, target = drawn.dense(s)
        assert_allclose(objective[s], nnls(matrix, target)[1] ** 2, rtol=1e-6, atol=1e-9)


@given(
    case=st.sampled_from(CASES),
    seed=st.integers(0, 2**16),
    share=st.floats(0.05, 1.2),
    scale=st.sampled_from([1e-3, 1.0, 1e4]),
)
def test_optimality_conditions(case, seed, share, scale):
    """The slope is no larger than the penalty, and equals it where there is an activation."""
    drawn = draw(case, seed)
    louder = drawn.signals._replace(values=scale * drawn.signals.values)
    penalty = share * in_double(fast_bound, louder, drawn.atoms, signed=case.signed)
    activations, _ = solve(louder, drawn.atoms, penalty, signed=case.signed)
    for s in range(S):
        matrix, target = drawn.dense(s)
        code = activations[s, :, : drawn.lengths[s] - L + 1].ravel()
        slope = 2 * matrix.T @ (scale * target - matrix @ code)
        slack = 1e-3 * penalty[s]
        assert (np.abs(slope) if case.signed else slope).max() <= penalty[s] + slack
        active = np.abs(code) > 1e-4 * scale
        assert_allclose(slope[active], penalty[s] * np.sign(code[active]), atol=slack)


@pytest.mark.parametrize("case", CASES)
def test_penalties_from_the_largest_useful_one_on_leave_nothing(case):
    drawn = draw(case, seed=2)
    largest = in_double(fast_bound, drawn.signals, drawn.atoms, signed=case.signed)
    for factor in (1, 2):
        activations, objective = solve(
            drawn.signals, drawn.atoms, factor * largest, signed=case.signed
        )
        assert_array_equal(activations, 0)
        assert_allclose(objective, np.sum(drawn.weights * drawn.x**2, axis=(1, 2)))
    activations, _ = solve(drawn.signals, drawn.atoms, 0.99 * largest, signed=case.signed)
    assert (np.count_nonzero(activations, axis=(1, 2)) > 0).all()


def test_single_precision_comes_within_the_tolerance():
    drawn = draw(MASKED, seed=3)
    signals, atoms = jax.tree.map(
        lambda x: x.astype(np.float32) if x.dtype == float else x, (drawn.signals, drawn.atoms)
    )
    penalty = 0.1 * fast_bound(signals, atoms)
    _, objective = fast_encode(signals, atoms, penalty, tolerance=1e-4)
    _, best = solve(drawn.signals, drawn.atoms, penalty)
    assert_allclose(objective, best, rtol=1.1e-4)


@pytest.mark.parametrize("case", [PLAIN, MASKED])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-3])
def test_the_gap_is_a_certificate(case, tolerance):
    drawn = draw(case, seed=4)
    penalty = 0.1 * in_double(fast_bound, drawn.signals, drawn.atoms, signed=False)
    _, objective = solve(drawn.signals, drawn.atoms, penalty, tolerance=np.float64(tolerance))
    _, best = solve(drawn.signals, drawn.atoms, penalty)
    assert (objective <= best / (1 - tolerance)).all()


@pytest.mark.parametrize("closeness", [0, 1e-1, 1e-3])
def test_a_start_is_never_made_worse(closeness):
    """However few the steps, and whether they begin far away or near the end."""
    drawn = draw(MASKED, seed=5)
    code = partial(solve, drawn.signals, drawn.atoms, EACH)
    start = np.random.default_rng(6).standard_normal((S, MASKED.n_atoms, V))
    if closeness:
        start, _ = code(start=start, tolerance=np.float64(closeness))
    allowed = np.maximum(start, 0) * (np.arange(V) <= drawn.lengths[:, None, None] - L)
    before = [drawn.cost(s, EACH[s], allowed[s]) for s in range(S)]
    for n_steps in range(40):
        activations, objective = code(start=start, n_steps=np.int32(n_steps))
        assert (objective <= np.multiply(before, 1 + 1e-12)).all()
    for s in range(S):
        assert_allclose(drawn.cost(s, EACH[s], activations[s]), objective[s])


def test_the_start_does_not_matter_in_the_end():
    drawn = draw(MASKED, seed=7)
    start = np.random.default_rng(8).standard_normal((S, MASKED.n_atoms, V))
    _, from_zero = solve(drawn.signals, drawn.atoms, EACH)
    activations, from_start = solve(drawn.signals, drawn.atoms, EACH, start=start)
    assert_allclose(from_start, from_zero, rtol=1e-8)
    again, _ = solve(drawn.signals, drawn.atoms, EACH, start=activations)
    assert_array_equal(again, activations)


@pytest.mark.parametrize("case", [PLAIN, MASKED])
def test_padding_changes_nothing(case):
    drawn = draw(case, seed=9)
    _, alone = solve(drawn.signals, drawn.atoms, EACH)
    more = ((0, 0), (0, 13), (0, 0))
    values, lengths, observed, *_ = drawn.signals
    padded = Signals(
        np.pad(values, more), lengths, None if observed is None else np.pad(observed, more)
    )
    activations, objective = solve(padded, drawn.atoms, EACH)
    assert_allclose(objective, alone, rtol=1e-8)
    assert_array_equal(activations[..., V:], 0)


@pytest.mark.parametrize("case", [PLAIN, MASKED])
def test_company_changes_nothing(case):
    """A recording beside others, harder or easier, of another penalty, gets the same code."""
    drawn, others = draw(case, seed=10), draw(case, seed=11)
    tolerance = np.float64(1e-2)
    together, _ = solve(drawn.signals, drawn.atoms, EACH, tolerance=tolerance)
    for s in range(S):
        kept = np.arange(S) == s

        def mix(ours, theirs, kept=kept):
            return np.where(kept.reshape(-1, *[1] * (ours.ndim - 1)), ours, theirs)

        mixed = jax.tree.map(mix, drawn.signals, others.signals)
        penalty = np.where(kept, EACH, 0.01)
        beside, _ = solve(mixed, drawn.atoms, penalty, tolerance=tolerance)
        assert_allclose(beside[s], together[s], atol=1e-10)


@pytest.mark.parametrize("case", [PLAIN, MASKED])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_nothing_is_found_where_nothing_is_seen(case, penalty):
    """Rows of zeros, that only fill the chunk, that are too short, or all of which is missing."""
    drawn = draw(case, seed=13)
    values, observed = np.zeros_like(drawn.signals.values), drawn.signals.observed
    values[3:] = 1
    values[3:, L - 1 :] = 0
    lengths = np.array([N, 0, N, L - 1, L - 1, 0], np.int32)
    if observed is not None:
        observed = np.ones_like(observed)
        observed[2] = 0
    atoms = drawn.atoms.copy()
    atoms[:, 0] = 0
    activations, objective = solve(Signals(values, lengths, observed), atoms, penalty + 0 * EACH)
    assert_array_equal(activations, 0)
    assert_allclose(objective, np.sum(values**2, axis=(1, 2)), atol=1e-12)


def test_an_atom_of_nothing_is_not_used_and_disturbs_no_other():
    drawn = draw(PLAIN)
    atoms = drawn.atoms * np.array([1.0, 0.0])[:, None, None]
    activations, objective = solve(drawn.signals, atoms, EACH)
    alone = solve(drawn.signals, atoms[:, :1], EACH)
    assert_array_equal(activations[:, 1], 0)
    assert_allclose(activations[:, :1], alone[0])
    assert_allclose(objective, alone[1])


def test_overlapping_activations_are_found():
    """Without noise and with little penalty, the sum of overlapping atoms is taken apart."""
    rng = np.random.default_rng(12)
    atoms = rng.standard_normal((1, 2, 20, 1))
    truth = np.zeros((1, 2, 81))
    truth[0, 0, [10, 17, 50]] = 1, 2, 1.5
    truth[0, 1, [14, 55]] = 1.2, 0.7
    x = (naive.convolution_matrix(atoms[0], 100) @ truth.ravel()).reshape(1, 100, 1)
    signals = Signals(x, np.array([100], np.int32), None)
    activations, _ = solve(signals, atoms, np.float64(1e-4))
    assert_allclose(activations, truth, atol=1e-3)
