"""The sets Theta that files are checked against are those that fits project onto."""

import jax.numpy as jnp
import numpy as np
import pytest

from percdl.estimators.theta import is_allowed
from percdl.transforms import (
    Compose,
    Free,
    Gain,
    Identity,
    Modulation,
    Rotation,
    Shift,
    TimeWarp,
)

L, P = 8, 2
TRANSFORMS = [
    TimeWarp(2, 3),
    TimeWarp(1, 3, per_channel=True),
    Identity(),
    Free(),
    Rotation(),
    Rotation(allow_reflections=False),
    Gain(),
    Modulation(3),
    Shift(0.5),
    Compose(TimeWarp(1, 3), Rotation(), Gain()),
]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
def test_what_is_projected_is_allowed_and_the_rest_is_not(transform):
    far = 3 * np.random.default_rng(0).standard_normal((5, 2, transform.n_params(L, P)))
    near = np.array(transform.project(jnp.asarray(far)), float)
    assert is_allowed(transform, near, L, P)
    if far.size == 0:
        return
    for row, projected in zip(
        far.reshape(-1, far.shape[-1]), near.reshape(-1, near.shape[-1]), strict=True
    ):
        assert is_allowed(transform, row[None], L, P) == np.allclose(row, projected, atol=1e-3)
    near[3, 1] = far[3, 1]  # one of many is enough
    assert not is_allowed(transform, near, L, P)


def test_nobody_is_allowed():
    for transform in TRANSFORMS:
        assert is_allowed(transform, np.zeros((0, transform.n_params(L, P))), L, P)
