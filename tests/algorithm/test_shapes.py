"""The shapes of a broadcast are known beforehand: those of the sums it is made of."""

import pytest
import toy

from percdl.algorithm.shapes import broadcast_shapes, personal_shapes
from percdl.transforms import Compose, Free, Gain, Identity, Modulation, Rotation, Shift, TimeWarp

TRANSFORMS = [
    Identity(),
    Free(),
    Gain(),
    Modulation(3),
    Rotation(),
    Shift(),
    TimeWarp(),
    TimeWarp(per_channel=True),
    Compose(TimeWarp(), Rotation()),
    Compose(Gain(), TimeWarp(per_channel=True)),
]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=str)
def test_a_gauge_has_the_shape_of_the_sum_it_is_the_mean_of(transform):
    settings = toy.settings(transform=transform, n_channels=2)
    size = settings.n_atoms, settings.atom_length, settings.n_channels
    told, sums = broadcast_shapes(transform, *size), personal_shapes(settings, 0)
    assert told["dictionary"] == size
    assert told.get("gauge") == sums.get("warp")
    assert told.get("mixing_gauge") == sums.get("mixing")
