"""Models that choose by themselves: length, number of atoms, penalty."""

import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose

from percdl import Algorithm, PopCDL, load, suggest_atom_length
from percdl.exceptions import InvalidRecordingError


def beats(period, n_patterns, seed, n_times=256):
    """Return (n, 1) a train of the first patterns in turn, with a little noise."""
    rng = np.random.default_rng(seed)
    x = 0.05 * rng.standard_normal((n_times, 1))
    for turn, onset in enumerate(range(int(rng.integers(0, 9)), n_times - toy.LENGTH, period)):
        x[onset : onset + toy.LENGTH] += toy.patterns()[turn % n_patterns] * rng.uniform(0.8, 1.2)
    return x


def automatic(**options):
    rounds = Algorithm(population_rounds=2, personal_rounds=1)
    return PopCDL(algorithm=rounds, random_state=0).set_params(**options)


RECORDINGS = {n: [beats(22, n, seed) for seed in range(4)] for n in (1, 2)}


@pytest.fixture(scope="module")
def of_two():
    """A model of recordings with two patterns."""
    return automatic(atom_length=toy.LENGTH).fit(RECORDINGS[2])


def test_two_patterns_are_found(of_two):
    assert of_two.n_atoms_ == 2
    assert of_two.dictionary_.shape == (2, toy.LENGTH, 1)
    assert of_two.score(RECORDINGS[2]) > 0.9


def test_one_pattern_needs_one_atom():
    assert automatic(atom_length=toy.LENGTH).fit(RECORDINGS[1]).n_atoms_ == 1


def test_the_length_is_the_suggested_one(tmp_path):
    recordings = [beats(period, 1, period) for period in (21, 22, 23, 24)]
    model = automatic(n_atoms=1).fit(recordings)
    assert model.atom_length_ == suggest_atom_length(recordings).length
    assert model.dictionary_.shape[1] == model.atom_length_
    assert model.get_params()["atom_length"] == "auto"
    model.save(tmp_path / "model.percdl")
    again = load(tmp_path / "model.percdl")
    assert (again.atom_length_, again.penalty_) == (model.atom_length_, model.penalty_)
    assert again.score(recordings) == model.score(recordings)


def test_choices_do_not_depend_on_order_or_units(of_two):
    twin = automatic(atom_length=toy.LENGTH).fit([8 * x for x in RECORDINGS[2][::-1]])
    assert twin.n_atoms_ == of_two.n_atoms_
    assert_allclose(twin.penalty_, 64 * of_two.penalty_, rtol=1e-3)
    assert_allclose(twin.dictionary_, of_two.dictionary_, atol=1e-3)


def test_a_first_dictionary_says_length_and_number():
    model = automatic(init=toy.first_guess(0)).fit(RECORDINGS[2])
    assert (model.n_atoms_, model.atom_length_) == (2, toy.LENGTH)


def test_recordings_without_a_period_are_refused():
    with pytest.raises(InvalidRecordingError, match="do not repeat themselves"):
        automatic().fit(np.tile(np.linspace(0, 1, 60), (2, 1)))
