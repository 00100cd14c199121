"""The inverses of warps: those of SciPy, for all people at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from scipy.interpolate import PchipInterpolator

from percdl.estimators.personalization import SLOWEST, invert_warps

STEPS = hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=12).flatmap(
    lambda shape: hnp.arrays(float, shape, elements=st.floats(0, 1))
)


def naive_inverse(warp):
    """Interpolate the points (psi(l), l) one warp after the other."""
    samples = np.arange(len(warp), dtype=float)
    psi = (np.maximum.accumulate(warp) + SLOWEST * samples) / (1 + SLOWEST)
    return PchipInterpolator(psi, samples)(samples)


@given(STEPS)
def test_inverses_are_those_of_scipy(steps):
    """Steps of zero too: such a warp stands still."""
    steps[:, 0] += 1e-3
    warps = np.pad(np.cumsum(steps, axis=1), ((0, 0), (1, 0)))
    warps *= steps.shape[1] / warps[:, -1:]
    expected = np.stack([naive_inverse(warp) for warp in warps])
    assert_allclose(invert_warps(warps), expected, rtol=0, atol=1e-12)


@given(hnp.arrays(float, (3, 2, 4), elements=st.floats(-0.2, 0.2)))
def test_a_warp_undoes_its_inverse(coefficients):
    length, orders = 101, np.pi * np.arange(1, 5)

    def psi(time):
        return (
            time + (np.sin(time[..., None] * orders) @ (coefficients / orders)[..., None])[..., 0]
        )

    time = np.broadcast_to(np.linspace(0, 1, length), (3, 2, length))
    inverse = invert_warps((length - 1) * psi(time))
    assert_allclose(psi(inverse / (length - 1)), time, atol=1e-4)
    assert (np.diff(inverse) > 0).all()


def test_inverse_warps_undo_warps():
    # psi = (e^ct - 1) / (e^c - 1) has an inverse in closed form.
    length = 64
    time, curvature = np.linspace(0, 1, length), np.array([0.5, -1.0, 2.0])[:, None, None, None]
    psi = np.expm1(curvature * time) / np.expm1(curvature) * (length - 1)
    expected = np.log1p(np.expm1(curvature) * time) / curvature * (length - 1)
    assert_allclose(invert_warps(psi), expected, atol=1e-2)
    assert_allclose(
        invert_warps(np.arange(9.0)[None, None, None]).ravel(), np.arange(9), atol=1e-6
    )
    psi[1] = np.nan
    assert np.isnan(invert_warps(psi)[1]).all()
    assert_allclose(invert_warps(psi)[[0, 2]], expected[[0, 2]], atol=1e-2)


@pytest.mark.parametrize("shape", [(0, 1, 1, 9), (4, 2, 0, 9)])
def test_no_warps_have_no_inverses(shape):
    assert invert_warps(np.zeros(shape)).shape == shape
