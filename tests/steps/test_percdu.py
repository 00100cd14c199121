"""PerCDU is one dense least-squares problem over all segments of all subjects (Theorem 1)."""

from functools import partial

import jax
import naive
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.steps import cdu, percdu
from percdl.transforms import Identity, TimeWarp

S, L, P, J = 6, 9, 2, 3
TRANSFORMS = [
    Identity(),
    TimeWarp(2, 3),
    TimeWarp(2, 3, interpolation="linear", per_channel=True),
]


@partial(jax.jit, static_argnums=0)
def fast_transport(transform, params, moment, weight):
    return transform.normal_equations(params, moment, weight)


@partial(jax.jit, static_argnums=0)
def fast_apply(transform, params, atom):
    return transform.apply(params, atom)


def problem(transform, masked, seed=0):
    """Return parameters, J segments a subject (S, J, L, P), what is seen of them, amplitudes."""
    rng = np.random.default_rng(seed)
    params = rng.uniform(-0.4, 0.4, (S, transform.n_params(L, P)))
    cut = rng.standard_normal((S, J, L, P))
    seen = np.ones_like(cut)
    if masked:
        seen = (rng.random(cut.shape) < 0.7).astype(float)
    return params, cut * seen, seen, rng.uniform(0.5, 2, (S, J))


def summed(transform, params, cut, seen, amplitude, masked):
    moment = np.einsum("sj,sjlp->slp", amplitude, cut)
    weight = np.einsum("sj,sjlp->slp", amplitude**2, seen)
    return in_double(
        fast_transport, transform, params, moment, weight if masked else weight[..., :1]
    )


def operators(transform, params):
    """Return T of each subject, channel by channel, from ``apply`` on unit vectors."""
    units = [np.eye(L)[:, [i]] * np.ones(P) for i in range(L)]
    columns = [in_double(fast_apply, transform, params, unit) for unit in units]
    return np.moveaxis(np.stack(columns, axis=-1), 2, 1)  # (S, P, L, L)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
def test_update_is_the_dense_least_squares_solution(transform, masked):
    params, cut, seen, amplitude = problem(transform, masked)
    gram, transported = summed(transform, params, cut, seen, amplitude, masked)
    per_channel = masked or getattr(transform, "per_channel", False)
    assert gram.shape == (P if per_channel else 1, L, L)
    updated = percdu.update_dictionary(gram[None], transported[None], np.zeros((1, L, P)))
    expected = naive.least_squares_atom(
        cut.reshape(-1, L, P),
        seen.reshape(-1, L, P),
        amplitude.ravel(),
        np.repeat(operators(transform, params), J, axis=0),
    )
    # The ridge is 1e-8 of the mean curvature.
    assert_allclose(updated[0], expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
def test_explained_is_the_fall_of_the_squared_error(transform, masked):
    params, cut, seen, amplitude = problem(transform, masked, seed=1)
    gram, transported = summed(transform, params, cut, seen, amplitude, masked)
    atom = np.random.default_rng(2).standard_normal((L, P))
    personal = in_double(fast_apply, transform, params, atom)
    residual = seen * (cut - amplitude[..., None, None] * personal[:, None])
    fall = np.sum(cut**2) - np.sum(residual**2)
    assert_allclose(percdu.explained(gram[None], transported[None], atom[None]), fall)


@pytest.mark.parametrize("masked", [False, True])
def test_identity_makes_it_cdu(masked):
    _, cut, seen, amplitude = problem(Identity(), masked, seed=3)
    gram, transported = summed(Identity(), np.zeros((S, 0)), cut, seen, amplitude, masked)
    old = np.zeros((1, L, P))
    moment = np.einsum("sj,sjlp->lp", amplitude, cut)[None]
    weight = np.einsum("sj,sjlp->lp", amplitude**2, seen)[None]
    expected, _ = cdu.update_dictionary(moment, weight, old)
    assert_allclose(
        percdu.update_dictionary(gram[None], transported[None], old), expected, rtol=1e-6
    )
    assert_allclose(
        percdu.explained(gram[None], transported[None], expected), cdu.explained(moment, weight)
    )


def test_an_atom_without_activations_is_kept():
    params, cut, seen, amplitude = problem(TRANSFORMS[1], False, seed=4)
    gram, transported = summed(TRANSFORMS[1], params, cut, seen, amplitude, False)
    old = np.random.default_rng(5).standard_normal((2, L, P))
    before = old.copy()
    updated = percdu.update_dictionary(
        np.stack([gram, 0 * gram]), np.stack([transported, 0 * transported]), old
    )
    assert_array_equal(updated[1], old[1])
    assert np.abs(updated[0] - old[0]).max() > 0.1
    assert_array_equal(old, before)


def test_a_sample_nobody_visits_keeps_its_value():
    """Sigma loses rank there (assumption H1); the ridge holds the old atom, rescaled."""
    old = np.random.default_rng(6).standard_normal((1, L, P))
    gram = 3 * np.eye(L)[None, None]
    gram[..., 4, 4] = 0
    transported = 2 * (gram[:, 0] @ old)
    assert_allclose(percdu.update_dictionary(gram, transported, old), 2 * old, rtol=1e-6)
