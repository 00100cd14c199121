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
from percdl.estimators.cycles import Cycles
from percdl.estimators.landmarks import Mark, match_mark, personal_times
from percdl.estimators.personalization import Personalization
from percdl.exceptions import InvalidParameterError, ModelFileError

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
    model.marks_ = (Mark("a", 0, 0.1, -0.1),)
    with pytest.raises(ModelFileError, match=r"spread=-0\.1"):
        model.save(tmp_path / "model.percdl")


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


def test_a_landmark_follows_a_wave_that_no_warp_moves():
    """Without warps the second wave of each person is found where it is, between samples."""
    rng = np.random.default_rng(1)
    time, late = np.arange(100), np.array([-2.5, -1.0, 0.0, 0.5, 3.0])
    arrays = 0.01 * rng.standard_normal((len(late), 760, 1))
    for own, shift in zip(arrays[..., 0], late, strict=True):
        for onset in 20 + 120 * np.arange(6):
            first = 2 * np.exp(-((time - 30) ** 2) / 30)
            own[onset : onset + 100] += first + np.exp(-((time - 70 - shift) ** 2) / 30)
    atom = 2 * np.exp(-((time - 30) ** 2) / 30) + np.exp(-((time - 70) ** 2) / 30)
    model = small_models.make("PopCDL", n_atoms=1, atom_length=100, init=atom[None, :, None])
    table = model.fit(arrays).mark("first", 0, 30.0).mark("second", 0, 70.0).landmarks()
    times = table["sample"] - 20 - 120 * (table["cycle"] % 6)
    found = times.groupby([table["landmark"], table["subject"]]).median().unstack("subject")
    found = found[list(model.subjects_)]
    assert_allclose(found.loc["second"] - found.loc["first"] - 40, late, atol=0.3)
    cycles = model._find_cycles()
    own = personal_times(model.marks_, cycles)
    assert_allclose(own[1] - own[0] - 40, late, atol=0.3)
    # Annotations of the second wave are mapped back to one time.
    truth = [
        (s, 20 + 120 * i + 70 + shift)
        for s, shift in zip(model.subjects_, late, strict=True)
        for i in range(6)
    ]
    model.mark("second", 0, pd.DataFrame(truth, columns=["subject", "sample"]))
    mark = next(mark for mark in model.marks_ if mark.name == "second")
    assert mark.time == pytest.approx(70, abs=0.3)
    assert mark.spread < 0.3


@pytest.mark.parametrize("dead", [0.0, 7.1, np.nan])
def test_channels_without_a_signal_do_not_hold_a_landmark_back(dead):
    rng, time = np.random.default_rng(2), np.arange(100)
    late = np.array([-2.5, 0.0, 1.5, 3.0])
    wave = np.exp(-((time - 50 - late[:, None]) ** 2) / 30)
    usual = wave[..., None] + 0.01 * rng.standard_normal((len(late), 100, 4))
    atom = np.exp(-((time - 50) ** 2) / 30)[None, :, None].repeat(4, 2)
    names, counts = tuple("stuv"), np.ones((4, 1), int)
    params, events = np.zeros((4, 1, 0)), pd.DataFrame({"subject": []})
    rest = percdl.Identity(), atom, "float64"
    found = Personalization(params, events, counts, names, *rest)
    none = np.zeros((0, 1))
    silent = percdl.Cohort.from_arrays(np.zeros((4, 100, 4)), sfreq=SFREQ, channels=list("abcd"))
    cycles = Cycles(events, none, none[..., None], found, silent)
    mark = Mark("wave", 0, 50 / SFREQ)
    whole = match_mark(mark, cycles, usual)
    assert_allclose(whole, late, atol=0.3)
    # The mean of a constant channel is exact up to rounding only.
    usual[..., 1:] = dead * (1 + 1e-7 * rng.standard_normal(usual[..., 1:].shape))
    assert_allclose(match_mark(mark, cycles, usual), whole, atol=0.2)
