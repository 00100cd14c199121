"""One suite for every transform: list a new one in TRANSFORMS and it is covered."""

import pickle
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from double import in_double
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from percdl.exceptions import InvalidParameterError
from percdl.steps.ipu import gauss_newton, solve_parts
from percdl.transforms import (
    ChannelTransform,
    ClosedFormTransform,
    Compose,
    Custom,
    Free,
    Gain,
    Identity,
    LinearTransform,
    Modulation,
    Rotation,
    Shift,
    TimeWarp,
    WarpTransform,
    require,
)
from percdl.transforms.base import Point
from percdl.transforms.time_warp import MAX_ROW_NORM

L, P, B = 11, 2, 5


def tilt(phi, a):
    """Let the pattern grow or fade from its start to its end."""
    return phi * jnp.exp(a * jnp.linspace(-1, 1, len(phi)))[:, None]


def bend(phi, a):
    """Bend the values of the pattern: not linear in it."""
    return phi + a[0] * phi**2


def within(a):
    return jnp.clip(a, -0.3, 0.3)


TRANSFORMS = [
    Identity(),
    Free(),
    TimeWarp(1, 4),
    TimeWarp(3, 4, per_channel=True),
    TimeWarp(3, 4, interpolation="linear"),
    TimeWarp(1, 4, interpolation="linear", per_channel=True),
    TimeWarp(3, 4, interpolation="paper"),
    Shift(most=0.4),
    Rotation(),
    Rotation(allow_reflections=False),
    Gain(),
    Modulation(3),
    Custom(tilt, 1, within, linear=True),
    Custom(bend, 2, within),
    Compose(TimeWarp(2, 3), Rotation(), Gain()),
    Compose(Gain(), TimeWarp(2, 3, per_channel=True), Rotation(allow_reflections=False)),
    Compose(TimeWarp(2, 3), Custom(bend, 1, within)),
]
LINEAR = [t for t in TRANSFORMS if isinstance(t, LinearTransform)]
CONVEX = [t for t in TRANSFORMS if not isinstance(t, (Free, Rotation, Modulation, Compose))]
SHARING = [t for t in TRANSFORMS if t.shares_structure and t.n_params(L, P)]
MIXERS = [t for t in TRANSFORMS if isinstance(t, ChannelTransform)]
WARPS = [t for t in TRANSFORMS if isinstance(t, WarpTransform)]
SOLVABLE = [t for t in TRANSFORMS if isinstance(t, ClosedFormTransform)]

every = pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
every_linear = pytest.mark.parametrize("transform", LINEAR, ids=repr)
every_warp = pytest.mark.parametrize("transform", WARPS, ids=repr)
every_solvable = pytest.mark.parametrize("transform", SOLVABLE, ids=repr)


class Facts(NamedTuple):
    """What a transform says of a batch of parameters; None where it says nothing."""

    personal: np.ndarray
    square: np.ndarray
    operator: np.ndarray | None = None
    warp: np.ndarray | None = None
    point: Point | None = None
    directions: np.ndarray | None = None


@partial(jax.jit, static_argnums=0)
def tell(transform, params, atom):
    """Evaluate all that a transform declares, in one compiled program."""
    square = params[:4].reshape(2, 2, -1)
    facts = Facts(transform.apply(params, atom), transform.apply(square, atom))
    if isinstance(transform, LinearTransform):
        facts = facts._replace(operator=transform.operator(params, L, P))
    if isinstance(transform, WarpTransform):
        point = transform.evaluate(params, atom)
        facts = facts._replace(
            warp=transform.warp(params, L, P), point=point, directions=transform.directions(point)
        )
    return facts


def facts_of(transform, params, atom):
    return in_double(tell, transform, params, atom)


@cache
def compiled(transform, method):
    """Return a method compiled once for the whole suite."""
    return jax.jit(getattr(transform, method))


