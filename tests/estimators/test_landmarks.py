"""Landmarks: carried to cycles and back, absent where there is no wave, saved with the model."""

import copy

import numpy as np
import pandas as pd
import pytest
import small_models
import toy
from numpy.testing import assert_allclose

import percdl
from percdl.estimators import intervals
from percdl.exceptions import InvalidParameterError

SFREQ = small_models.SFREQ


@pytest.fixture
def model(fitted_models, cohort):
    own = copy.copy(fitted_models["PerCDL"])
    own.recordings_ = cohort
    return own


def peak_of(atom):
    """Return the time of the largest value, in seconds, between samples."""
    at = int(np.argmax(atom))
    left, top, right = atom[at - 1 : at + 2]
    return (at + (left - right) / (2 * (left - 2 * top + right))) / SFREQ


def test_a_peak_of_the_atom_is_a_peak_of_every_cycle(model, cohort):
    peak = peak_of(model.dictionary_[1, :, 0])
    table = model.mark("peak", 1, peak).landmarks()
    assert table["present"].all()
    for cycle in table.itertuples():
        own = cohort[small_models.SUBJECTS.index(cycle.subject)].values[:, 0]
        segment = own[cycle.onset_sample : cycle.onset_sample + toy.LENGTH]
        assert abs(cycle.sample - cycle.onset_sample - np.argmax(segment)) <= 1


def test_annotations_place_what_landmarks_return(model):
    table = model.mark("by hand", 1, 0.11).landmarks()
    assert_allclose(table["seconds"] * SFREQ, table["sample"])
    model.mark("again", 1, table)
    assert model.marks_[1].time == pytest.approx(0.11, abs=2e-3)
    assert model.marks_[1].spread < 1e-3
    labelled = table.assign(label="labelled")
    assert model.mark(atom=1, time=labelled).marks_[2].name == "labelled"
    # The same name again replaces the landmark.
    assert [m.name for m in model.mark("again", 1, 0.2).marks_][-1] == "again"
    assert len(model.marks_) == 3


def test_the_spread_of_annotations_is_part_of_the_error(model):
    table = model.mark("sure", 1, 0.11).landmarks()
    sharp = table["se"].to_numpy()
    assert (sharp > 0).all()
    rng = np.random.default_rng(0)
    model.mark("sure", 1, table.assign(sample=table["sample"] + rng.normal(0, 1, len(table))))
    assert (model.landmarks()["se"].to_numpy() > np.maximum(sharp, 0.2 / SFREQ)).all()


def test_an_absent_wave_is_absent():
    rng = np.random.default_rng(0)
    time = np.arange(40)
    first, second = (np.exp(-((time - at) ** 2) / 12) for at in (10, 28))
    arrays = 0.03 * rng.standard_normal((3, 320, 1))
    onsets = 5 + 52 * np.arange(6)
    for own in arrays[..., 0]:
        for onset in onsets:
            own[onset : onset + 40] += first + 0.5 * second
    arrays[1, onsets[2] : onsets[2] + 40, 0] -= 0.5 * second
    model = small_models.make(
        "PopCDL", n_atoms=1, atom_length=40, init=(first + second)[None, :, None]
    )
    table = model.fit(arrays).mark("wave", 0, 28.0).landmarks()
    without = (table["subject"] == model.subjects_[1]) & (table.index % 6 == 2)
    assert table["present"].tolist() == (~without).tolist()
    assert table.loc[without, ["sample", "seconds", "se"]].isna().all(axis=None)
    assert abs(table.loc[without, "gain"].item()) < 0.3 < table.loc[~without, "gain"].min()


def test_pinned_cycles_are_kept(model, cohort):
    events = model.events_[["subject", "atom", "onset_sample"]]
    pinned = model.cycles(events=events.sample(frac=1, random_state=0))
    pd.testing.assert_frame_equal(pinned[events.columns], events)
    shifted = model.cycles(events=events.assign(onset_sample=events["onset_sample"] - 1))
    later = shifted["shift"].median() - pinned["shift"].median()
    assert 0.3 / SFREQ < later < 1.5 / SFREQ


def test_landmarks_are_saved(model, cohort, tmp_path):
    model.mark("a", 0, 0.1).mark("b", 1, 0.2)
    model.save(tmp_path / "model.percdl")
    loaded = percdl.load(tmp_path / "model.percdl")
    assert loaded.marks_ == model.marks_
    pd.testing.assert_frame_equal(loaded.landmarks(cohort), model.landmarks(cohort))


def test_a_fit_forgets_landmarks(cohort):
    model = small_models.make("PopCDL").fit(cohort).mark("a", 0, 0.1)
    assert model.fit(cohort).marks_ == ()


def test_intervals_lie_between_landmarks(model):
    table = model.mark("first", 1, 0.08).mark("second", 1, 0.2).mark("other", 0, 0.1).landmarks()
    found = intervals(table, {"rise": ("first", "second")})
    wide = table.pivot(index="cycle", columns="landmark", values="seconds")
    expected = (1e3 * (wide["second"] - wide["first"])).dropna()
    assert_allclose(found["ms"], expected, rtol=1e-4)
    of_neighbours = intervals(table)
    assert "first to second" in set(of_neighbours["interval"])
    with pytest.raises(InvalidParameterError, match="'PR' lies between 'P' and 'R'"):
        intervals(table, {"PR": ("P", "R")})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", 7, 0.1), "`atom=7`"),
        (("a", 0, 5.0), "between 0 and 0.32"),
        ((None, 0, 0.1), "needs a name"),
        (("a", 0, pd.DataFrame({"subject": ["Ada"]})), "no column 'sample'"),
        (("a", 0, pd.DataFrame({"subject": ["Eve"], "sample": [3]})), "None of the 1"),
    ],
)
def test_odd_landmarks_are_refused(model, arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        model.mark(*arguments)


def test_landmarks_need_marks_and_common_atoms(model, fitted_models):
    with pytest.raises(InvalidParameterError, match="There are no landmarks"):
        model.landmarks()
    with pytest.raises(InvalidParameterError, match="every person has their own"):
        fitted_models["IndCDL"].mark("a", 0, 0.1)
    with pytest.raises(InvalidParameterError, match="no channel 'ii'"):
        model.mark("a", 0, 0.1, channel="ii")
