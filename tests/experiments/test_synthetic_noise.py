"""The two noise experiments at a tiny size: rows, a resumed ledger, honest sentences."""

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("tslearn")

import numpy as np
import pandas as pd

from percdl import make_synthetic
from percdl.experiments import Ledger, Study, noise
from percdl.experiments.fits import error_of_fit, fit, select

SIZES = {"S": [4], "N": [320]}


def measure_impulses(path):
    levels = {"impulse_rate": (0.0, 0.2), "loss": ("squared", "huber")}
    return noise.measure(Study(ledger=Ledger(path)), (0,), **levels, **SIZES)


@pytest.fixture(scope="module")
def noise_rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("noise") / "ledger.jsonl"
    return measure_impulses(path), path


def test_the_error_is_that_of_the_model_itself():
    data = make_synthetic(4, 320, random_state=0)
    model = fit("PerCDL", data)
    mine = error_of_fit(model, data.cohort)
    energy = sum(np.sum(r.values**2) for r in data.cohort)
    # The objective is the squared error and the price of the activations.
    assert mine * energy + model.penalty_ * len(model.events_) == pytest.approx(
        model.objective_, rel=1e-3, abs=1e-4
    )


def test_every_method_and_loss_is_measured_once(noise_rows):
    rows, path = noise_rows
    assert len(rows) == 2 * 2 * 3 == len(path.read_text().splitlines())
    clean = rows[rows["impulse_rate"] == 0]
    np.testing.assert_array_equal(clean["error_clean"], clean["error_given"])
    assert (rows[["error_clean", "error_given"]] >= 0).all(axis=None)


def test_impulses_do_harm(noise_rows):
    rows, _ = noise_rows
    worse = rows.groupby("impulse_rate")["error_given"].mean()
    assert worse[0.2] > worse[0.0]


def test_an_interrupted_study_measures_nothing_twice(noise_rows, monkeypatch):
    rows, path = noise_rows
    monkeypatch.setattr(noise, "_scores", lambda **key: pytest.fail("measured again"))
    again = measure_impulses(path)
    assert again.equals(rows)


def test_the_lowest_error_of_each_seed_is_counted(noise_rows):
    rows, _ = noise_rows
    better = rows["method"].map({"PerCDL": 0.1, "PopCDL": 0.2, "IndCDL": 0.3})
    table = noise.summarize_impulses(rows.assign(error_clean=better))
    won = select(
        table.query("against == 'error_clean' and impulse_rate == 0.2"),
        "method",
        "seeds_lowest",
        loss="squared",
    )
    assert won == {"PerCDL": 1, "PopCDL": 0, "IndCDL": 0}
    assert noise.draw_impulses(table, 1).axes


@pytest.fixture(scope="module")
def gaussian_rows():
    return noise.measure(Study(), (0,), snr_db=(0, 30), penalty=("0.01", "auto"), **SIZES)


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


def test_errors_rise_with_the_noise(gaussian_rows):
    twice = pd.concat([gaussian_rows, gaussian_rows.assign(seed=1)])
    values = twice["snr_db"].map({30: 0.4, 0: 0.8})
    table = noise.summarize_gaussian(twice.assign(error_given=values))
    assert noise.rise(table, "error_given", "PopCDL") == pytest.approx((0.4, 2))
    assert noise.draw_gaussian(table, 2).axes