def call(transform, method, *args):
    return in_double(compiled(transform, method), *args)


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
    personal = facts_of(transform, np.tile(neutral, (B, 1)), unit).personal[-1]
    if getattr(transform, "interpolation", None) == "paper":
        # Its Gaussian weights mix in the line through the next two samples, with weight 0.107.
        bend = np.abs(np.diff(unit, 2, axis=0)).max()
        assert_allclose(personal[:-2], unit[:-2], atol=0.12 * bend)
        assert np.abs(personal - unit).max() > 0.05 * bend
    elif isinstance(transform, (Free, Compose)):
        assert_allclose(personal, unit, rtol=1e-14)
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
    facts = facts_of(transform, params_of(transform), an_atom())
    assert facts.personal.shape == (B, L, P)
    assert_allclose(facts.square, facts.personal[:4].reshape(2, 2, L, P), atol=1e-14)


@every
def test_projection_is_idempotent_and_stays_in_theta(transform):
    raw = 2 * np.random.default_rng(1).standard_normal((B, transform.n_params(L, P)))
    once = call(transform, "project", raw)
    assert_allclose(call(transform, "project", once), once, atol=1e-14)
    if isinstance(transform, TimeWarp):
        rows = np.abs(once).reshape(B, -1, transform.width).sum(-1)
        assert rows.max() <= MAX_ROW_NORM + 1e-12
        assert rows.max() > MAX_ROW_NORM - 1e-6


@pytest.mark.parametrize("transform", CONVEX, ids=repr)
def test_projection_brings_points_no_further_apart(transform):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((2, B, transform.n_params(L, P)))
    closer = call(transform, "project", a) - call(transform, "project", b)
    assert (np.linalg.norm(closer, axis=1) <= np.linalg.norm(a - b, axis=1) + 1e-12).all()


@pytest.mark.parametrize("transform", [t for t in TRANSFORMS if t.linear], ids=repr)
def test_apply_is_linear(transform):
    params, x, y = params_of(transform), an_atom(1), an_atom(2)
    of_x, of_y, of_both = (facts_of(transform, params, a).personal for a in (x, y, 2 * x - 3 * y))
    assert_allclose(of_both, 2 * of_x - 3 * of_y, atol=1e-12)


def whole(operator):
    """Return an operator as matrices (B, L P, L P), whatever it acts on."""
    if operator.shape[-1] == L * P:
        return operator[:, 0]
    by_channel = np.broadcast_to(operator, (B, P, L, L))
    return np.einsum("bplm,pq->blpmq", by_channel, np.eye(P)).reshape(B, L * P, L * P)


@every
def test_parameters_have_names_of_their_own(transform):
    names = transform.param_names(L, ("x", "y"))
    assert len({*names}) == len(names) == transform.n_params(L, P)


@every
def test_descriptions_are_one_number_per_person_and_of_equal_people_equal(transform):
    rest = np.asarray(transform.neutral(jnp.asarray(an_atom())), float)
    told = transform.describe(np.stack([rest, rest]), L, ("x", "y"), 100.0)
    for values in told.values():
        assert values.shape == (2,)
        assert values[0] == values[1]
    assert transform.in_words


@every_linear
def test_apply_is_given_by_the_operator(transform):
    atom = an_atom(1)
    facts = facts_of(transform, params_of(transform), atom)
    product = whole(facts.operator) @ atom.ravel()
    assert_allclose(product.reshape(B, L, P), facts.personal, atol=1e-12)


@every_linear
def test_the_transposed_operator_is_the_adjoint(transform):
    x, y = an_atom(1), an_atom(2)
    facts = facts_of(transform, params_of(transform), x)
    back = y.ravel() @ whole(facts.operator)
    forth = np.sum(facts.personal * y, axis=(1, 2))
    assert_allclose(forth, back @ x.ravel(), atol=1e-12)


