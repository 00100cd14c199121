"""Activations of several lengths, from the fit to the file."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from percdl import Algorithm, Cohort, Huber, L0Coder, PerCDL, TimeWarp, load
from percdl.analysis import measure_regularity
from percdl.exceptions import InvalidParameterError, SuspectRecordingWarning
from percdl.signals import events_to_bids, write_shards

PERIODS = (14, 16, 19, 23)
SFREQ = 10.0


def cycle(n):
    time = np.linspace(0, 1, n)
    return np.sin(2 * np.pi * time) * np.hanning(n) + 0.5 * np.sin(np.pi * time) ** 8


def people():
    """Return people who repeat the same cycle, each with another length."""
    rng, arrays = np.random.default_rng(0), []
    for period in PERIODS:
        values = np.tile(cycle(period), 10)[:, None][: 8 * min(PERIODS) + 30]
        arrays.append(values + 0.02 * rng.standard_normal(values.shape))
    return Cohort.from_arrays(arrays, sfreq=SFREQ, subjects=["a", "b", "c", "d"])


def new_model(**changes):
    options = {"coder": L0Coder(stretch=1.4), "penalty": 0.05, "init": cycle(17)[None, :, None]}
    algorithm = Algorithm(population_rounds=2, personal_rounds=2)
    return PerCDL(1, 17, TimeWarp(1, 4), algorithm=algorithm, **(options | changes))


@pytest.fixture(scope="module")
def fitted():
    return new_model().fit(people())


def test_everyone_has_their_own_length(fitted):
    found = fitted.events_.groupby("subject")["duration_samples"].median()
    assert_allclose(found, PERIODS, atol=1)
    assert_allclose(fitted.events_["duration_seconds"] * SFREQ, fitted.events_["duration_samples"])
    regularity = measure_regularity(fitted.events_, people())
    assert_allclose(regularity["interval_median"] * SFREQ, PERIODS)
    assert (regularity["time_share"] > 0.9).all()
    assert fitted.suspects_.empty


def test_the_score_is_that_of_the_codes(fitted):
    """Reconstructions are made of dilated atoms, as the coder saw them."""
    cohort = people()
    energy = sum(np.sum(record.values**2) for record in cohort)
    missed = fitted.objective_ - fitted.penalty_ * len(fitted.events_)
    assert fitted.score(cohort) == pytest.approx(1 - missed / energy, abs=1e-4)


@pytest.mark.filterwarnings("ignore::percdl.exceptions.SuspectRecordingWarning")
def test_one_length_for_all_is_worse(fitted):
    alike = new_model(coder=L0Coder()).fit(people())
    assert alike.score(people()) < fitted.score(people()) - 0.05
    assert "duration_samples" not in alike.events_


def test_lengths_survive_files_shards_and_personalization(fitted, tmp_path):
    fitted.save(tmp_path / "model.percdl")
    again = load(tmp_path / "model.percdl")
    pd.testing.assert_frame_equal(again.events_, fitted.events_)
    assert again.coder == fitted.coder
    found = again.personalize(people()).events
    pd.testing.assert_frame_equal(found, fitted.events_, check_exact=False, rtol=1e-3)
    shards = write_shards(people(), tmp_path / "shards", recordings_per_shard=2)
    apart = new_model().fit(shards)
    columns = ["subject", "onset_sample", "duration_samples"]
    pd.testing.assert_frame_equal(apart.events_[columns], fitted.events_[columns])
    (first, *_) = events_to_bids(fitted.events_, tmp_path / "bids", duration=9.9, task="walk")
    own = fitted.events_[fitted.events_["subject"] == "a"]
    assert_allclose(pd.read_csv(first, sep="\t")["duration"], own["duration_seconds"])


def test_people_at_a_bound_are_named(fitted):
    with pytest.warns(SuspectRecordingWarning, match=r"`stretch` allows: .*d \(1\.\d+ s\)"):
        new_model(coder=L0Coder(stretch=1.1)).fit(people())


def test_the_shade_of_an_activation_is_as_long_as_it_lasts(fitted):
    plotting = pytest.importorskip("percdl.plotting")
    own = fitted.events_[fitted.events_["subject"] == "d"]
    ax = plotting.plot_reconstruction(people()[3].values, events=own, sfreq=SFREQ)
    (shades,) = [c for c in ax.collections if type(c).__name__ == "PolyCollection"]
    widths = [np.ptp(path.vertices[:, 0]) for path in shades.get_paths()]
    assert_allclose(widths, own["duration_seconds"])


def test_a_loss_needs_one_length():
    with pytest.raises(InvalidParameterError, match="activations of one length"):
        new_model(loss=Huber()).fit(people())
    with pytest.raises(InvalidParameterError, match=r"stretch=0\.5"):
        new_model(coder=L0Coder(stretch=0.5)).fit(people())


def test_lengths_are_spaced_evenly_around_the_atom():
    lengths = np.array(L0Coder(stretch=2.0).lengths(100))
    assert_array_equal(lengths[[0, -1]], [50, 200])
    assert 100 in lengths
    assert (lengths[1:] / lengths[:-1]).max() < 1.08


def test_cycles_are_read_over_their_own_length(fitted):
    table = fitted.cycles()
    assert_array_equal(table["duration_seconds"], fitted.events_["duration_seconds"])
    assert table["residual"].median() < 0.05
    marks = fitted.mark("middle", 0, 0.8).landmarks()
    later = (marks["sample"] - marks["onset_sample"]).groupby(marks["subject"]).median()
    assert_allclose(later / np.array(PERIODS), 0.5, atol=0.1)
