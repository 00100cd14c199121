"""Two of atoms, warps and activations are known; the library's step finds the third."""

import pytest

pytest.importorskip("matplotlib")

import numpy as np

from percdl import make_synthetic
from percdl.experiments import Study, known_truth
from percdl.experiments.known_truth import (
    fig_perso,
    find_params,
    score_activations,
    score_atoms,
    score_warps,
)
from percdl.transforms import TimeWarp

SEEDS = (0, 1)


def test_activations_are_found_exactly():
    rows = Study().sweep(score_activations, seed=SEEDS)
    assert (rows["onsets_exact"] == 1).all()
    assert (rows["n_extra"] == 0).all()
    assert (rows["amplitude_error"] < 1e-9).all()


def test_common_atoms_are_found():
    rows = Study().sweep(score_atoms, seed=SEEDS)
    assert (rows["distance"] < 1e-6).all()
    assert (rows["start_distance"] > 0.1).all()
    assert (rows["error"] < 1e-12).all()


def test_warps_are_found():
    rows = Study().sweep(score_warps, seed=SEEDS)
    assert (rows["warps_recovered"] == 1).all()
    assert (rows["atom_distance"] < 0.05).all()


def test_a_warp_of_the_true_shape_does_better_than_a_poor_one():
    rows = Study().sweep(known_truth.measure_sensitivity, depth=(1, 3), width=(10,), seed=(0,))
    error = rows.set_index("depth")["error"]
    assert error[3] < 0.1 * error[1]
    assert error[3] < 0.1


def test_pictures_are_drawn_of_what_was_found():
    result = fig_perso(Study())
    assert result.figure.axes
    assert result.lines[0].ours.startswith("100.0%")


def test_random_warps_increase_and_keep_their_ends(monkeypatch):
    monkeypatch.setattr(known_truth, "SHAPES", ((3, 10),))
    numbers = known_truth.fig_transfo_illustration(Study()).tables[""]
    for _, warp in numbers.groupby(["depth", "width", "draw"])["warp"]:
        assert (np.diff(warp) > 0).all()
        np.testing.assert_allclose(warp.iloc[[0, -1]], [0, 1], atol=1e-6)


def test_recovered_parameters_stay_in_theta():
    data = make_synthetic(3, random_state=2)
    rows = find_params(data, TimeWarp(3, 10)).reshape(3, 2, 3, 10)
    assert np.abs(rows).sum(-1).max() <= 0.99 + 1e-9
