"""Tables of cycles: what they hold, what they do not depend on, and what the quality means."""

import numpy as np
import pandas as pd
import pytest
import small_models
from numpy.testing import assert_allclose

from percdl import Cohort, write_shards
from percdl.estimators.cycles import judge_cycles
from percdl.exceptions import InvalidParameterError


@pytest.fixture
def model(fitted_models):
    return fitted_models["PerCDL"]


@pytest.mark.parametrize("name", ["PopCDL", "IndCDL"])
def test_without_warps_a_cycle_has_a_gain(name, fitted_models, cohort):
    model = fitted_models[name]
    table = model.cycles()
    assert "shift" not in table
    atoms = model.personal_dictionary_
    for cycle in table.itertuples():
        own = small_models.SUBJECTS.index(cycle.subject)
        segment = cohort[own].values[cycle.onset_sample :][: small_models.toy.LENGTH]
        rest = segment - cycle.amplitude * atoms[own, cycle.atom]
        assert cycle.residual == pytest.approx((rest**2).sum() / (segment**2).sum(), rel=1e-3)


def test_one_row_per_event(model):
    table = model.cycles()
    same = ["subject", "atom", "onset_sample", "onset_seconds"]
    pd.testing.assert_frame_equal(table[same], model.events_[same])
    assert_allclose(table["duration_seconds"], model.atom_length_ / 50)
    assert (table["missing"] == 0).all()
    assert table["quality"].between(0, 1).all()
    assert {"shift", "warp1"} <= {*table}


def test_cycles_of_shards_are_those_of_memory(model, cohort, tmp_path):
    on_disk = model.cycles(write_shards(cohort, tmp_path / "shards"))
    in_memory = model.cycles(cohort)
    pd.testing.assert_frame_equal(on_disk, in_memory)


def test_units_do_not_matter(model, cohort):
    plain = model._find_cycles(cohort)
    loud = Cohort.from_arrays(
        [1e3 * r.values for r in cohort], sfreq=50.0, subjects=list(cohort.subjects)
    )
    scaled = small_models.make("PerCDL", penalty=0.3e6).fit(loud)._find_cycles()
    assert scaled.table["residual"].median() == pytest.approx(
        plain.table["residual"].median(), rel=0.05
    )


def test_gaps_are_counted(model, cohort):
    arrays = [record.values.copy() for record in cohort]
    onset = int(model.events_["onset_sample"].iloc[0])
    arrays[0][onset + 2 : onset + 6] = np.nan
    table = model.cycles(Cohort.from_arrays(arrays, sfreq=50.0))
    assert table["missing"].iloc[0] == pytest.approx(4 / small_models.toy.LENGTH)


def test_a_spoilt_cycle_is_flagged(model, cohort):
    arrays = [record.values.copy() for record in cohort]
    onset = int(model.events_["onset_sample"].iloc[0])
    arrays[0][onset : onset + 16 : 2] += 0.4
    spoilt = Cohort.from_arrays(arrays, sfreq=50.0)
    table = model.cycles(spoilt)
    assert table["quality"].idxmin() == 0
    kept = model.cycles(spoilt, min_quality=float(table["quality"].iloc[0]) + 1e-9)
    assert 0 not in kept.index


@pytest.mark.parametrize("n_cycles", [4, 30])
def test_false_alarms_are_as_stated(n_cycles):
    rng = np.random.default_rng(0)
    n_people = 20_000 // n_cycles
    left = rng.chisquare(100, (n_people, n_cycles)) * rng.lognormal(0, 1, (n_people, 1))
    people = np.repeat(np.arange(n_people), n_cycles)
    table = pd.DataFrame({"subject": people, "atom": 0, "missing": 0.0})
    quality = judge_cycles(table, left.ravel())
    assert 0.03 < (quality < 0.05).mean() < 0.07
    assert 0.005 < (quality < 0.01).mean() < 0.02


def test_qualities_are_shares(model):
    with pytest.raises(InvalidParameterError, match="min_quality=2"):
        model.cycles(min_quality=2)
