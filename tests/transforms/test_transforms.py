"""One suite for every transform: list a new one in TRANSFORMS and it is covered."""

import pickle
from functools import cache

import jax
import naive
import numpy as np
import pytest
from double import in_double
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from percdl.exceptions import InvalidParameterError
from percdl.transforms import (
    ClosedFormTransform,
    Free,
    Identity,
    LinearTransform,
    TimeWarp,
    WarpTransform,
    require,
)
from percdl.transforms.time_warp import MAX_ROW_NORM

L, P, B = 11, 2, 5

TRANSFORMS = [
    Identity(),
    Free(),
    TimeWarp(1, 4),
    TimeWarp(3, 4, per_channel=True),
    TimeWarp(3, 4, interpolation="linear"),
    TimeWarp(1, 4, interpolation="linear", per_channel=True),
    TimeWarp(3, 4, interpolation="paper"),
]
LINEAR = [t for t in TRANSFORMS if isinstance(t, LinearTransform)]
WARPS = [t for t in TRANSFORMS if isinstance(t, WarpTransform)]
SOLVABLE = [t for t in TRANSFORMS if isinstance(t, ClosedFormTransform)]

every = pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
every_linear = pytest.mark.parametrize("transform", LINEAR, ids=repr)
every_warp = pytest.mark.parametrize("transform", WARPS, ids=repr)
every_solvable = pytest.mark.parametrize("transform", SOLVABLE, ids=repr)


@cache
def compiled(transform, method, *static):
    """Return a method compiled once for the whole suite."""
    return jax.jit(getattr(transform, method), static_argnums=static)


def call(transform, method, *args):
    """Call a method in double precision; whole numbers are static."""
    static = tuple(i for i, arg in enumerate(args) if isinstance(arg, int))
    return in_double(compiled(transform, method, *static), *args)


def params_of(transform, seed=0, size=1.0):
    """Return B sets of parameters inside Theta."""
    rng = np.random.default_rng(seed)
    raw = size * rng.standard_normal((B, transform.n_params(L, P)))
    return call(transform, "project", raw)


def an_atom(seed=0):
    return np.random.default_rng(seed).standard_normal((L, P))


@every
def test_neutral_parameters_give_the_atom(transform):
    unit = an_atom() / np.linalg.norm(an_atom())
    neutral = call(transform, "neutral", unit)
    assert neutral.shape == (transform.n_params(L, P),)
    personal = call(transform, "apply", neutral, unit)
    if getattr(transform, "interpolation", None) == "paper":
        # Its Gaussian weights mix in the line through the next two samples, with weight 0.107.
        bend = np.abs(np.diff(unit, 2, axis=0)).max()
        assert_allclose(personal[:-2], unit[:-2], atol=0.12 * bend)
        assert np.abs(personal - unit).max() > 0.05 * bend
    elif isinstance(transform, Free):
        assert_allclose(personal, unit, rtol=1e-15)
    else:
        assert_array_equal(personal, unit)


@pytest.mark.parametrize("transform", [t for t in WARPS if t.interpolation != "paper"], ids=repr)
def test_zero_parameters_are_exact_in_single_precision_too(transform):
    atom = an_atom().astype(np.float32)
    zeros = np.zeros((B, transform.n_params(L, P)), np.float32)
    personal = compiled(transform, "apply")(zeros, atom)
    assert personal.dtype == np.float32
    assert_array_equal(personal, np.broadcast_to(atom, (B, L, P)))


@every
def test_batches_have_any_shape(transform):
    params, atom = params_of(transform), an_atom()
    personal = call(transform, "apply", params, atom)
    assert personal.shape == (B, L, P)
    square = params[:4].reshape(2, 2, -1)
    assert_allclose(
        call(transform, "apply", square, atom), personal[:4].reshape(2, 2, L, P), atol=1e-14
    )


