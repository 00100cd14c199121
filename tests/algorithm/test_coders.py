"""Activations that overlap: the same loop, with the l1 coder and its statistics."""

import warnings

import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose

from percdl import Algorithm, Cohort, IndCDL, L1Coder, PerCDL, PopCDL, TimeWarp, load
from percdl.algorithm.exchange import Broadcast
from percdl.datasets import atom_distance
from percdl.datasets.synthetic import common_patterns
from percdl.exceptions import (
    NoActivationWarning,
    SuspectRecordingWarning,
)
from percdl.runtimes.in_process import InProcess
from percdl.steps import overlap
from percdl.steps.dictionary import normalize

L, N = 30, 300
CODER = L1Coder(n_steps=300)


def overlapping(n_subjects, seed, missing=False):
    """Return recordings in which each pattern starts before the one before has ended."""
    rng, patterns = np.random.default_rng(seed), common_patterns(L)
    recordings = []
    for _ in range(n_subjects):
        x = np.zeros((N, 1))
        for onset in np.arange(5, N - 2 * L, 45) + rng.integers(0, 6):
            first, second = rng.permutation(2)
            x[onset : onset + L] += patterns[first]
            x[onset + 12 : onset + 12 + L] += rng.uniform(0.7, 1.3) * patterns[second]
        if missing:
            x[rng.integers(0, N, 15)] = np.nan
        recordings.append(x)
    return Cohort.from_arrays(recordings), patterns


def start(patterns, seed=1):
    noise = np.random.default_rng(seed).standard_normal(patterns.shape)
    return patterns + 0.4 * noise


@pytest.mark.parametrize("missing", [False, True])
def test_overlapping_patterns_are_told_apart(missing):
    cohort, patterns = overlapping(6, 0, missing)
    first = start(patterns)
    model = PopCDL(
        2, L, 0.3, coder=CODER, init=first, algorithm=Algorithm(population_rounds=10)
    ).fit(cohort)
    with warnings.catch_warnings():  # without overlap, atoms find no place, and explain little
        warnings.simplefilter("ignore", NoActivationWarning)
        warnings.simplefilter("ignore", SuspectRecordingWarning)
        exact = PopCDL(2, L, 1e-2, init=first, algorithm=Algorithm(population_rounds=10)).fit(
            cohort
        )
    distance = atom_distance(model.dictionary_, patterns)
    assert distance < 0.7 * atom_distance(first, patterns)
    assert distance < 0.7 * atom_distance(exact.dictionary_, patterns)
    gaps = model.events_.sort_values(["subject", "onset_sample"]).groupby("subject")
    assert (gaps["onset_sample"].diff().dropna() < L).any()


def test_the_objective_falls_and_codes_start_where_they_ended():
    cohort, patterns = overlapping(4, 1)
    for model in (
        PopCDL(2, L, 0.3, coder=CODER, init=start(patterns)),
        PerCDL(
            2,
            L,
            TimeWarp(1, 3),
            0.3,
            coder=CODER,
            init=start(patterns),
            algorithm=Algorithm(centering="off"),
        ),
        IndCDL(2, L, 0.3, coder=CODER, init=start(patterns)),
    ):
        history = model.fit(cohort).history_
        ends = history.loc[history["step"] == "CSC", "objective"].to_numpy()
        assert ends[-1] < 0.8 * ends[0]
        assert (np.diff(ends) < 0.02 * ends[0]).all()


def test_sums_tell_the_objective_that_was_reached():
    """What is left after the same atoms explain what they can is the objective of the codes."""
    chosen = toy.settings(coder=L1Coder(), personal_rounds=0)
    runtime = InProcess(Cohort.from_arrays(toy.recordings(0, (97, 100, 110))), chosen)
    atoms = normalize(toy.first_guess(0))
    sums = runtime.population_round(Broadcast(atoms))
    left = sums.energy - overlap.explained(sums.ztz, sums.ztx, atoms)
    assert_allclose(left, sums.objective, rtol=1e-9)
    coded = runtime.site.coded[0]
    moment, weight = (np.asarray(x) for x in coded.statistics[:2])
    explained = (2 * moment * atoms - weight * atoms**2).sum((1, 2, 3))
    assert_allclose(coded.unexplained - explained, coded.objective, rtol=1e-9, atol=1e-9)


def test_models_with_the_l1_coder_are_saved(tmp_path):
    cohort, patterns = overlapping(2, 2)
    model = PopCDL(
        2,
        L,
        0.3,
        coder=CODER,
        init=start(patterns),
        algorithm=Algorithm(population_rounds=1, personal_rounds=0),
    ).fit(cohort)
    model.save(tmp_path / "model.percdl")
    again = load(tmp_path / "model.percdl")
    assert again.coder == CODER
    assert again.score(cohort) == pytest.approx(model.score(cohort))
