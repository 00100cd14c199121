"""What follows from the settings, for every transform."""

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose

from percdl import L0Coder, L1Coder
from percdl.algorithm import chunks, exchange, loop, results, state
from percdl.algorithm.settings import N_COPY_STEPS, N_FIT_STEPS, N_POLYAK_STEPS, Settings
from percdl.steps.coders import SizedCoder
from percdl.transforms import (
    Compose,
    Custom,
    Free,
    Gain,
    Identity,
    Modulation,
    Rotation,
    Shift,
    TimeWarp,
)


def given(transform=toy.WARP, length=toy.LENGTH, **options):
    return Settings(transform, length, 2, 3, 0.3, **options)


@pytest.mark.parametrize(
    ("transform", "warps", "mixes", "n_params"),
    [
        (Identity(), False, False, 0),
        (Free(), False, False, 48),
        (Gain(), False, True, 3),
        (Rotation(), False, True, 9),
        (Modulation(2), False, False, 6),
        (Shift(), False, False, 1),
        (Custom(lambda phi, a: phi + a, 1), False, False, 1),
        (TimeWarp(1, 4), True, False, 4),
        (TimeWarp(1, 4, per_channel=True), True, False, 12),
        (Compose(TimeWarp(1, 4), Gain()), True, True, 7),
        (Compose(Modulation(2), TimeWarp(1, 4), Gain()), True, False, 13),
    ],
    ids=str,
)
def test_settings_know_what_a_transform_leaves_open(transform, warps, mixes, n_params):
    chosen = given(transform)
    assert chosen.warps is warps
    assert (chosen.channel_part is not None) is mixes
    assert chosen.n_params == n_params
    assert (chosen.shifts != ()) is warps


@pytest.mark.parametrize(
    ("transform", "schedule"), [(Identity(), (7, 0)), (Free(), (0, 7)), (Shift(), (4, 3))]
)
def test_all_rounds_go_where_they_make_sense(transform, schedule):
    assert given(transform, population_rounds=4, personal_rounds=3).schedule == schedule


@pytest.mark.parametrize(
    ("length", "margin", "furthest"),
    [(2, 1, 5), (16, 3, 5), (50, 8, 5), (74, 12, 5), (76, 12, 10), (200, 32, 20)],
)
def test_margins_and_shifts_stretch_with_the_atom(length, margin, furthest):
    """Eight samples and five of fifty, in steps of a fiftieth."""
    chosen = given(length=length)
    assert chosen.margin == margin
    step = furthest // 5
    assert chosen.shifts == (tuple(range(-furthest, furthest + 1, step)),) * chosen.n_atoms


@pytest.mark.parametrize("lengths", [(60, 31), (60, 45), (100, 40), (24, 24)])
def test_shifts_of_shorter_atoms_are_whole_samples_of_the_recording(lengths):
    """Onsets could not follow others, and the codes would be refused."""
    chosen = given(length=lengths[0], coder=SizedCoder(sizes=lengths))
    for length, shifts in zip(lengths, np.array(chosen.shifts), strict=True):
        moved = shifts * (length - 1) / (lengths[0] - 1)
        assert_allclose(moved, moved.round(), atol=0.1)
        assert 0 in shifts
        assert (shifts != 0).any()


def test_where_nothing_is_realigned_there_is_no_margin():
    assert given(realign=False).margin == 0
    assert given(realign=False).shifts == ((0,), (0,))
    assert given(realign=False, multistart=False).shifts == ()


def test_windows_alike_for_all_still_move_together():
    assert given(personal_windows=False).margin == given().margin > 0
    assert given(personal_windows=False).shifts == ((0,), (0,))
    for other in ({"coder": L1Coder()}, {"solver": "polyak"}):
        assert given(**other).shifts == ()
    assert given(coder=L1Coder()).margin == 0
    assert given(solver="polyak").margin == 3


def test_steps_are_those_asked_for_or_those_of_the_solver():
    assert given().fit_options == ("gauss-newton", N_FIT_STEPS)
    assert given(solver="polyak").fit_options == ("polyak", N_POLYAK_STEPS)
    assert given(solver_steps=9).fit_options.n_steps == 9
    assert given().sum_options.copy_steps == 0
    assert given(update="robust").sum_options.copy_steps == N_COPY_STEPS
    # Few of the exact solver, many of the other, and as many as let copies see parameters move.
    assert (N_FIT_STEPS, N_POLYAK_STEPS, N_COPY_STEPS) == (3, 100, 2)


def test_a_coder_without_overlap_is_at_hand():
    exact = L0Coder(signed=True, min_gap=3)
    assert given(coder=exact).disjoint_coder == exact
    assert not given(coder=exact).overlaps
    for signed in (False, True):
        assert given(coder=L1Coder(signed=signed)).disjoint_coder == L0Coder(signed=signed)
        assert given(coder=L1Coder(signed=signed)).overlaps


@pytest.mark.parametrize("unit", [1.0, 2.0**40, 2.0**-40])
def test_prices_follow_the_unit(unit):
    """Those of squared samples twice, those of samples once."""
    rough = TimeWarp(1, 4, roughness=0.5)
    told = given(rough, delta=0.1).in_unit(unit)
    assert (told.penalty, told.delta) == (0.3 / unit**2, 0.1 / unit)
    assert told.transform == replace(rough, roughness=0.5 / unit**2)
    assert given(coder=L1Coder()).in_unit(unit).penalty == 0.3 / unit
    assert given().in_unit(unit).delta is None


def test_prices_beyond_all_numbers_are_the_largest():
    most = float(np.finfo("float32").max)
    told = given(delta=1e30).in_unit(2.0**-100)
    assert told.penalty == most
    assert told.delta == np.sqrt(most)
    assert given(dtype="float64").in_unit(2.0**-100).penalty == 0.3 * 2.0**200


def test_a_delta_below_all_numbers_is_the_smallest():
    assert given(delta=1e-300).in_unit(1.0).delta == float(np.finfo("float32").tiny)
    assert given(delta=1e-300, dtype="float64").in_unit(1.0).delta == 1e-300


def test_defaults_are_those_of_the_estimators():
    chosen = given()
    assert (chosen.population_rounds, chosen.personal_rounds, chosen.tol) == (5, 5, 0.0)
    assert chosen.realign
    assert chosen.multistart
    assert not chosen.by_subject
    assert given(weighting="subjects").by_subject
    assert [given(centering=c).refits for c in ("off", "paper", "refit")] == [False, False, True]


SUMS = exchange.Sums(0.0, 0.0, 0.0, 0.0, np.zeros(1))
VALUES = [
    given(),
    chunks.CPU_SHAPE,
    chunks.Chunk(np.arange(2), 4, 8),
    exchange.Broadcast(np.zeros((1, 2, 1))),
    SUMS,
    state.HalfStep("final", 0, "CSC", 1.0, 2.0),
    loop.Outcome(np.zeros(1), SUMS, state.StopReason.CONVERGED),
    results.Results(*[np.zeros(1)] * 8),
    state.begin(np.ones((1, 2, 1))),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_is_handed_around_does_not_change(value):
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(value)[0].name, None)