@every
def test_projection_is_idempotent_and_stays_in_theta(transform):
    raw = 2 * np.random.default_rng(1).standard_normal((B, transform.n_params(L, P)))
    once = call(transform, "project", raw)
    assert_allclose(call(transform, "project", once), once, atol=1e-15)
    if isinstance(transform, TimeWarp):
        rows = np.abs(once).reshape(B, -1, transform.width).sum(-1)
        assert rows.max() <= MAX_ROW_NORM + 1e-12
        assert rows.max() > MAX_ROW_NORM - 1e-6


@pytest.mark.parametrize("transform", LINEAR, ids=repr)  # Theta of these is convex
def test_projection_brings_points_no_further_apart(transform):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((2, B, transform.n_params(L, P)))
    closer = call(transform, "project", a) - call(transform, "project", b)
    assert (np.linalg.norm(closer, axis=1) <= np.linalg.norm(a - b, axis=1) + 1e-12).all()


@every_linear
def test_apply_is_linear_and_given_by_the_operator(transform):
    params, x, y = params_of(transform), an_atom(1), an_atom(2)
    combined = call(transform, "apply", params, 2 * x - 3 * y)
    parts = 2 * call(transform, "apply", params, x) - 3 * call(transform, "apply", params, y)
    assert_allclose(combined, parts, atol=1e-12)
    operator = call(transform, "operator", params, L, P)
    n_warps = P if getattr(transform, "per_channel", False) else 1
    assert operator.shape == (B, n_warps, L, L)
    product = np.einsum("bplm,mp->blp", np.broadcast_to(operator, (B, P, L, L)), x)
    assert_allclose(product, call(transform, "apply", params, x), atol=1e-12)


@every_linear
def test_the_transposed_operator_is_the_adjoint(transform):
    params, x, y = params_of(transform), an_atom(1), an_atom(2)
    back = call(transform, "operator", params, L, P)
    back = np.einsum("bplm,lp->bmp", np.broadcast_to(back, (B, P, L, L)), y)
    forth = call(transform, "apply", params, x)
    assert_allclose(np.sum(forth * y, axis=(1, 2)), np.sum(back * x, axis=(1, 2)), atol=1e-12)


@every_warp
def test_warp_equals_the_formula(transform):
    params = params_of(transform, seed=3)
    warp = call(transform, "warp", params, L, P)
    layers = params.reshape(B, warp.shape[1], transform.depth, transform.width)
    expected = [[naive.warp(one, L) for one in of_subject] for of_subject in layers]
    assert_allclose(warp, expected, atol=1e-12)
    assert_array_equal(warp[..., [0, -1]], np.broadcast_to([0, L - 1], (*warp.shape[:2], 2)))


