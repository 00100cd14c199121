"""An atom without activations is replaced by what the others leave; a given one is not."""

import numpy as np
import pytest
import small_models
import toy
from numpy.testing import assert_array_equal

from percdl.algorithm.loop import run_percdl
from percdl.algorithm.state import History
from percdl.estimators.start import revive_atoms
from percdl.exceptions import NoActivationWarning
from percdl.runtimes.in_process import InProcess
from percdl.transforms import Identity

SETTINGS = toy.settings(Identity(), population_rounds=3, personal_rounds=0, realign=False)
# Alternates from sample to sample, as no recording does: never worth its price.
USELESS = np.where(np.arange(toy.LENGTH) % 2, 1.0, -1.0)[:, None]


@pytest.fixture
def cohort():
    return small_models.spaced_cohort(0)


def half_dead():
    sine = toy.patterns()[0]
    return np.stack([USELESS, sine / np.linalg.norm(sine)])


def revive(dictionary, dead, cohort, settings=SETTINGS):
    return revive_atoms(dictionary, dead, cohort, settings, np.random.RandomState(0))


def test_the_missing_pattern_takes_the_place(cohort):
    start = half_dead()
    revived = revive(start, np.array([True, False]), cohort)
    assert_array_equal(revived[1], start[1])
    arcs = toy.patterns()[1]
    assert np.sum(revived[0] * arcs) / np.linalg.norm(arcs) > 0.9


def test_nothing_changes_where_nothing_is_worth_it(cohort):
    start = half_dead()
    costly = toy.settings(Identity(), penalty=1e3)
    assert_array_equal(revive(start, np.array([True, False]), cohort, costly), start)


def test_a_fit_with_revival_ends_lower(cohort):
    ends = []
    for offered in (None, lambda phi, dead: revive(phi, dead, cohort)):
        runtime, history = InProcess(cohort, SETTINGS), History()
        outcome = run_percdl(runtime, SETTINGS, half_dead(), history, toy.ignore, offered)
        ends.append((outcome.sums.objective, outcome.sums.counts))
    assert ends[0][1][0] == 0
    assert ends[1][1].all()
    assert ends[1][0] < 0.7 * ends[0][0]


def test_a_given_atom_is_left_as_it_was(cohort):
    model = small_models.make("PopCDL", init=half_dead())
    with pytest.warns(NoActivationWarning, match="Atom 0 is never activated"):
        model.fit(cohort)
    np.testing.assert_allclose(model.dictionary_[0], USELESS / np.linalg.norm(USELESS), atol=1e-6)
