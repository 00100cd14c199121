"""PerCDU is one dense least-squares problem over all segments of all subjects (Theorem 1)."""

from functools import partial

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.steps.dictionary import (
    DAMPING,
    personal_explained,
    population_explained,
    update_personal,
    update_population,
)
from percdl.transforms import Compose, Custom, Gain, Identity, Rotation, Shift, TimeWarp

S, L, P, J = 6, 9, 2, 3
TRANSFORMS = [
    Identity(),
    TimeWarp(2, 3),
    TimeWarp(2, 3, interpolation="linear", per_channel=True),
    Shift(),
    Rotation(),
    Gain(),
    Compose(TimeWarp(2, 3), Rotation()),
    Compose(Gain(), TimeWarp(2, 3), Rotation(allow_reflections=False)),
    Compose(TimeWarp(2, 3), Rotation(), Gain()),
    Compose(TimeWarp(2, 3, per_channel=True), Gain()),
    Compose(TimeWarp(2, 3), Custom(lambda phi, a: phi * jnp.exp(a), 1, linear=True)),
    Compose(Rotation(), Gain()),
]
# The sums of PerCDU when nothing is missing: one system for all channels, one for each, or one
# of all entries.
SIZES = [(1, L), (1, L), (P, L), (1, L), (1, L), (P, L)]
SIZES += [(1, L), (P, L), (1, L * P), (P, L), (1, L * P), (1, L * P)]


@partial(jax.jit, static_argnums=0)
def fast_transport(transform, params, moment, weight):
    return transform.normal_equations(params, 0 * moment[0] + 1, moment, weight)


@partial(jax.jit, static_argnums=0)
def fast_apply(transform, params, atom):
    return transform.apply(params, atom)


@partial(jax.jit, static_argnums=0)
def fast_project(transform, params):
    return transform.project(params)


