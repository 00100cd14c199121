"""The shapes of sums and of a broadcast are known beforehand."""

from dataclasses import fields

import numpy as np
import pytest
import toy

from percdl import L1Coder
from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.shapes import broadcast_shapes, personal_shapes, population_shapes
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort
from percdl.steps.dictionary import normalize
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


# A search changes no shape, and its programs are the longest to compile.
NO_SEARCH = {"realign": False, "multistart": False}


@pytest.mark.parametrize("transform", TRANSFORMS, ids=str)
def test_a_gauge_has_the_shape_of_the_sum_it_is_the_mean_of(transform):
    settings = toy.settings(transform=transform, n_channels=2)
    size = settings.n_atoms, settings.atom_length, settings.n_channels
    told, sums = broadcast_shapes(transform, *size), personal_shapes(settings, 0)
    assert told["dictionary"] == size
    assert told.get("gauge") == sums.get("warp")
    assert told.get("mixing_gauge") == sums.get("mixing")


def shapes_of(sums):
    shapes = {f.name: np.shape(getattr(sums, f.name)) for f in fields(sums)}
    return {name: shape for name, shape in shapes.items() if 0 not in shape}


@pytest.mark.parametrize(
    ("transform", "n_masks", "options"),
    [
        (TimeWarp(1, 3), 0, {}),
        (Compose(TimeWarp(1, 3), Gain()), 2, NO_SEARCH),
        (Gain(), 1, {"weighting": "subjects", "centering": "off", "dtype": "float32"}),
        (Compose(TimeWarp(1, 3), Gain()), 0, {"delta": 1.0, **NO_SEARCH}),
        (Free(), 0, {"coder": L1Coder(n_steps=1)}),
        (Identity(), 1, {"coder": L1Coder(n_steps=1)}),
        (Identity(), 0, {"coder": L1Coder(n_steps=1), "weighting": "subjects"}),
    ],
    ids=str,
)
def test_sums_have_the_shapes_that_were_foretold(transform, n_masks, options):
    settings = toy.settings(transform, 2, **options)
    arrays = toy.recordings(0, (40, 50), 2)
    arrays[0][3, : 3 - n_masks if n_masks else 0] = np.nan
    runtime = InProcess(Cohort.from_arrays(arrays), settings)
    assert runtime.site.n_masks == n_masks
    broadcast = Broadcast(normalize(toy.first_guess(0, 2)))
    assert shapes_of(runtime.population_round(broadcast)) == population_shapes(settings, n_masks)
    if settings.n_params:
        assert shapes_of(runtime.personal_round(broadcast)) == personal_shapes(settings, n_masks)