@every_warp
def test_warp_equals_the_formula(transform):
    params = params_of(transform, seed=3)
    warp = facts_of(transform, params, an_atom()).warp
    layers = params.reshape(B, warp.shape[1], transform.depth, transform.width)
    expected = [[naive.warp(one, L) for one in of_subject] for of_subject in layers]
    assert_allclose(warp, expected, atol=1e-12)
    assert_array_equal(warp[..., [0, -1]], np.broadcast_to([0, L - 1], (*warp.shape[:2], 2)))


@every_warp
def test_jacobians_equal_finite_differences(transform):
    # Small warps: interpolation is smooth only between knots, so no position may cross one.
    params, atom, step = params_of(transform, seed=4, size=0.2), an_atom(), 1e-6
    facts = facts_of(transform, params, atom)
    point, directions = facts.point, facts.directions
    assert_allclose(point.value, facts.personal, atol=1e-14)
    if point.warps is not None:
        assert_allclose(point.warps, facts.warp, atol=1e-14)
    size = directions.shape[-2]
    for m in range(params.shape[1]):
        nudge = step * np.eye(params.shape[1])[m]
        up, down = (facts_of(transform, end, atom) for end in (params + nudge, params - nudge))
        expected = np.zeros_like(facts.warp)
        expected[:, m // size] = directions[:, m // size, m % size]
        assert_allclose((up.warp - down.warp) / (2 * step), expected, atol=1e-7)
        motion = np.swapaxes(np.broadcast_to(expected, (B, P, L)), 1, 2)
        change = (up.personal - down.personal) / (2 * step)
        assert_allclose(change, point.slope * motion, atol=1e-6)


NOT_WARPS = [t for t in SHARING if not isinstance(t, WarpTransform)]


@pytest.mark.parametrize("transform", NOT_WARPS, ids=repr)
def test_derivatives_along_moves_equal_finite_differences(transform):
    params, atom, step = params_of(transform, seed=4, size=0.2), an_atom(), 1e-6
    point = in_double(fast_evaluate, transform, params, atom)
    directions = in_double(fast_moves, transform, params, atom)[:, 0]
    n_moves = transform.n_moves(L, P)
    assert directions.shape == (B, n_moves, L * P)
    assert_array_equal(point.slope, 1)
    for m in range(n_moves):
        nudge = step * np.tile(np.eye(n_moves)[m], (B, 1))
        up, down = (
            facts_of(transform, call(transform, "move", params, end), atom).personal
            for end in (nudge, -nudge)
        )
        change = ((up - down) / (2 * step)).reshape(B, -1)
        assert_allclose(change, directions[:, m], atol=1e-6)


@partial(jax.jit, static_argnums=0)
def fast_evaluate(transform, params, atom):
    return transform.evaluate(params, atom)


@partial(jax.jit, static_argnums=0)
def fast_moves(transform, params, atom):
    return transform.directions(transform.evaluate(params, atom))


@pytest.mark.parametrize("turn", range(4))
@pytest.mark.parametrize("depth", [2, 3, 4, 5])
def test_a_turn_moves_layers_in_groups(depth, turn):
    """Its directions are sums of parameters, and a step along one says of which."""
    transform = TimeWarp(depth, 14, per_channel=True)
    params, atom = params_of(transform, size=0.3), an_atom()
    one_by_one, grouped = in_double(fast_directions, transform, params, atom, turn)
    size = grouped.shape[-2]
    assert size == 28
    changes = in_double(fast_steps, transform, np.eye(P * size).reshape(-1, P, size), turn)
    for m, change in enumerate(changes):
        assert set(change) <= {0, 1}
        assert 1 <= change.sum() <= -(-depth // 2)
        motion = np.einsum("bcml,cm->bcl", one_by_one, change.reshape(P, -1))
        assert_allclose(motion[:, m // size], grouped[:, m // size, m % size], atol=1e-12)
    assert_array_equal(changes.sum(0), 1)


@partial(jax.jit, static_argnums=0)
def fast_directions(transform, params, atom, turn):
    """Return the directions one by one, and in the groups of a turn."""
    point = transform.evaluate(params, atom)
    return transform.directions(point), transform.directions(point, turn)


@partial(jax.jit, static_argnums=0)
def fast_steps(transform, steps, turn):
    still = jnp.zeros(transform.n_params(L, P))
    return jax.vmap(partial(transform.step, still), (0, None))(steps, turn)


def test_turns_reach_every_layer_by_itself():
    transform = TimeWarp(4, 16)
    steps = np.eye(32)[:, None]
    changes = [in_double(fast_steps, transform, steps, turn) for turn in range(3)]
    assert np.linalg.matrix_rank(np.concatenate(changes)) == transform.n_params(L, P)


@every_warp
def test_a_known_warp_is_approximated(transform):
    params = params_of(transform, seed=7, size=0.1)
    warp = facts_of(transform, params, an_atom()).warp
    found = facts_of(transform, call(transform, "approximate", warp), an_atom()).warp
    moved = np.abs(warp - np.arange(L)).max()
    assert moved > 0.2
    assert np.abs(found - warp).max() < 0.1 * moved


@every_linear
@pytest.mark.parametrize("masked", [False, True])
def test_normal_equations_are_those_of_the_operator(transform, masked):
    rng = np.random.default_rng(8)
    params, moment = params_of(transform), rng.standard_normal((B, L, P))
    weights = [rng.uniform(0, 2, (B, L, n)) for n in (1, P)]
    sums = in_double(fast_sums, transform, params, an_atom(), moment, weights)
    weight, (gram, right) = weights[masked], sums[masked]
    operator = whole(facts_of(transform, params, an_atom()).operator)
    weights = np.broadcast_to(weight, (B, L, P)).reshape(B, -1, 1)
    expected = np.einsum("bnm,bnk->mk", operator * weights, operator)
    if gram.shape[-1] == L:
        by_channel = np.broadcast_to(gram, (P, L, L))
        gram = np.einsum("plm,pq->lpmq", by_channel, np.eye(P)).reshape(1, L * P, L * P)
    assert_allclose(gram[0], expected, atol=1e-12)
    assert_allclose(right.ravel(), np.einsum("bnm,bn->m", operator, moment.reshape(B, -1)))


@partial(jax.jit, static_argnums=0)
def fast_sums(transform, params, atom, moment, weights):
    return [transform.normal_equations(params, atom, moment, weight) for weight in weights]


@pytest.mark.parametrize("transform", [t for t in SHARING if not isinstance(t, Compose)], ids=repr)
def test_the_identity_composes_away(transform):
    params, atom = params_of(transform, size=0.3), an_atom()
    expected = facts_of(transform, params, atom).personal
    both = Compose(Identity(), transform), Compose(transform, Identity())
    for composed, personal in zip(both, in_double(fast_apply, both, params, atom), strict=True):
        composed.validate()
        assert composed.n_params(L, P) == transform.n_params(L, P)
        assert_allclose(personal, expected, atol=1e-13)


@partial(jax.jit, static_argnums=0)
def fast_apply(transforms, params, atom):
    return [transform.apply(params, atom) for transform in transforms]


@pytest.mark.parametrize("transform", SHARING, ids=repr)
def test_known_parameters_are_recovered(transform):
    """From clean moments, whatever solves the transform finds the personal atoms again."""
    # Smooth, for interpolation leaves local minima between the samples of a rough one.
    time = np.linspace(0, 1, L)
    atom = np.stack([np.sin(3 * time) + 0.2, np.cos(4 * time)], axis=1)
    params = params_of(transform, seed=10, size=0.15)
    personal = facts_of(transform, params, atom).personal
    found = in_double(fast_solve, transform, atom, personal, np.ones((B, L, 1)))
    again = facts_of(transform, found, atom).personal

    def unit(x):
        return x / np.linalg.norm(x, axis=(1, 2), keepdims=True)

    assert_allclose(unit(again), unit(personal), atol=1e-3)


@partial(jax.jit, static_argnums=0)
def fast_solve(transform, atom, moment, weight):
    if isinstance(transform, ClosedFormTransform):
        return transform.solve(atom, moment, weight)
    start = jnp.tile(transform.neutral(atom), (B, 1))
    start = solve_parts(transform, atom, moment, weight, start)
    return gauss_newton(transform, atom, moment, weight, start, 60, 1e-12)[0]


@pytest.mark.parametrize("transform", MIXERS, ids=repr)
def test_mixtures_form_a_group(transform):
    """Unmixing undoes, and a personal atom is the same seen from an atom mixed before."""
    params, gauge = params_of(transform, seed=1), params_of(transform, seed=2)[0]
    atom = an_atom()
    personal = facts_of(transform, params, atom).personal
    assert_allclose(
        call(transform, "unmix", params, personal), np.tile(atom, (B, 1, 1)), atol=1e-12
    )
    mixed = call(transform, "apply", gauge, atom)
    relative = call(transform, "relative", params, gauge)
    assert_allclose(facts_of(transform, relative, mixed).personal, personal, atol=1e-12)
    assert_allclose(call(transform, "project", relative), relative, atol=1e-12)


def test_rotations_only_have_determinant_one():
    rng = np.random.default_rng(3)
    moment, weight = rng.standard_normal((50, L, 3)), np.ones((50, L, 1))
    atom = rng.standard_normal((L, 3))
    for reflections in (False, True):
        turn = Rotation(allow_reflections=reflections)
        matrices = call(turn, "solve", atom, moment, weight).reshape(-1, 3, 3)
        determinants = np.linalg.det(matrices)
        assert_allclose(
            matrices @ matrices.transpose(0, 2, 1), np.tile(np.eye(3), (50, 1, 1)), atol=1e-12
        )
        assert_allclose(np.abs(determinants), 1)
        assert (determinants < 0).any() == reflections


@pytest.mark.parametrize("reflections", [False, True])
def test_the_rotation_of_the_lemma_is_that_of_automatic_differentiation(reflections):
    rng = np.random.default_rng(4)
    turn = Rotation(allow_reflections=reflections)
    atom = rng.standard_normal((L, 3))
    moment = rng.standard_normal((B, L, 3)) + 2 * atom
    weight = rng.uniform(0.5, 2, (B, L, 1))
    closed = call(turn, "solve", atom, moment, weight)
    start = np.tile(np.eye(3).ravel(), (B, 1))
    differentiated, _ = in_double(fast_newton, turn, atom, moment, weight, start)
    assert_allclose(differentiated, closed, atol=1e-4)


@partial(jax.jit, static_argnums=0)
def fast_newton(transform, atom, moment, weight, start):
    return gauss_newton(transform, atom, moment, weight, start, 200, 0.0)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (Compose(), "at least one transform"),
        (Compose(Free()), r"cannot hold Free\(\)"),
        (Compose(TimeWarp(), TimeWarp()), "holds 2 time warps"),
        (Compose(Rotation(), TimeWarp(per_channel=True)), "put the warp first"),
        (Compose(TimeWarp(depth=0)), r"`TimeWarp\(depth=0\)`"),
        (Custom(tilt, 0), r"`Custom\(n_params=0\)`"),
        (Custom(tilt, 2, neutral=[0]), "has 1 numbers, but n_params is 2"),
        (Shift(most=0), r"`Shift\(most=0\)`"),
        (Modulation(knots=0), r"`Modulation\(knots=0\)`"),
    ],
)
def test_what_cannot_be_composed_is_refused(transform, message):
    with pytest.raises(InvalidParameterError, match=message):
        transform.validate()


def test_a_function_that_changes_the_atom_at_rest_is_refused():
    scale = Custom(lambda phi, a: phi * a[0], 1)
    with pytest.raises(InvalidParameterError, match=r"at \[0.0\] the function changes the atom"):
        scale.neutral(jnp.asarray(an_atom()))
    Custom(lambda phi, a: phi * a[0], 1, neutral=[1.0]).neutral(jnp.asarray(an_atom()))


def test_a_function_that_returns_no_atom_is_refused():
    with pytest.raises(InvalidParameterError, match=r"returned \(2, 11\)"):
        Custom(lambda phi, a: phi.T, 1).neutral(jnp.asarray(an_atom()))


STEEP = TimeWarp(3, 4, interpolation="linear")


@given(hnp.arrays(float, (B, STEEP.n_params(L, P)), elements=st.floats(-20, 20)))
def test_warps_increase_with_fixed_ends(raw):
    warp = facts_of(STEEP, call(STEEP, "project", raw), an_atom()).warp
    assert (np.diff(warp) > 0).all()
    assert_array_equal(warp[..., 0], 0)
    assert_array_equal(warp[..., -1], L - 1)
    params = compiled(STEEP, "project")(raw.astype(np.float32))
    single = tell(STEEP, params, an_atom().astype(np.float32)).warp
    assert (np.diff(single) > -1e-5).all()


def test_a_subject_ahead_of_the_population_has_passed_its_peak():
    """``psi' > 1`` at the start: there the subject is faster, so its peak comes earlier."""
    atom = np.repeat(np.exp(-0.5 * (np.arange(L)[:, None] - 5) ** 2), P, axis=1)
    facts = facts_of(TimeWarp(1, 4), np.tile([0.9, 0, 0, 0], (B, 1)), atom)
    warp = facts.warp[0, 0]
    assert warp[1] > 1.5
    assert warp[-1] - warp[-2] < 0.5
    assert facts.personal[0, :, 0].argmax() < 5


@every_solvable
def test_closed_form_explains_most(transform):
    rng = np.random.default_rng(5)
    moment, weight = rng.standard_normal((B, L, P)), rng.uniform(0.5, 2, (B, L, P))
    atom = an_atom() / np.linalg.norm(an_atom())
    best = facts_of(transform, call(transform, "solve", atom, moment, weight), atom).personal

    def explained(g):
        match = np.maximum(np.sum(moment * g, axis=(-2, -1)), 0)
        return match**2 / np.sum(weight * g**2, axis=(-2, -1))

    for seed in range(20):
        rival = facts_of(transform, params_of(transform, seed=seed), atom).personal
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


@pytest.mark.parametrize("mixers", [(Rotation(),), (Gain(), Rotation()), (Rotation(), Gain())])
def test_unmixing_leaves_the_warped_atom(mixers):
    warp = TimeWarp(1, 4)
    whole = Compose(warp, *mixers)
    params, atom = params_of(whole), an_atom()
    unmixed = call(whole, "unmix", params, call(whole, "apply", params, atom))
    alone = call(warp, "apply", params[:, : warp.n_params(L, P)], atom)
    assert_allclose(unmixed, alone, atol=1e-12)


@pytest.mark.parametrize(
    ("stages", "mixer"),
    [
        ((TimeWarp(1, 4), Rotation()), Rotation()),
        ((Shift(), Gain(), TimeWarp(1, 4)), Gain()),
        ((Modulation(), Rotation()), None),
        ((TimeWarp(1, 4, per_channel=True), Rotation()), None),
        ((TimeWarp(1, 4, per_channel=True), Gain()), Gain()),
        ((TimeWarp(1, 4),), None),
    ],
)
def test_mixtures_are_a_freedom_only_where_all_before_them_commutes(stages, mixer):
    part = Compose(*stages).channel_part(L, P)
    if mixer is None:
        assert part is None
        return
    at = [repr(stage) for stage in stages].index(repr(mixer))
    before = sum(stage.n_params(L, P) for stage in stages[:at])
    assert part == (mixer, slice(before, before + mixer.n_params(L, P)))
