"""Joint descent on parameters and a copy of the atom: its objective, its steps, its average."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.steps.joint import average_copies, descend, local_misfit
from percdl.transforms import Compose, Custom, Gain, Identity, Rotation, TimeWarp

B, L, P, J = 5, 12, 2, 3
BEND = Custom(lambda phi, a: phi + a * phi**2, 1)  # not linear in the atom
TRANSFORMS = [
    TimeWarp(2, 3),
    TimeWarp(1, 3, interpolation="linear", per_channel=True),
    Compose(Gain(), TimeWarp(1, 3), Rotation()),
    BEND,
]
over_transforms = pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
whole_or_gaps = pytest.mark.parametrize("gaps", [False, True], ids=["whole", "gaps"])

fast_descend = jax.jit(descend, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def fast_misfits(transform, params, copies, moment, weight):
    return jax.vmap(partial(local_misfit, transform))(params, copies, moment, weight)


@partial(jax.jit, static_argnums=0)
def fast_slopes(transform, params, copies, moment, weight):
    slope = jax.grad(partial(local_misfit, transform), (0, 1))
    return jax.vmap(slope)(params, copies, moment, weight)


@partial(jax.jit, static_argnums=0)
def fast_project(transform, params):
    return transform.project(params)


@partial(jax.jit, static_argnums=0)
def fast_personal(transform, params, copies):
    return jax.vmap(transform.apply)(params, copies)


def an_atom():
    time = np.linspace(0, 1, L)[:, None]
    return (np.sin(4 * np.pi * time) + 0.4) * np.array([1, 0.6]) / 3


def some_params(transform, size=0.3):
    rng = np.random.default_rng(0)
    rest = in_double(transform.neutral, an_atom())
    return in_double(fast_project, transform, rest + size * rng.uniform(-1, 1, (B, rest.size)))


def some_segments(transform, noise, gaps=False):
    """Return segments (B, J, L, P), amplitudes (B, J), what was seen, and the parameters."""
    rng = np.random.default_rng(1)
    params = some_params(transform)
    common = np.broadcast_to(an_atom(), (B, L, P))
    personal = in_double(fast_personal, transform, params, common)
    amplitude = rng.uniform(0.7, 1.3, (B, J))
    segments = amplitude[:, :, None, None] * personal[:, None]
    segments = segments + noise * rng.standard_normal(segments.shape)
    seen = rng.random(segments.shape) > 0.3 if gaps else np.ones(segments.shape)
    return segments, amplitude, seen.astype(float), params


def statistics(segments, amplitude, seen):
    return (
        np.einsum("bj,bjlp->blp", amplitude, segments * seen),
        np.einsum("bj,bjlp->blp", amplitude**2, seen),
    )


def nearby(noise=0.2, seed=2):
    """Return another atom for each subject."""
    return an_atom() + noise * np.random.default_rng(seed).standard_normal((B, L, P))


@whole_or_gaps
@over_transforms
def test_misfit_is_that_of_the_segments(transform, gaps):
    """Between two copies it changes as the squared residual of all segments does."""
    segments, amplitude, seen, params = some_segments(transform, 0.1, gaps)
    moment, weight = statistics(segments, amplitude, seen)
    changes = []
    for copies in (nearby(seed=2), nearby(seed=3)):
        personal = in_double(fast_personal, transform, params, copies)
        off = segments - amplitude[:, :, None, None] * personal[:, None]
        direct = (seen * off**2).sum((1, 2, 3))
        changes.append(direct - in_double(fast_misfits, transform, params, copies, moment, weight))
    assert_allclose(changes[0], changes[1], rtol=1e-9)


@over_transforms
def test_gradient_in_both(transform):
    segments, amplitude, seen, params = some_segments(transform, 0.1, gaps=True)
    moment, weight = statistics(segments, amplitude, seen)
    copies, rng, size = nearby(), np.random.default_rng(4), 1e-6
    slopes = in_double(fast_slopes, transform, params, copies, moment, weight)
    ways = [rng.standard_normal(x.shape) for x in (params, copies)]

    def moved(size):
        point = (x + size * way for x, way in zip((params, copies), ways, strict=True))
        return in_double(fast_misfits, transform, *point, moment, weight)

    expected = (moved(size) - moved(-size)) / (2 * size)
    along = sum(
        (slope * way).reshape(B, -1).sum(1) for slope, way in zip(slopes, ways, strict=True)
    )
    assert_allclose(along, expected, rtol=1e-5)


@whole_or_gaps
@over_transforms
def test_nobody_is_ever_worse_off(transform, gaps):
    segments, amplitude, seen, _ = some_segments(transform, 0.2, gaps)
    moment, weight = statistics(segments, amplitude, seen)
    params = some_params(transform, size=0.1)
    start = np.broadcast_to(an_atom(), (B, L, P))
    misfits = [in_double(fast_misfits, transform, params, start, moment, weight)]
    for n_steps in (1, 2, 4):
        moved, copies = in_double(
            fast_descend, transform, an_atom(), moment, weight, params, n_steps
        )
        assert_allclose(in_double(fast_project, transform, moved), moved, atol=1e-12)
        misfits.append(in_double(fast_misfits, transform, moved, copies, moment, weight))
    assert (np.diff(misfits, axis=0) <= 0).all()  # a step may be refused, and halved
    assert (misfits[-1] < 0.9 * misfits[0]).all()


@over_transforms
def test_without_steps_the_average_is_the_dictionary(transform):
    moment, weight = statistics(*some_segments(transform, 0.2)[:3])
    params = some_params(transform)
    moved, copies = in_double(fast_descend, transform, an_atom(), moment, weight, params, 0)
    assert_array_equal(moved, params)
    dictionary = an_atom()[None]
    averaged = average_copies(copies.sum(0)[None], np.array([float(B)]), dictionary)
    assert_allclose(averaged, dictionary, atol=1e-15)


@whole_or_gaps
@over_transforms
def test_the_truth_stays(transform, gaps):
    segments, amplitude, seen, params = some_segments(transform, 0.0, gaps)
    moment, weight = statistics(segments, amplitude, seen)
    moved, copies = in_double(fast_descend, transform, an_atom(), moment, weight, params, 3)
    assert_allclose(moved, params, atol=1e-12)
    assert_allclose(copies, np.broadcast_to(an_atom(), copies.shape), atol=1e-12)


@pytest.mark.parametrize("n_steps", [1, 2, 5])
def test_each_step_halves_the_way_to_the_mean_segment(n_steps):
    segments, amplitude, seen, params = some_segments(Identity(), 0.3)
    moment, weight = statistics(segments, amplitude, seen)
    _, copies = in_double(fast_descend, Identity(), an_atom(), moment, weight, params, n_steps)
    mean = moment / weight
    assert_allclose(copies, mean + 0.5**n_steps * (an_atom() - mean), atol=1e-12)


def test_what_nobody_saw_keeps_the_common_value():
    segments, amplitude, seen, params = some_segments(Gain(), 0.3)
    seen[:, :, 4:7, 1] = 0
    seen[2] = 0  # a subject without the atom
    moment, weight = statistics(segments, amplitude, seen)
    _, copies = in_double(fast_descend, Gain(), an_atom(), moment, weight, params, 3)
    assert_array_equal(copies[:, 4:7, 1], np.broadcast_to(an_atom()[4:7, 1], (B, 3)))
    assert_array_equal(copies[2], an_atom())
    assert np.abs(copies[[0, 1, 3, 4]] - an_atom()).max() > 0.05


def test_copies_depend_neither_on_the_number_of_cycles_nor_on_company():
    moment, weight = statistics(*some_segments(TimeWarp(2, 3), 0.2)[:3])
    params = some_params(TimeWarp(2, 3))
    _, together = in_double(fast_descend, TimeWarp(2, 3), an_atom(), moment, weight, params, 3)
    alone = [np.tile(x[1:2], (B, *[1] * (x.ndim - 1))) for x in (7 * moment, 7 * weight, params)]
    _, copies = in_double(fast_descend, TimeWarp(2, 3), an_atom(), *alone, 3)
    assert_allclose(copies, np.tile(together[1], (B, 1, 1)), rtol=1e-12)


def test_an_atom_that_nobody_has_is_kept():
    dictionary = np.stack([an_atom(), 2 * an_atom(), 3 * an_atom()])
    sums = np.stack([4 * nearby()[0], 0 * an_atom(), nearby()[1]])
    averaged = average_copies(sums, np.array([4.0, 0.0, 1.0]), dictionary)
    assert_allclose(averaged, [nearby()[0], 2 * an_atom(), nearby()[1]])


@pytest.mark.parametrize("reach", [0.1, 3.0])
def test_steps_have_the_length_of_polyak_or_less(reach):
    """At most one, and half of it after each step that would not lower the misfit."""
    curved = Custom(lambda phi, a: phi * jnp.exp(9 * a), 1)
    segments, amplitude, seen, params = some_segments(curved, 0.5, gaps=True)
    moment, weight = statistics(segments, amplitude, seen)
    params = 0 * params + np.log(reach) / 9
    scale = weight[0].size / weight.sum((1, 2))
    n_steps, n_refused = 4, 0
    found = in_double(fast_descend, curved, an_atom(), moment, weight, params, n_steps)
    point, share = (params, np.repeat(an_atom()[None], B, axis=0)), np.ones(B)
    for _ in range(n_steps):
        value = scale * in_double(fast_misfits, curved, *point, moment, weight)
        slopes = in_double(fast_slopes, curved, *point, moment, weight)
        slopes = [scale.reshape(-1, *[1] * (x.ndim - 1)) * x for x in slopes]
        square = sum((x**2).reshape(B, -1).sum(1) for x in slopes)
        length = share * np.minimum(value / square, 1)
        trial = [
            x - length.reshape(-1, *[1] * (x.ndim - 1)) * d
            for x, d in zip(point, slopes, strict=True)
        ]
        reached = scale * in_double(fast_misfits, curved, *trial, moment, weight)
        better = reached < value
        point = [
            np.where(better.reshape(-1, *[1] * (x.ndim - 1)), new, x)
            for x, new in zip(point, trial, strict=True)
        ]
        share, n_refused = np.where(better, share, share / 2), n_refused + np.sum(~better)
    for ours, expected in zip(found, point, strict=True):
        assert_allclose(ours, expected, atol=1e-9)
    assert n_refused > 0 or reach < 1
