"""Two of atoms, warps and activations are known; the library's step finds the third."""

import pytest

pytest.importorskip("matplotlib")

import numpy as np
import pandas as pd

from percdl import make_synthetic
from percdl.experiments import (
    Study,
    fig_activations,
    fig_perso,
    fig_sensitivity,
    fig_validation_common,
)
from percdl.experiments.studies.known_truth import find_params, rebuild, true_codes
from percdl.transforms import TimeWarp

SEEDS = (0, 1)


def test_truth_rebuilds_the_recordings():
    data = make_synthetic(3, random_state=0)
    rebuilt = rebuild(true_codes(data), data.personal_dictionary, 500)
    np.testing.assert_allclose(rebuilt, [record.values for record in data.cohort], atol=1e-12)


def test_activations_are_found_exactly():
    rows = fig_activations.measure(Study(), SEEDS)
    assert (rows["onsets_exact"] == 1).all()
    assert (rows["n_extra"] == 0).all()
    assert (rows["amplitude_error"] < 1e-9).all()


def test_common_atoms_are_found():
    rows = fig_validation_common.measure(Study(), SEEDS)
    assert (rows["distance"] < 1e-6).all()
    assert (rows["start_distance"] > 0.1).all()
    assert (rows["error"] < 1e-12).all()


def test_warps_are_found():
    rows = fig_perso.measure(Study(), SEEDS)
    assert (rows["warps_recovered"] == 1).all()
    assert (rows["atom_distance"] < 0.05).all()


def test_a_warp_of_the_true_shape_does_better_than_a_poor_one():
    rows = fig_sensitivity.measure(Study(), (1, 3), (10,), (0,))
    error = rows.set_index("depth")["error"]
    assert error[3] < 0.1 * error[1]
    assert error[3] < 0.1


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ([3, 1, 2, 1.5], "falls at every step as D grows, from 1.000 at D = 1 to 0.250 at D = 3"),
        ([2, 1.5, 3, 1], "does not agree with"),
    ],
)
def test_the_reading_of_sensitivity_follows_the_numbers(errors, said):
    table = pd.DataFrame({"depth": [1, 1, 3, 3], "width": [5, 10, 5, 10], "error": errors})
    assert said in fig_sensitivity._read(table, fig_sensitivity.spread_over_widths(table))
    assert fig_sensitivity.draw(table, 1).axes


def test_pictures_are_drawn_of_what_was_found():
    result = fig_perso.run(Study())
    assert set(result.figures) == {"fig_perso", "fig_perso_reconstruction"}
    assert "recovered" in result.reading


def test_recovered_parameters_stay_in_theta():
    data = make_synthetic(3, random_state=2)
    rows = find_params(data, TimeWarp(3, 10)).reshape(3, 2, 3, 10)
    assert np.abs(rows).sum(-1).max() <= 0.99 + 1e-9
