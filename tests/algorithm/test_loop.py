"""The loop itself: how it ends, and what it refuses to go on with."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
import toy
from numpy.testing import assert_array_equal

from percdl.algorithm import loop, server
from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.state import FitState, History, StopReason
from percdl.exceptions import NumericalError
from percdl.federated.privacy import count_rounds
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort
from percdl.steps.dictionary import normalize, personal_explained, update_personal
from percdl.transforms import Custom


def rounds_left(monkeypatch, **options):
    """Return what the server was told about the rounds left, and why the fit stopped."""
    told = []
    update = loop.personal_update

    def listen(sums, broadcast, settings, left):
        told.append(left)
        return update(sums, broadcast, settings, left)

    monkeypatch.setattr(loop, "personal_update", listen)
    arrays = toy.recordings(0, (97, 100, 110))
    outcome, _ = toy.fit(arrays, toy.settings(**options), toy.first_guess(0))
    return told, outcome.stop_reason


def test_the_server_counts_down(monkeypatch):
    told, reason = rounds_left(monkeypatch, personal_rounds=3, centering="off")
    assert told == [2, 1, 0]
    assert reason == StopReason.ROUNDS_DONE


def test_a_fit_that_settles_early_is_finished_properly(monkeypatch):
    """The last round is the last one also when it was not planned to be."""
    told, reason = rounds_left(monkeypatch, personal_rounds=9, tol=0.5)
    assert len(told) < 9
    assert told[-1] == 0
    assert reason == StopReason.CONVERGED


@pytest.mark.parametrize(("gain", "crowd", "n_ends"), [(0.5, 1, 1), (2, 1, 2), (2, 99, 1)])
def test_an_end_that_explains_clearly_more_gets_one_more_update_among_few(gain, crowd, n_ends):
    chosen = toy.settings(population_rounds=2, personal_rounds=3)
    runtime = toy.Counting(toy.recordings(0, (97, 100, 110)), chosen, gain, crowd)
    loop.run_percdl(runtime, chosen, toy.first_guess(0), History(), toy.ignore)
    assert runtime.asked == {"population": 2, "personal": 3 + n_ends, "express": n_ends}
    # The sites of a federation answer as many rounds as such a fit has, and no more.
    assert (runtime.asked == count_rounds(chosen)) == (n_ends == 2)


def test_a_fit_settles_when_two_rounds_in_turn_are_alike():
    assert not loop._settled(None, 50.0, tol=0.01)
    assert not loop._settled(50.0, 30.0, tol=0.01)
    assert loop._settled(30.0, 29.9, tol=0.01)
    # Without a tolerance, all rounds are run, also those that change nothing.
    assert not loop._settled(20.0, 20.0, tol=0.0)


def test_a_move_that_was_no_gain_is_taken_back_and_is_the_last():
    state, told = FitState(Broadcast(toy.patterns(), move=np.array([3, -1]))), []
    # The third codes end above the update before them, by more than rounding; no others do.
    ends = [(9.0, 8.0), (8.0 + 9e-6, 7.0), (7.1, 6.5), (6.0, 5.0), (4.0, 3.0)]
    for codes, update in ends:
        sums = Sums(codes, codes, energy=10.0, signal=10.0, counts=np.ones(2))
        told.append(loop._moves_left(state, sums))
        state = replace(state, updated=update, is_fixed=told[-1] is not None)
    assert told[:2] == [None, None]
    assert_array_equal(told[2:], [[-3, 1], [0, 0], [0, 0]])


def test_what_is_saved_says_which_round_comes_next():
    arrays = toy.recordings(0, (97, 100, 110))
    chosen = toy.settings(population_rounds=2, personal_rounds=2)
    runtime, saved = InProcess(Cohort.from_arrays(arrays), chosen), []
    loop.run_percdl(runtime, chosen, toy.first_guess(0), History(), toy.ignore, save=saved.append)
    assert [(s.population, s.personal) for s in saved] == [(1, 0), (2, 0), (2, 1), (2, 2)]


def test_polyak_steps_with_all_defaults():
    arrays = toy.recordings(0, (97, 100, 110))
    chosen = toy.settings(personal_rounds=3, solver="polyak", solver_steps=5)
    outcome, _ = toy.fit(arrays, chosen, toy.first_guess(0))
    assert np.isfinite(outcome.dictionary).all()


@pytest.mark.parametrize("objective", [np.nan, np.inf])
def test_numbers_that_are_not_finite_end_the_fit(objective):
    with pytest.raises(NumericalError, match="after CSC in round 2 of the personal phase"):
        History().record("personal", 2, "CSC", objective)


def test_a_transform_not_linear_takes_a_damped_step():
    """It goes part of the way to the least of the linearized sums, and claims no objective."""
    chosen = toy.settings(Custom(lambda phi, a: phi + a * jnp.abs(phi), 1), personal_rounds=1)
    runtime = InProcess(Cohort.from_arrays(toy.recordings(0, (97, 100, 110))), chosen, None)
    broadcast = Broadcast(normalize(toy.first_guess(0)))
    runtime.population_round(broadcast)
    sums = runtime.personal_round(broadcast)
    damped, objective = server._update(sums, broadcast, chosen)
    assert objective == sums.objective
    closed = update_personal(sums.gram, sums.transported, broadcast.dictionary)
    reached = [
        personal_explained(sums.gram, sums.transported, dictionary)
        for dictionary in (broadcast.dictionary, damped, closed)
    ]
    assert reached[0] < reached[1] < reached[2]
    outcome, history = toy.fit(toy.recordings(0, (97, 100, 110)), chosen, toy.first_guess(0))
    assert history.records[-1].objective < history.records[0].objective < outcome.sums.signal
