"""What each interface demands of a transform, and what the transforms are by default."""

import jax.numpy as jnp
import numpy as np
import pytest

from percdl.exceptions import InvalidParameterError
from percdl.transforms import (
    ChannelTransform,
    ClosedFormTransform,
    Custom,
    Gain,
    LinearTransform,
    Modulation,
    Rotation,
    Shift,
    TimeWarp,
    Transform,
    WarpTransform,
)

ALWAYS = {"n_params", "apply"}


@pytest.mark.parametrize(
    ("interface", "demanded"),
    [
        (Transform, ALWAYS),
        (LinearTransform, ALWAYS | {"operator"}),
        (WarpTransform, ALWAYS | {"operator", "warp", "approximate", "follow", "resample"}),
        (ClosedFormTransform, ALWAYS | {"solve"}),
        # How channels are mixed says how the transform acts.
        (ChannelTransform, ALWAYS - {"apply"} | {"solve", "mixing", "unmix", "relative"}),
    ],
)
def test_an_interface_says_what_is_to_be_written(interface, demanded):
    assert interface.__abstractmethods__ == demanded


def test_transforms_share_structure_and_are_not_linear_unless_they_say_so():
    plain = Custom(lambda phi, a: phi + a, 1)
    assert plain.shares_structure
    assert not plain.linear
    assert Gain().linear
    assert plain.price(jnp.zeros(1)) is None
    assert plain.warp_part(9, 2) is None
    assert plain.channel_part(9, 2) is None
    assert Gain().channel_part(9, 2) == (Gain(), slice(None))


def test_defaults_are_those_of_the_paper_and_of_the_guide():
    assert TimeWarp() == TimeWarp(3, 10, "cubic", False, 0.0)
    assert (Shift(), Modulation(), Rotation()) == (
        Shift(1.0, "cubic"),
        Modulation(5),
        Rotation(True),
    )


@pytest.mark.parametrize("least", [TimeWarp(1, 1), Modulation(1), Custom(np.add, 1), Shift(1e-3)])
def test_the_least_values_are_allowed(least):
    least.validate()


@pytest.mark.parametrize("roughness", [-1e-9, np.inf, np.nan])
def test_roughness_is_a_finite_price(roughness):
    with pytest.raises(InvalidParameterError, match="finite number of at least 0"):
        TimeWarp(roughness=roughness).validate()
    TimeWarp(roughness=0.5).validate()


def test_what_is_no_function_or_no_number_of_parameters_is_refused():
    for wrong, message in (("function", "must be a function"), ("size", "must be an integer")):
        transform = Custom(np.add, 1)
        object.__setattr__(transform, wrong, 2.5)
        with pytest.raises(InvalidParameterError, match=message):
            transform.validate()


def test_an_atom_at_rest_may_change_by_rounding_only():
    """The change allowed is relative to the atom, whatever its size."""
    atom = jnp.ones((3, 1))
    for size in (1e-6, 1.0, 1e6):
        Custom(lambda phi, a: phi * (1 + 5e-5), 1).neutral(size * atom)
        with pytest.raises(InvalidParameterError, match="changes the atom"):
            Custom(lambda phi, a: phi * (1 + 5e-4), 1).neutral(size * atom)
