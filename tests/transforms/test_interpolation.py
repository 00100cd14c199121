"""Reading an atom between its samples equals SciPy's splines and the paper's formula."""

import jax
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal
from scipy.interpolate import CubicHermiteSpline

from percdl.transforms import interpolation as interp

L, P = 7, 3
ATOM = np.random.default_rng(0).standard_normal((L, P))
# Between samples, on them, and at both ends.
POSITION = np.stack([np.linspace(0, L - 1, L), [0, 0.3, 0.9, 3.5, 4.25, 5.8, L - 1]])

read = jax.jit(interp.read, static_argnums=2)
operator = jax.jit(interp.operator, static_argnums=(1, 2))
normal_equations = jax.jit(interp.normal_equations, static_argnums=3)


def by_splines(kind):
    """Return the atom and its slope at the positions, with centred slopes, one-sided at ends."""
    if kind == "cubic":
        spline = CubicHermiteSpline(np.arange(L), ATOM, np.gradient(ATOM, axis=0))
        return spline(POSITION), spline(POSITION, 1)
    start = np.minimum(POSITION.astype(int), L - 2)
    slope = np.diff(ATOM, axis=0)[start]
    return ATOM[start] + (POSITION - start)[..., None] * slope, slope


def by_the_paper(position):
    """Return the Gaussian mean of the lines through each sample and the next."""
    climb = np.append(np.diff(ATOM, axis=0), np.zeros((1, P)), axis=0)
    found = np.zeros((*position.shape, P))
    for at in np.ndindex(position.shape):
        off = position[at] - np.arange(L)
        weight = np.exp(-(off**2) / (2 * 0.5**2))
        found[at] = weight @ (ATOM + off[:, None] * climb) / weight.sum()
    return found


@pytest.mark.parametrize("kind", ["cubic", "linear"])
def test_local_kernels_are_splines(kind):
    value, slope = in_double(read, ATOM, POSITION, kind)
    expected = by_splines(kind)
    assert_allclose(value, expected[0], atol=1e-14)
    assert_allclose(slope, expected[1], atol=1e-13)
    assert_array_equal(value[0], ATOM)


def test_the_kernel_of_the_paper_is_its_formula():
    value, slope = in_double(read, ATOM, POSITION, "paper")
    assert_allclose(value, by_the_paper(POSITION), atol=1e-14)
    step = 1e-6
    change = by_the_paper(POSITION + step) - by_the_paper(POSITION - step)
    assert_allclose(slope, change / (2 * step), atol=1e-8)


@pytest.mark.parametrize("kind", interp.INTERPOLATIONS)
def test_the_operator_reads(kind):
    matrix = in_double(operator, POSITION, L, kind)
    assert_allclose(matrix @ ATOM, in_double(read, ATOM, POSITION, kind)[0], atol=1e-14)
    assert_allclose(matrix.sum(-1), 1, atol=1e-14)


@pytest.mark.parametrize("kind", ["cubic", "linear"])
def test_sums_of_few_entries_are_those_of_the_operators(kind):
    rng = np.random.default_rng(1)
    weight, moment = rng.uniform(0, 2, (2, L)), rng.standard_normal((2, L, P))
    gram, right = in_double(normal_equations, POSITION, weight, moment, kind)
    matrix = in_double(operator, POSITION, L, kind)
    assert_allclose(gram, np.einsum("slm,sl,sln->mn", matrix, weight, matrix), atol=1e-13)
    assert_allclose(right, np.einsum("slm,slp->mp", matrix, moment), atol=1e-13)
