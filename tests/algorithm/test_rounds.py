"""Which rounds a fit runs, recorded by a runtime that computes nothing."""

from dataclasses import replace

import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.loop import Runtime, run_percdl
from percdl.algorithm.state import FitState, History, StopReason
from percdl.steps.dictionary import normalize
from percdl.transforms import Free, Gain, Identity, Shift

ATOMS = normalize(toy.first_guess(0))
K, L, N = 2, toy.LENGTH, 5.0
N_SINES = min(20, L - 2)


class Told(Runtime):
    """A runtime that answers with sums made up, and remembers what it was asked.

    Its objectives fall by half each round, unless given, and not at the end.
    """

    def __init__(self, counts=(), objectives=()):
        self.asked, self.counts, self.objectives = [], list(counts), list(objectives)

    def run_round(self, name, broadcast):
        self.asked.append((name, broadcast))
        n_fallen = len([name for name in self.names if name != "express"])
        counts = self.counts.pop(0) if self.counts else [9.0, 9.0]
        objective = self.objectives.pop(0) if self.objectives else 0.5**n_fallen
        warp = np.tile(N * np.arange(L), (K, 1, 1))
        return Sums(
            objective,
            2 * objective,
            energy=3.0,
            signal=3.0,
            counts=np.array(counts),
            moment=ATOMS,
            weight=np.ones((K, L, 1)),
            copies=N * ATOMS,
            warp=warp,
            squared_displacement=np.zeros((K, 1, L)),
            inverse_warp=warp,
            warp_sines=np.zeros((K, 1, L, N_SINES)),
            squared_sines=np.zeros((K, 1, N_SINES)),
            mixing=np.zeros((K, 1)),
            n_warps=np.full(K, N),
        )

    @property
    def names(self):
        return [name for name, _ in self.asked]


def settings(transform=toy.WARP, **options):
    plain = {"update": "robust", "realign": False, "multistart": False}
    return toy.settings(transform, **(plain | options))


def run(chosen, runtime=None, start=ATOMS, **options):
    """Return what was asked, the outcome, and the history as (phase, round, step)."""
    runtime, history, reported = runtime or Told(), History(), []
    outcome = run_percdl(
        runtime, chosen, start, history, lambda *what: reported.append(what[:2]), **options
    )
    return runtime, outcome, [(r.phase, r.round, r.step) for r in history.records], reported


@pytest.mark.parametrize(
    ("transform", "centering", "names"),
    [
        (toy.WARP, "refit", ["population"] * 2 + ["personal"] * 4 + ["express"]),
        (Gain(), "refit", ["population"] * 2 + ["personal"] * 4 + ["express"]),
        (toy.WARP, "paper", ["population"] * 2 + ["personal"] * 4),
        (toy.WARP, "off", ["population"] * 2 + ["personal"] * 4),
        (Shift(), "refit", ["population"] * 2 + ["personal"] * 4),
        (Identity(), "refit", ["population"] * 6),
        # Codes to start from, without a first phase.
        (Free(), "refit", ["population"] + ["personal"] * 6),
    ],
    ids=str,
)
def test_rounds_are_those_of_the_algorithm(transform, centering, names):
    runtime, outcome, _, _ = run(settings(transform, centering=centering))
    assert runtime.names == names
    assert outcome.stop_reason == StopReason.ROUNDS_DONE


@pytest.mark.parametrize("gains", [(2.0,), (2.0, 2.0)], ids=["once", "twice"])
def test_a_fit_whose_end_explains_clearly_more_is_updated_once_more(gains):
    """The dictionary was fitted to worse parameters; a second gain changes nothing."""
    objectives = [9.0] * 4
    for gain in gains:
        objectives += [objectives[-1], objectives[-1] - gain]
    chosen = settings(population_rounds=2, personal_rounds=2)
    runtime, outcome, records, _ = run(chosen, Told(objectives=objectives))
    assert runtime.names[4:] == ["personal", "express"] * 2
    assert [(index, step) for _, index, step in records[-3:]] == [
        (1, step) for step in ("IPU", "CSC", "express")
    ]
    assert_array_equal(outcome.dictionary, runtime.asked[-1][1].dictionary)


def test_no_second_phase_means_no_gauge_to_fix():
    runtime, _, records, _ = run(settings(personal_rounds=0))
    assert runtime.names == ["population"] * 3
    assert records[-1] == ("final", 0, "CSC")