def problem(transform, masked, seed=0):
    """Return parameters, J segments a subject (S, J, L, P), what is seen of them, amplitudes."""
    rng = np.random.default_rng(seed)
    raw = rng.uniform(-0.4, 0.4, (S, transform.n_params(L, P)))
    params = in_double(fast_project, transform, raw)
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
    """Return T of each subject (S, L P, L P), from ``apply`` on unit entries."""
    units = np.eye(L * P).reshape(-1, L, P)
    columns = [in_double(fast_apply, transform, params, unit).reshape(S, -1) for unit in units]
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
def test_update_is_the_dense_least_squares_solution(transform, masked):
    params, cut, seen, amplitude = problem(transform, masked)
    gram, transported = summed(transform, params, cut, seen, amplitude, masked)
    if not masked:
        assert gram.shape[:2] == SIZES[TRANSFORMS.index(transform)]
    updated = update_personal(gram[None], transported[None], np.zeros((1, L, P)))
    expected = naive.least_squares_atom(
        cut.reshape(-1, L, P),
        seen.reshape(-1, L, P),
        amplitude.ravel(),
        np.repeat(operators(transform, params), J, axis=0),
    )
    # The ridge is 1e-8 of the mean curvature.
    assert_allclose(updated[0], expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_one_step_of_a_transform_not_linear_goes_downhill():
    """The linearized sums at the old atom are its Gauss-Newton step, which is damped."""
    bend = Custom(lambda phi, a: phi + a * phi**2, 1)
    rng = np.random.default_rng(7)
    truth, params = rng.standard_normal((L, P)), rng.uniform(-0.2, 0.2, (S, 1))
    moment = in_double(fast_apply, bend, params, truth)
    weight = np.ones((S, L, 1))
    atom, errors = truth + 0.3 * rng.standard_normal((L, P)), []
    for _ in range(6):
        errors.append(np.sum((in_double(fast_apply, bend, params, atom) - moment) ** 2))
        sums = in_double(fast_linearize, bend, params, atom, moment, weight)
        atom = update_personal(*(x[None] for x in sums), atom[None], DAMPING)[0]
    assert (np.diff(errors) < 0).all()
    assert errors[-1] < 1e-6 * errors[0]


@partial(jax.jit, static_argnums=0)
def fast_linearize(transform, params, atom, moment, weight):
    return transform.normal_equations(params, atom, moment, weight)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
def test_explained_is_the_fall_of_the_squared_error(transform, masked):
    params, cut, seen, amplitude = problem(transform, masked, seed=1)
    gram, transported = summed(transform, params, cut, seen, amplitude, masked)
    atom = np.random.default_rng(2).standard_normal((L, P))
    personal = in_double(fast_apply, transform, params, atom)
    residual = seen * (cut - amplitude[..., None, None] * personal[:, None])
    fall = np.sum(cut**2) - np.sum(residual**2)
    assert_allclose(personal_explained(gram[None], transported[None], atom[None]), fall)


@pytest.mark.parametrize("masked", [False, True])
def test_identity_makes_it_cdu(masked):
    _, cut, seen, amplitude = problem(Identity(), masked, seed=3)
    gram, transported = summed(Identity(), np.zeros((S, 0)), cut, seen, amplitude, masked)
    old = np.zeros((1, L, P))
    moment = np.einsum("sj,sjlp->lp", amplitude, cut)[None]
    weight = np.einsum("sj,sjlp->lp", amplitude**2, seen)[None]
    expected, _ = update_population(moment, weight, old)
    assert_allclose(update_personal(gram[None], transported[None], old), expected, rtol=1e-6)
    assert_allclose(
        personal_explained(gram[None], transported[None], expected),
        population_explained(moment, weight),
    )


def test_an_atom_without_activations_is_kept():
    params, cut, seen, amplitude = problem(TRANSFORMS[1], False, seed=4)
    gram, transported = summed(TRANSFORMS[1], params, cut, seen, amplitude, False)
    old = np.random.default_rng(5).standard_normal((2, L, P))
    before = old.copy()
    updated = update_personal(
        np.stack([0 * gram, gram]), np.stack([0 * transported, transported]), old
    )
    assert_array_equal(updated[0], old[0])
    assert np.abs(updated[1] - old[1]).max() > 0.1
    assert_array_equal(old, before)


def test_a_sample_nobody_visits_keeps_its_value():
    """Sigma loses rank there (assumption H1); the ridge holds the old atom, rescaled."""
    old = np.random.default_rng(6).standard_normal((1, L, P))
    gram = 3 * np.eye(L)[None, None]
    gram[..., 4, 4] = 0
    transported = 2 * (gram[:, 0] @ old)
    assert_allclose(update_personal(gram, transported, old), 2 * old, rtol=1e-6)


@pytest.mark.parametrize("unit", [1.0, 2.0**-20])
def test_the_ridge_is_relative_to_the_mean_diagonal(unit):
    """It pulls towards the old atom, at the level that suits it best."""
    rng = np.random.default_rng(8)
    diagonals = unit * rng.uniform(0.5, 2, (P, L))
    right, old = unit * rng.standard_normal((L, P)), rng.standard_normal((L, P))
    gram = np.stack([np.diag(d) for d in diagonals])
    updated = update_personal(gram[None], right[None], old[None], ridge=0.5)[0]
    ridge = 0.5 * diagonals.mean()
    for p, diagonal in enumerate(diagonals):
        level = right[:, p] @ old[:, p] / np.sum(diagonal * old[:, p] ** 2)
        expected = (right[:, p] + ridge * level * old[:, p]) / (diagonal + ridge)
        assert_allclose(updated[:, p], expected)


@pytest.mark.parametrize("sizes", [(1, 2, L), (2, 1, L), (2, 2, L * P)])
def test_systems_that_do_not_match_the_atoms_are_refused(sizes):
    n_grams, n_atoms, n = sizes
    gram = np.tile(np.eye(n), (n_grams, 2, 1, 1))
    atoms = np.ones((n_atoms, L, P))
    with pytest.raises(ValueError, match="argument 2 is"):
        update_personal(gram, atoms, atoms)
    with pytest.raises(ValueError, match="argument 2 is"):
        personal_explained(gram, atoms, atoms)
