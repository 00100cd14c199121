"""Parameters with a name and a meaning."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from small_models import NAMES, SFREQ, make

from percdl import Compose, Gain, Modulation, Rotation, Shift, TimeWarp
from percdl.estimators.people import describe_parameters
from percdl.transforms.base import N_PARTS


@pytest.mark.parametrize("name", NAMES)
def test_one_row_per_person_and_atom(name, fitted_models, cohort):
    model = fitted_models[name]
    table = model.parameters()
    assert list(table["subject"]) == [subject for subject in cohort.subjects for _ in range(2)]
    assert list(table["atom"]) == [0, 1] * len(cohort)
    assert (table["activations"].to_numpy() == model.n_activations_.ravel()).all()
    usual = model.events_.groupby(["subject", "atom"])["amplitude"].median()
    of = table.set_index(["subject", "atom"])["amplitude"]
    assert_allclose(of.loc[usual.index], usual)


def test_displacements_are_those_of_the_warps(fitted_models):
    model = fitted_models["PerCDL"]
    last, table = model.atom_length_ - 1, model.parameters()
    warps = model.warps_.reshape(-1, model.atom_length_)
    at = last * np.arange(N_PARTS + 1) / N_PARTS
    psi = np.array([np.interp(at, range(last + 1), own) for own in warps])
    moved = table.filter(like="displacement").to_numpy()
    assert_allclose(moved, (psi - at)[:, 1:-1] / SFREQ, atol=1e-7)
    # A speed is the population's time that passes in an eighth of the person's time.
    speeds = table.filter(like="speed").to_numpy()
    assert_allclose(speeds, np.diff(psi) / (last / N_PARTS), rtol=1e-5)
    assert_allclose(speeds.mean(1), 1)


def test_people_who_move_alike_have_the_same_numbers():
    """Layers are interchangeable; what they do together is not."""
    rng = np.random.default_rng(0)
    warp = TimeWarp(2, 3)
    one = np.zeros(6)
    one[:3] = rng.uniform(-0.2, 0.2, 3)
    other = np.roll(one, 3)  # the second layer does what the first did
    described = [warp.describe(np.stack([x]), 50, ("x",), 100.0) for x in (one, other)]
    for name in described[0]:
        assert_allclose(described[0][name], described[1][name], atol=1e-12)


def test_atoms_that_last_less_have_a_clock_of_their_own(fitted_models):
    model = fitted_models["PerCDL"]
    shorter = replace(model.personalization_, atom_lengths=(model.atom_length_, 6))
    before, table = model.parameters(), describe_parameters(model, shorter)
    share = np.where(before["atom"] == 0, 1, 5 / (model.atom_length_ - 1))
    name = "displacement_at_50%_s"
    assert_allclose(table[name], before[name] * share)


def test_a_rotation_is_told_by_its_angles():
    turn = np.radians(30)
    planar = np.array(
        [[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]]
    )
    flipped = planar @ np.diag([1.0, 1, -1])
    unknown = np.full((3, 3), np.nan)
    params = np.stack([planar, flipped, unknown]).reshape(3, 9)
    told = Rotation().describe(params, 50, ("x", "y", "z"), 100.0)
    assert_allclose(told["angle_x_y_deg"], [30, np.nan, np.nan])
    assert_allclose(told["angle_x_z_deg"], [0, np.nan, np.nan], atol=1e-6)
    assert_allclose(told["reflected"], [0, 1, np.nan])
    # The first channel turns towards the second.
    turned = Rotation().apply(jnp.asarray(params[0]), jnp.eye(3)[:1])
    assert turned[0, 1] == pytest.approx(np.sin(turn))


def test_units_and_channels_are_in_the_names():
    channels, params = ("x", "y"), np.array([[0.5, -0.5]])
    assert Gain().describe(params, 50, channels, 100.0).keys() == {"gain_x", "gain_y"}
    assert_allclose(Gain().describe(params, 50, channels, 100.0)["gain_x"], np.exp(0.5))
    assert_allclose(Shift().describe(params[:, :1], 50, channels, 100.0)["shift_s"], 0.005)
    assert Modulation(3).param_names(50, ("x",)) == [
        "gain_x_at_0%", "gain_x_at_50%", "gain_x_at_100%",
    ]  # fmt: skip


def test_two_stages_of_a_kind_are_told_apart():
    twice = Compose(Gain(), Rotation(), Gain())
    names = twice.param_names(50, ("x", "y"))
    assert len({*names}) == len(names) == twice.n_params(50, 2)
    assert names[0] == "stage1_log_gain_x"
    told = twice.describe(np.zeros((2, 8)), 50, ("x", "y"), 100.0)
    assert [name for name in told if "gain" in name] == [
        "stage1_gain_x", "stage1_gain_y", "stage3_gain_x", "stage3_gain_y",
    ]  # fmt: skip


def test_features_keep_their_numbers_and_say_what_they_are(fitted_models):
    names = fitted_models["PerCDL"].get_feature_names_out()
    assert list(names[:3]) == [f"atom0_layer1_sine{w}" for w in (1, 2, 3)]
    own = make("PerCDL", transformation=TimeWarp(2, 3, per_channel=True)).transformation
    assert own.param_names(50, ("x", "y"))[6] == "y_layer1_sine1"
