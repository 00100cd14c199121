"""The number of kinds: copies are joined, an atom with two groups of cycles is divided."""

import numpy as np
import pytest

from percdl import Algorithm, Cohort, PopCDL
from percdl.exceptions import AlikeAtomsWarning

LENGTH, N_PEOPLE, N_CYCLES = 20, 4, 12
TIME = np.linspace(0, 1, LENGTH)
USUAL = np.exp(-(((TIME - 0.4) / 0.12) ** 2)) - 0.5 * np.exp(-(((TIME - 0.7) / 0.12) ** 2))
RARE = np.exp(-(((TIME - 0.5) / 0.3) ** 2))
ROUNDS = Algorithm(population_rounds=6, personal_rounds=2)


def make(every=None, seed=0):
    """Return a cohort that repeats one pattern, and every so often another."""
    rng, recordings = np.random.default_rng(seed), []
    for _ in range(N_PEOPLE):
        onsets = 5 + (LENGTH + 8) * np.arange(N_CYCLES) + rng.integers(0, 6, N_CYCLES)
        x = 0.02 * rng.standard_normal(onsets[-1] + LENGTH + 10)
        for i, onset in enumerate(onsets):
            rare = every is not None and i % every == every - 1
            x[onset : onset + LENGTH] += RARE if rare else USUAL
        recordings.append(x[:, None])
    return Cohort.from_arrays(recordings, sfreq=100)


def fit(n_atoms, cohort, **options):
    options = {"random_state": 0, "progress": False, "algorithm": ROUNDS} | options
    return PopCDL(n_atoms, LENGTH, 0.3, **options).fit(cohort)


def test_one_pattern_is_one_kind():
    model = fit("auto", make())
    assert model.n_atoms_ == 1
    assert model.kinds_path_["step"].tolist() == ["start"]
    assert (model.n_activations_ == N_CYCLES).all()


def test_another_kind_among_the_cycles_becomes_an_atom():
    model = fit("auto", make(every=4))
    assert model.n_atoms_ == 2
    assert sorted(model.n_activations_.sum(0)) == [N_PEOPLE * 3, N_PEOPLE * 9]
    assert model.kinds_path_["n_atoms"].iloc[-1] == 2


def test_copies_are_named_under_a_number_and_joined_under_auto(monkeypatch):
    both = np.stack([USUAL, np.roll(USUAL, 2)])[:, :, None]
    with pytest.warns(AlikeAtomsWarning, match="0 and 1"):
        fit(
            2,
            make(),
            init=both,
            algorithm=Algorithm(population_rounds=1, personal_rounds=1, realign=False),
        )
    monkeypatch.setattr("percdl.estimators.start.choose_n_atoms", lambda *_: 2)
    model = fit("auto", make())
    assert model.n_atoms_ == 1
    assert "joins" in model.kinds_path_["step"].iloc[-1]
