"""Cohorts and the containers of MNE."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from percdl import Cohort, events_to_annotations
from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals import as_cohort

mne = pytest.importorskip("mne", reason="mne is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

RATE = 100.0
TYPES = ["eeg", "eeg", "ecg", "mag", "stim", "misc"]
NAMES = ["Fz", "Cz", "ECG", "MEG1", "STI", "knee"]


def make_raw(n_times=200, seed=0, types=TYPES, names=NAMES, **options):
    info = mne.create_info(names, RATE, types)
    values = 1e-5 * np.random.default_rng(seed).standard_normal((len(names), n_times))
    return mne.io.RawArray(values, info, verbose="ERROR", **options)


def make_epochs(raw, **options):
    events = np.array([[20, 0, 1], [80, 0, 2], [150, 0, 1]])
    arguments = {"tmin": 0, "tmax": 0.29, "baseline": None, "preload": True} | options
    return mne.Epochs(raw, events, {"left": 1, "right": 2}, verbose="ERROR", **arguments)


def test_raw_gives_rate_names_units_and_samples():
    raws = [make_raw(200), make_raw(150, seed=1)]
    cohort = Cohort.from_mne(raws, subjects=["A", "B"], groups=["old", "young"])
    assert cohort.lengths.tolist() == [200, 150]
    assert cohort.sfreq == RATE
    assert cohort.channels == tuple(NAMES)
    assert cohort.units == ("V", "V", "V", "T", "", "")
    assert (cohort.subjects, cohort.groups) == (("A", "B"), ("old", "young"))
    for recording, raw in zip(cohort, raws, strict=True):
        assert_array_equal(recording.values, raw.get_data().T)


def test_picks_are_those_of_mne():
    raw = make_raw()
    assert Cohort.from_mne(raw, picks="eeg").channels == ("Fz", "Cz")
    chosen = Cohort.from_mne(raw, picks=["ECG", "Fz"])
    for name, column in zip(chosen.channels, chosen[0].values.T, strict=True):
        assert_array_equal(column, raw.get_data(picks=name)[0])
    raw.info["bads"] = ["Cz"]
    assert Cohort.from_mne(raw, picks="eeg").channels == ("Fz", "Cz")


def test_units_are_converted_by_mne():
    raw = make_raw()
    plain = Cohort.from_mne(raw, picks=["Fz", "MEG1", "knee"])
    asked = Cohort.from_mne(raw, picks=["Fz", "MEG1", "knee"], units={"eeg": "uV", "mag": "fT"})
    assert asked.units == ("uV", "fT", "")
    assert_allclose(asked[0].values, plain[0].values * [1e6, 1e15, 1])
    assert Cohort.from_mne(raw, picks="eeg", units="mV").units == ("mV", "mV")


def test_subjects_are_named_by_the_containers_where_all_have_a_name():
    raws = [make_raw(), make_raw(seed=1)]
    assert Cohort.from_mne(raws).subjects == ("0", "1")
    raws[0].info["subject_info"] = {"his_id": "sub-07"}
    assert Cohort.from_mne(raws).subjects == ("0", "1")
    assert Cohort.from_mne(raws[0]).subjects == ("sub-07",)
    raws[1].info["subject_info"] = {"his_id": "sub-07"}
    with pytest.raises(InvalidRecordingError, match="sub-07"):
        Cohort.from_mne(raws)
    assert Cohort.from_mne(raws, subjects=["a", "b"]).subjects == ("a", "b")


def test_bad_spans_become_missing_on_request():
    raw = make_raw()
    raw.set_annotations(mne.Annotations([0.5, 1.2], [0.1, 0.2], ["BAD_jump", "atom0"]))
    assert not Cohort.from_mne(raw)[0].has_missing
    missing = ~Cohort.from_mne(raw, bad_as_nan=True)[0].mask
    expected = np.isnan(raw.get_data(reject_by_annotation="NaN", verbose="ERROR").T)
    assert_array_equal(missing, expected)
    assert np.flatnonzero(missing.all(1)).tolist() == list(range(50, 60))


@pytest.mark.parametrize("preload", [True, False])
def test_every_good_epoch_is_a_recording(preload):
    raw = make_raw()
    raw.set_annotations(mne.Annotations([0.85], [0.05], ["BAD_jump"]))
    epochs = make_epochs(raw, preload=preload)
    cohort = Cohort.from_mne(epochs, subjects="A", picks="eeg")
    assert cohort.subjects == ("A-0", "A-2")  # the second was bad
    assert cohort.groups == ("left", "left")
    for recording, start in zip(cohort, (20, 150), strict=True):
        assert_array_equal(recording.values, raw.get_data("eeg")[:, start : start + 30].T)


def test_epochs_of_several_people_and_their_conditions():
    both = [make_epochs(make_raw(seed=seed)) for seed in (0, 1)]
    cohort = Cohort.from_mne(both, picks="eeg")
    assert cohort.subjects == ("0-0", "0-1", "0-2", "1-0", "1-1", "1-2")
    assert cohort.groups == ("left", "right", "left") * 2
    named = Cohort.from_mne(both, picks="eeg", groups=["old", "young"])
    assert named.groups == ("old",) * 3 + ("young",) * 3


def test_averages_are_recordings():
    epochs = make_epochs(make_raw())
    evokeds = [epochs[name].average() for name in ("left", "right")]
    cohort = Cohort.from_mne(evokeds, subjects=["left", "right"])
    for recording, evoked in zip(cohort, evokeds, strict=True):
        assert recording.channels == tuple(evoked.ch_names)
        assert_array_equal(recording.values, evoked.data.T)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=3),
    st.integers(1, 3),
    st.sampled_from(["eeg", "misc"]),
    st.data(),
)
def test_cohorts_come_back(lengths, n_channels, kind, data):
    sample = st.one_of(st.just(np.nan), st.floats(-1e-3, 1e-3))
    values = [data.draw(arrays(np.float64, (n, n_channels), elements=sample)) for n in lengths]
    units = "V" if kind == "eeg" else None
    subjects = [f"P{s}" for s in range(len(values))]
    cohort = Cohort.from_arrays(values, sfreq=256, subjects=subjects, units=units)
    raws = cohort.to_mne(kind)
    assert Cohort.from_mne(raws) == cohort
    for raw, again in zip(raws, Cohort.from_mne(raws).to_mne(kind), strict=True):
        assert_array_equal(raw.get_data(), again.get_data())
        assert raw.ch_names == again.ch_names
        assert raw.info["sfreq"] == again.info["sfreq"]
        assert raw.get_channel_types() == again.get_channel_types() == [kind] * n_channels


@pytest.mark.parametrize("unit", ["mV", "uV", "µV", "\u03bcV", "nV", "V"])
def test_volts_are_what_mne_gets(unit):
    size = {"V": 1, "mV": 1e-3, "nV": 1e-9}.get(unit, 1e-6)
    values = np.random.default_rng(0).standard_normal((50, 2))
    raw = Cohort.from_arrays([values], units=[unit, "deg/s"]).to_mne(["ecg", "misc"])[0]
    assert_allclose(raw.get_data().T, values * [size, 1])
    back = Cohort.from_mne(raw)
    assert back.units == ("V", "")


def test_missing_samples_are_annotated():
    values = np.ones((100, 2))
    values[30:40, 1] = np.nan
    raw = Cohort.from_arrays([values], sfreq=RATE).to_mne()[0]
    assert [(a["onset"], a["description"]) for a in raw.annotations] == [(0.3, "BAD_NAN")]
    assert raw.annotations.duration[0] == pytest.approx(0.1, abs=0.011)
    assert_array_equal(raw.get_data().T, values)


EVENTS = pd.DataFrame(
    {
        "subject": ["A", "B", "A"],
        "atom": [1, 0, 0],
        "onset_sample": [120, 10, 40],
        "onset_seconds": [1.2, 0.1, 0.4],
        "amplitude": [2.0, 1.0, 0.5],
    }
)


def test_events_become_annotations():
    found = events_to_annotations(EVENTS, duration=0.25, subjects=["B", "C"])
    assert list(found) == ["B", "C", "A"]
    assert len(found["C"]) == 0
    assert found["A"].onset.tolist() == [0.4, 1.2]
    assert found["A"].description.tolist() == ["atom0", "atom1"]
    assert found["A"].duration.tolist() == [0.25, 0.25]
    if hasattr(found["A"], "extras"):
        assert [extra["amplitude"] for extra in found["A"].extras] == [0.5, 2.0]
    with pytest.raises(InvalidParameterError, match=r"duration=-1.0 must be"):
        events_to_annotations(EVENTS, duration=-1.0)
    with pytest.raises(InvalidParameterError, match="no column 'atom'"):
        events_to_annotations(EVENTS.drop(columns="atom"), duration=1.0)


@pytest.mark.parametrize("date", [None, datetime(2024, 5, 1, tzinfo=UTC)])
@pytest.mark.parametrize("first", [0, 37])
def test_annotations_cut_out_the_samples_of_the_events(date, first):
    """Onsets count from the first sample that the cohort has, dated or cropped as it may be."""
    raw = make_raw(300)
    raw.set_meas_date(date)
    raw.crop(first / RATE)
    cohort = Cohort.from_mne(raw, subjects="A", picks="eeg")
    found = events_to_annotations(EVENTS, duration=0.25)["A"]
    replaced, extended = raw.copy().set_annotations(found), raw.copy()
    extended.set_annotations(mne.Annotations([0.1], [0.1], ["BAD_old"]))
    extended.annotations.append(
        found.onset + extended.first_time, found.duration, found.description
    )
    assert sorted(extended.annotations.description) == ["BAD_old", "atom0", "atom1"]
    for annotated in (replaced, extended):
        events, codes = mne.events_from_annotations(annotated, regexp="atom.*", verbose="ERROR")
        epochs = mne.Epochs(
            annotated, events, codes, tmin=0, tmax=0.24, picks="eeg", baseline=None,
            preload=True, reject_by_annotation=False, verbose="ERROR",
        )  # fmt: skip
        for name, onset in (("atom0", 40), ("atom1", 120)):
            cut = cohort["A"].values[onset : onset + 25]
            assert_allclose(epochs[name].get_data(verbose="ERROR")[0].T, cut)


def test_what_mne_did_not_make_is_refused():
    array = np.zeros((2, 3, 4))
    with pytest.raises(InvalidRecordingError, match=r"from_mne` needs a Raw.*got a numpy.ndarray"):
        Cohort.from_mne(array)
    with pytest.raises(InvalidRecordingError, match=r"needs a Raw.*Use `Cohort.from_sktime"):
        Cohort.from_mne([pd.DataFrame({"x": [1.0]})])
    raw = make_raw()
    for door in (Cohort.from_aeon, Cohort.from_tslearn, as_cohort):
        for given_raw in (raw, [raw, raw]):
            with pytest.raises(InvalidRecordingError, match=r"mne.*Use `Cohort.from_mne\(...\)`"):
                door(given_raw)
    with pytest.raises(InvalidRecordingError, match="at least one recording"):
        Cohort.from_mne([])


def test_arguments_out_of_range():
    raw = make_raw()
    with pytest.raises(InvalidParameterError, match="subjects has 2 entries, but there are 1"):
        Cohort.from_mne(raw, subjects=["A", "B"])
    with pytest.raises(InvalidParameterError, match=r"bad_as_nan=True reads.*Epochs"):
        Cohort.from_mne(make_epochs(raw), bad_as_nan=True)
    gyro = Cohort.from_arrays([[1.0, 2.0]], units="deg/s")
    with pytest.raises(InvalidParameterError, match=r"'eeg' in V, but.*'ch0' is 'deg/s'.*'misc'"):
        gyro.to_mne("eeg")
    with pytest.raises(InvalidParameterError, match=r"2 type\(s\) for 1 channel"):
        gyro.to_mne(["eeg", "eeg"])
    two = [make_raw(names=["a"], types=["eeg"]), make_raw(names=["b"], types=["eeg"])]
    with pytest.raises(InvalidRecordingError, match="need the same"):
        Cohort.from_mne(two)