@every_warp
def test_jacobians_equal_finite_differences(transform):
    # Small warps: interpolation is smooth only between knots, so no position may cross one.
    params, atom, step = params_of(transform, seed=4, size=0.2), an_atom(), 1e-6
    warp, jacobian = call(transform, "warp_jacobian", params, L, P)
    value, slope, basis = call(transform, "linearize", params, atom)
    assert_array_equal(basis, jacobian)
    assert_allclose(warp, call(transform, "warp", params, L, P), atol=1e-14)
    assert_allclose(value, call(transform, "apply", params, atom), atol=1e-14)
    n_warps, size = jacobian.shape[1], jacobian.shape[-1]
    for m in range(params.shape[1]):
        nudge = step * np.eye(params.shape[1])[m]
        ends = params + nudge, params - nudge
        moved = [call(transform, "warp", end, L, P) for end in ends]
        shape = [call(transform, "apply", end, atom) for end in ends]
        expected = np.zeros_like(warp)
        expected[:, m // size] = jacobian[:, m // size, :, m % size]
        assert_allclose((moved[0] - moved[1]) / (2 * step), expected, atol=1e-7)
        motion = np.swapaxes(np.broadcast_to(expected, (B, max(n_warps, P), L)), 1, 2)
        assert_allclose((shape[0] - shape[1]) / (2 * step), slope * motion, atol=1e-6)


RAW = hnp.arrays(float, (B, 12), elements=st.floats(-20, 20))


@given(RAW)
def test_warps_increase_with_fixed_ends(raw):
    transform = TimeWarp(3, 4)
    warp = call(transform, "warp", call(transform, "project", raw), 21, 1)
    assert (np.diff(warp) > 0).all()
    assert_array_equal(warp[..., 0], 0)
    assert_array_equal(warp[..., -1], 20)
    single = compiled(transform, "warp", 1, 2)(
        compiled(transform, "project")(raw.astype(np.float32)), 21, 1
    )
    assert (np.diff(single) > -1e-5).all()


def test_a_subject_ahead_of_the_population_has_passed_its_peak():
    """``psi' > 1`` at the start: there the subject is faster, so its peak comes earlier."""
    transform = TimeWarp(1, 4)
    atom = np.repeat(np.exp(-0.5 * (np.arange(L)[:, None] - 5) ** 2), P, axis=1)
    params = np.array([0.9, 0, 0, 0])
    warp = call(transform, "warp", params, L, P)[0]
    assert warp[1] > 1.5
    assert warp[-1] - warp[-2] < 0.5
    assert call(transform, "apply", params, atom)[:, 0].argmax() < 5


@every_solvable
def test_closed_form_explains_most(transform):
    rng = np.random.default_rng(5)
    moment, weight = rng.standard_normal((B, L, P)), rng.uniform(0.5, 2, (B, L, P))
    atom = an_atom() / np.linalg.norm(an_atom())
    best = call(transform, "apply", call(transform, "solve", atom, moment, weight), atom)

    def explained(g):
        return np.sum(moment * g, axis=(-2, -1)) ** 2 / np.sum(weight * g**2, axis=(-2, -1))

    for seed in range(20):
        other = params_of(transform, seed=seed)
        rival = call(transform, "apply", other, atom)
        assert (explained(best) >= explained(rival) - 1e-12).all()


def test_closed_form_of_free_ignores_what_is_missing():
    rng = np.random.default_rng(6)
    moment, weight = rng.standard_normal((B, L, P)), rng.uniform(0.5, 2, (B, L, P))
    moment[:, 3], weight[:, 3] = 0, 0
    atoms = call(Free(), "solve", an_atom(), moment, weight).reshape(B, L, P)
    assert not atoms[:, 3].any()
    assert_allclose(np.linalg.norm(atoms, axis=(1, 2)), 1)


@every
def test_a_transform_is_a_frozen_value(transform):
    twin = pickle.loads(pickle.dumps(transform))
    assert twin == transform
    assert hash(twin) == hash(transform)
    assert sum(other == transform for other in TRANSFORMS) == 1
    with pytest.raises(AttributeError):
        transform.depth = 9
    transform.validate()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("depth", 0, r"`TimeWarp\(depth=0\)` must be an integer of at least 1"),
        ("width", 2.5, r"`TimeWarp\(width=2.5\)` must be an integer of at least 1"),
        ("interpolation", "sinc", r"`TimeWarp\(interpolation='sinc'\)` must be one of cubic, lin"),
    ],
)
def test_hyper_parameters_out_of_range_are_named(name, value, message):
    transform = TimeWarp()
    object.__setattr__(transform, name, value)  # past the type checks that tests switch on
    with pytest.raises(InvalidParameterError, match=message):
        transform.validate()


def test_a_step_says_what_it_misses():
    require(TimeWarp(), LinearTransform, "PerCDU", "")
    with pytest.raises(
        InvalidParameterError,
        match=r"`PerCDU` cannot use `Free`: .* `LinearTransform`\. Missing `operator`\. Go on\.",
    ):
        require(Free(), LinearTransform, "PerCDU", "Go on.")
