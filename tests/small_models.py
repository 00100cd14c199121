"""The three estimators with settings that compile little, and recordings to fit them to.

One shape for all: two atoms of 16 samples, one channel, at most 16 recordings of 97 to 128 samples
each, padded as in any fit. Programs compiled for one test then serve the others, commands and
processes included.
"""

from dataclasses import fields

import numpy as np
import toy

from percdl import Algorithm, Cohort, IndCDL, L0Coder, PerCDL, PopCDL, TimeWarp

LENGTHS = (97, 110, 118, 128)
SUBJECTS = ("Ada", "Bo", "Cy", "Di")
SFREQ = 50.0
NAMES = ("PerCDL", "PopCDL", "IndCDL")
TABLE = ["subject", "atom", "onset_sample", "onset_seconds", "amplitude"]
ATTRIBUTES = ("dictionary_", "params_", "personal_dictionary_", "n_activations_", "objective_")

OPTIONS = {
    "n_atoms": 2,
    "atom_length": toy.LENGTH,
    "penalty": 0.3,
    "population_rounds": 2,
    "personal_rounds": 2,
    "realign": False,
    "init": toy.first_guess(0),
}


def make(name, **options):
    """Return an estimator, not fitted; options of `Algorithm` and `L0Coder` are sorted in."""
    chosen = {**OPTIONS, **options}
    if name == "PerCDL":
        chosen = {"transformation": TimeWarp(1, 3), "multistart": False} | chosen
    for argument, cls in (("algorithm", Algorithm), ("coder", L0Coder)):
        own = {f.name: chosen.pop(f.name) for f in fields(cls) if f.name in chosen}
        chosen |= {argument: cls(**own)} if own else {}
    return {"PerCDL": PerCDL, "PopCDL": PopCDL, "IndCDL": IndCDL}[name](**chosen)


def spaced_recordings(seed, lengths=LENGTHS, noise=0.02, bend=0.8):
    """Return arrays (n, 1) in which atoms do not touch: their margins hold noise only."""
    rng = np.random.default_rng(seed)
    time = np.linspace(0, 1, toy.LENGTH)
    arrays = []
    for n in lengths:
        warps = time + rng.uniform(-bend, bend, (2, 1)) * np.sin(np.pi * time) / np.pi
        atoms = [np.interp(w, time, a[:, 0]) for w, a in zip(warps, toy.patterns(), strict=True)]
        x = noise * rng.standard_normal(n)
        onset, turn = int(rng.integers(3, 8)), 0
        while onset + toy.LENGTH + 3 <= n:
            x[onset : onset + toy.LENGTH] += rng.uniform(0.7, 1.3) * atoms[turn % 2]
            onset, turn = onset + toy.LENGTH + int(rng.integers(8, 14)), turn + 1
        arrays.append(x[:, None])
    return arrays


def spaced_cohort(seed, **options):
    """Return the same, as a cohort of people with names."""
    arrays = spaced_recordings(seed, **options)
    return Cohort.from_arrays(arrays, sfreq=SFREQ, subjects=SUBJECTS[: len(arrays)])


def share_explained(model, cohort):
    """Return the share of the energy that the events and the atoms of the fit explain."""
    rest, energy = 0.0, 0.0
    for s, record in enumerate(cohort):
        x = record.values.copy()
        energy += np.nansum(x**2)
        for event in model.events_[model.events_["subject"] == record.subject].itertuples():
            atom = model.personal_dictionary_[s, event.atom]
            x[event.onset_sample : event.onset_sample + len(atom)] -= event.amplitude * atom
        rest += np.nansum(x**2)
    return 1 - rest / energy


def assert_same_fit(first, second, rtol=0.0, atol=0.0):
    """Compare all that two models have learned, to rounding; without tolerance, bit for bit."""
    for name in ATTRIBUTES:
        pair = [np.asarray(getattr(model, name)) for model in (first, second)]
        np.testing.assert_allclose(*pair, rtol=rtol, atol=atol, err_msg=name)
        assert pair[0].dtype == pair[1].dtype
    for name in ("events_", "history_"):
        tables = (getattr(model, name) for model in (first, second))
        pair = [table.drop(columns="seconds", errors="ignore") for table in tables]
        assert_same_table(*pair, rtol=rtol, atol=atol)
    for name in ("stop_reason_", "subjects_", "channels_", "units_", "sfreq_", "n_channels_"):
        assert getattr(first, name) == getattr(second, name), name


def assert_same_table(first, second, rtol=0.0, atol=0.0):
    """Compare two frames, dtypes included."""
    assert first.dtypes.to_dict() == second.dtypes.to_dict()
    assert len(first) == len(second)
    for column in first:
        pair = first[column].to_numpy(), second[column].to_numpy()
        if pair[0].dtype.kind == "f":
            np.testing.assert_allclose(*pair, rtol=rtol, atol=atol, err_msg=column)
        else:
            assert list(pair[0]) == list(pair[1]), column
