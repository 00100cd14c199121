"""The kernels under the transforms: half-turn trigonometry and the l1 projection."""

import jax
import jax.numpy as jnp
import naive
import numpy as np
import optax
import pytest
from double import in_double
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from percdl.transforms import TimeWarp
from percdl.transforms.sine_layers import project_rows_onto_l1_ball, sincospi

# An alignment whose second approximation is projected again: times, and how often each occurs.
STEEP = [
    *(
        0,
        2,
        3,
        6,
        6.5,
        7,
        7.5,
        9.5,
        12.5,
        15.5,
        18.5,
        19.5,
        20,
        20.5,
        21.5,
        22.5,
        24,
        26,
        29,
        29.5,
    ),
    *(30.5, 32.5, 35.5, 38.5, 41.5, 44.5, 45.5, 46.5, 47, 48, 48.5, 49),
]
COUNTS = [2, 3, 3, 1, 2, *[1] * 13, 9, *[1] * 6, 4, 1, 2, 1, 1, 1, 1]

project = jax.jit(project_rows_onto_l1_ball, static_argnums=1)
project_by_optax = jax.jit(jax.vmap(optax.projections.projection_l1_ball, in_axes=(0, None)))


@given(hnp.arrays(float, (4, 6), elements=st.floats(-3, 3)), st.sampled_from([0.99, 2.0]))
def test_l1_projection_equals_those_that_sort(rows, radius):
    ours = in_double(project, rows, radius)
    assert_allclose(ours, in_double(project_by_optax, rows, radius), atol=1e-12)
    for row, projected in zip(rows, ours, strict=True):
        assert_allclose(projected, naive.project_onto_l1_ball(row, radius), atol=1e-12)


def test_l1_projection_is_the_same_within_a_larger_program():
    """There a compiler may compute an entry twice, with different rounding."""
    steep = np.repeat(STEEP, COUNTS)[None, None]
    approximate = jax.jit(TimeWarp(3, 10).approximate)
    with jax.enable_x64(True):
        optimized = approximate.lower(steep).compile({"xla_backend_optimization_level": 2})
        compiled = np.asarray(optimized(steep))
        with jax.disable_jit():
            by_operation = np.asarray(TimeWarp(3, 10).approximate(jnp.asarray(steep)))
    assert_allclose(compiled, by_operation, atol=1e-10)


def test_l1_projection_copes_with_ties():
    rows = np.array(
        [[1.0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0], [2, -2, 0, 0, 0, 0], [-9] + 5 * [0]]
    )
    third = 0.99 / 6
    expected = [[third] * 6, [0] * 6, [0.495, -0.495, 0, 0, 0, 0], [-0.99] + 5 * [0]]
    assert_allclose(in_double(project, rows, 0.99), expected, atol=1e-14)


@pytest.mark.parametrize(("dtype", "ulp"), [(np.float32, 2.0**-23), (np.float64, 2.0**-52)])
def test_sincospi_is_accurate_and_exact_at_half_turns(dtype, ulp):
    x = np.random.default_rng(7).uniform(-40, 40, 20_000).astype(dtype)
    with jax.enable_x64(dtype == np.float64):
        sine, cosine = (np.asarray(part) for part in jax.jit(sincospi)(x))
        halves = [np.asarray(part) for part in jax.jit(sincospi)(np.arange(-8, 9) / dtype(2))]
    assert sine.dtype == cosine.dtype == dtype
    turn = np.round(x).astype(float)
    sign, rest = np.where(turn % 2, -1, 1), x - turn
    assert_allclose(sine, sign * np.sin(np.pi * rest), rtol=0, atol=2 * ulp)
    assert_allclose(cosine, sign * np.cos(np.pi * rest), rtol=0, atol=2 * ulp)
    assert_array_equal(halves[0], 4 * [0, 1, 0, -1] + [0])
    assert_array_equal(halves[1], 4 * [1, 0, -1, 0] + [1])
