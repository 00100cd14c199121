"""The two noise experiments at a tiny size: rows, a resumed ledger, honest sentences."""

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("tslearn")

import numpy as np
import pandas as pd

from percdl import make_synthetic
from percdl.experiments import Ledger, Study, fig_gaussian_noise, fig_noise
from percdl.experiments.studies.residuals import rebuild_fit
from percdl.experiments.studies.synthetic_fits import fit
from percdl.signals.reconstruction import normalized_reconstruction_error

SIZES = {"n_subjects": 4, "n_times": 320}


@pytest.fixture(scope="module")
def noise_rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("noise") / "ledger.jsonl"
    return fig_noise.measure(Study(ledger=Ledger(path)), (0.0, 0.2), (0,), **SIZES), path


def test_the_error_is_that_of_the_model_itself():
    data = make_synthetic(4, 320, random_state=0)
    model = fit("PerCDL", data)
    mine = normalized_reconstruction_error(data.cohort, rebuild_fit(model, data.cohort))
    energy = sum(np.sum(r.values**2) for r in data.cohort)
    # The objective is the squared error and the price of the activations.
    assert mine * energy + model.penalty_ * len(model.events_) == pytest.approx(
        model.objective_, rel=1e-3, abs=1e-4
    )


def test_every_method_and_loss_is_measured_once(noise_rows):
    rows, path = noise_rows
    assert len(rows) == 2 * 2 * 3 == len(path.read_text().splitlines())
    clean = rows[rows["rate"] == 0]
    np.testing.assert_array_equal(clean["error_clean"], clean["error_given"])
    assert (rows[["error_clean", "error_given"]] >= 0).all(axis=None)


def test_impulses_do_harm(noise_rows):
    rows, _ = noise_rows
    worse = rows.groupby("rate")["error_given"].mean()
    assert worse[0.2] > worse[0.0]


def test_an_interrupted_study_measures_nothing_twice(noise_rows, monkeypatch):
    rows, path = noise_rows
    monkeypatch.setattr(fig_noise, "_errors", lambda **key: pytest.fail("measured again"))
    again = fig_noise.measure(Study(ledger=Ledger(path)), (0.0, 0.2), (0,), **SIZES)
    assert again.equals(rows)


def test_the_reading_follows_the_numbers(noise_rows):
    rows, _ = noise_rows
    better = rows["method"].map({"PerCDL": 0.1, "PopCDL": 0.2, "IndCDL": 0.3})
    table = fig_noise.summarize(rows.assign(error_clean=better))
    assert "at every share of impulses, as the paper says" in fig_noise._read(table)
    table = fig_noise.summarize(rows.assign(error_clean=-better))
    assert "except at 0 % (IndCDL), 20 % (IndCDL)" in fig_noise._read(table)
    assert fig_noise.draw(table, 1).axes


@pytest.fixture(scope="module")
def gaussian_rows():
    return fig_gaussian_noise.measure(Study(), (0, 30), (0,), **SIZES)


def test_noise_hides_the_personal_atoms(gaussian_rows):
    rows = gaussian_rows
    assert len(rows) == 2 * 2 * 3
    for quantity in ("euclidean", "dtw", "error_given"):
        by_level = rows.groupby("snr_db")[quantity].mean()
        assert by_level[0] > by_level[30]
    # A path of any slope is never longer than the straight one.
    assert (rows["dtw"] <= rows["euclidean"] + 1e-9).all()


def test_an_automatic_penalty_follows_the_noise(gaussian_rows):
    fixed = gaussian_rows.query("penalty == '0.01'")["penalty_used"]
    assert (fixed == 0.01).all()
    auto = gaussian_rows.query("penalty == 'auto'").groupby("snr_db")["penalty_used"].min()
    assert auto[0] > auto[30]


def test_the_reading_of_gaussian_noise_follows_the_numbers(gaussian_rows):
    values = gaussian_rows["method"].map({"PerCDL": 0.1, "PopCDL": 0.4, "IndCDL": 0.3})
    twice = pd.concat([gaussian_rows, gaussian_rows.assign(seed=1)])
    for name in fig_gaussian_noise.QUANTITIES:
        twice[name] = [*values, *values]
    table = fig_gaussian_noise.summarize(twice)
    assert fig_gaussian_noise.levels_won(table, "dtw", "PerCDL") == ([0], [])
    assert fig_gaussian_noise.levels_won(table, "dtw", "PopCDL") == ([], [0])
    reading = fig_gaussian_noise._read(table)
    assert "DTW distance to the personal atoms, PerCDL below IndCDL at all" in reading
    assert "DTW distance to the personal atoms, PopCDL below IndCDL at none" in reading
    assert fig_gaussian_noise.draw(table, 2).axes