def test_every_half_step_is_recorded_and_every_round_reported():
    _, _, records, reported = run(settings(population_rounds=1, personal_rounds=2))
    assert records == [
        ("population", 0, "CSC"),
        ("population", 0, "CDU"),
        *[("personal", i, step) for i in range(2) for step in ("IPU", "CSC", "PerCDU")],
        ("final", 0, "IPU"),
        ("final", 0, "CSC"),
        ("final", 0, "express"),
    ]
    assert reported == [("population", 0), ("personal", 0), ("personal", 1)]


def test_without_activations_there_is_nothing_to_learn_from():
    runtime, outcome, records, reported = run(settings(), Told(counts=[[9.0, 9.0], [0.0, 0.0]]))
    assert runtime.names == ["population"] * 2
    assert outcome.stop_reason == StopReason.NO_ACTIVATIONS
    assert records[-1] == ("population", 1, "CSC")
    assert len(reported) == 1
    assert_array_equal(outcome.dictionary, runtime.asked[-1][1].dictionary)


def test_dead_atoms_are_revived_between_rounds_of_the_first_phase():
    """Only unused atoms, not rarely used ones, and never in the second phase."""
    counts = [[1.0, 0.0], [0.0, 1.0], [4.0, 4.0], [0.0, 1.0]]
    asked = []

    def revive(dictionary, dead):
        asked.append(dead.tolist())
        return np.where(dead[:, None, None], 7 * ATOMS[::-1], dictionary)

    runtime, _, _, _ = run(settings(population_rounds=4), Told(counts), revive=revive)
    assert asked == [[False, True], [True, False]]
    after = [broadcast.dictionary for _, broadcast in runtime.asked[1:3]]
    assert_allclose(after[0][1], ATOMS[0], rtol=1e-12)
    assert_allclose(after[1][0], ATOMS[1], rtol=1e-12)
    # Without somebody to ask, they stay.
    assert run(settings(population_rounds=4), Told(counts))[0].names == runtime.names


@pytest.mark.parametrize("phase", ["population", "personal"])
def test_a_phase_ends_where_it_settles(phase):
    chosen = settings(population_rounds=4, personal_rounds=4, tol=0.2)
    falls = [8.0, 4.0, 3.9]
    before = [] if phase == "population" else [64.0, 32.0, 16.0, 8.0]
    saved, revived = [], []
    runtime, outcome, _, reported = run(
        chosen,
        Told(counts=[[9.0, 9.0]] * 2 + [[0.0, 1.0]], objectives=before + falls),
        save=saved.append,
        revive=lambda dictionary, dead: revived.append(dead) or dictionary,
    )
    assert runtime.names[: len(before) + 3] == ["population"] * len(before) + [phase] * 3
    assert runtime.names[len(before) + 3] == "personal"
    last = saved[2] if phase == "population" else saved[-1]
    assert last.population == 4
    assert last.personal == (0 if phase == "population" else 4)
    assert last.reason == StopReason.CONVERGED
    assert reported[len(before) : len(before) + 3] == [(phase, i) for i in range(3)]
    assert len(revived) == (phase == "personal")  # not in the round that settles
    expected = StopReason.ROUNDS_DONE if phase == "population" else StopReason.CONVERGED
    assert outcome.stop_reason == expected


@pytest.mark.parametrize("done", range(1, 6))
def test_a_fit_goes_on_where_it_stood(done):
    chosen = settings(population_rounds=2, personal_rounds=3)
    saved = []
    whole = run(chosen, save=saved.append)[0]
    rest = run(chosen, start=saved[done - 1])[0]
    assert rest.names == whole.names[done:]
    assert_array_equal(rest.asked[0][1].dictionary, whole.asked[done][1].dictionary)


def test_a_fit_without_a_first_phase_goes_on_with_its_codes():
    chosen = settings(Free(), population_rounds=0, personal_rounds=2)
    stood = FitState(Broadcast(ATOMS), 0, 1)
    assert run(chosen, start=stood)[0].names == ["personal"] * 2


def test_a_phase_settles_by_its_own_rounds():
    """The last round of the first phase is no measure for the first of the second."""
    chosen = settings(population_rounds=1, personal_rounds=2, tol=0.5)
    runtime = run(chosen, Told(objectives=[4.0, 4.0, 1.0]))[0]
    assert runtime.names == ["population"] + ["personal"] * 3 + ["express"]
    exact = replace(chosen, tol=0.75)
    assert run(exact, Told(objectives=[4.0, 4.0, 1.0]))[1].stop_reason == StopReason.CONVERGED
