"""Walks in the official layout: what is read, and what is said when files are not right."""

import json

import numpy as np
import pandas as pd
import pytest

from percdl.datasets import load_gait
from percdl.datasets.gait import CHANNELS, GROUPS
from percdl.exceptions import DatasetError, InvalidParameterError


def write_trial(folder, code, n_times=300, **changes):
    subject, trial = map(int, code.split("-"))
    rng = np.random.default_rng(subject)
    frame = pd.DataFrame(rng.normal(size=(n_times, len(CHANNELS))), columns=CHANNELS)
    about = {
        "Subject": subject, "Trial": trial, "Code": code, "Age": 50, "Gender": "F",
        "Height": 1.7, "Weight": "NC", "Sensor": "XSens", "PathologyGroup": "Healthy",
        "LeftFootActivity": [[10, 60], [110, 160]], "RightFootActivity": [[60, 110], [160, 210]],
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_csv(folder / f"{code}.csv", index=False)
    (folder / f"{code}.json").write_text(json.dumps({**about, **changes}))
    return frame


@pytest.fixture
def walks(tmp_path):
    for code in ("10-5", "2-1", "10-1"):
        write_trial(tmp_path / "gait" / "GaitData", code)
    return tmp_path


@pytest.mark.parametrize("below", [".", "gait", "gait/GaitData"])
def test_each_level_of_the_layout_can_be_named(walks, below):
    data = load_gait(walks / below, download=False)
    assert data.cohort.subjects == ("10-1", "10-5", "2-1")


def test_values_and_labels_are_those_of_the_files(walks):
    frame = write_trial(walks / "gait" / "GaitData", "7-2", PathologyGroup="Orthopedic")
    data = load_gait(walks, channels=["RRY", "LAV"], trials=["7-2", "2-1"], download=False)
    np.testing.assert_allclose(data.cohort["7-2"].values, frame[["RRY", "LAV"]])
    assert data.cohort.groups == ("Orthopedic", "Healthy")
    assert data.cohort.units == ("deg/s", "g")
    assert data.cohort.sfreq == 100
    assert list(data.metadata.index) == ["7-2", "2-1"]
    assert np.isnan(data.metadata.loc["7-2", "Weight"])
    assert data.metadata.loc["7-2", "Subject"] == 7
    named = load_gait(walks, channels={"RRY": "right foot"}, trials=["7-2"], download=False)
    assert named.cohort.channels == ("right foot",)
    np.testing.assert_allclose(named.cohort["7-2"].values, frame[["RRY"]])


def test_walks_are_described_in_a_line(walks):
    text = repr(load_gait(walks, download=False))
    assert text.startswith("GaitData(Cohort(3 recordings, 1 channel (RRY), 100 Hz, 300 samples")
    assert "groups Healthy: 3" in text
    assert text.endswith("6 annotated cycles of the right foot)")


def test_a_cycle_starts_where_the_right_foot_leaves_the_ground(walks):
    data = load_gait(walks, download=False)
    np.testing.assert_array_equal(data.cycles["2-1"], [60, 160])
    np.testing.assert_array_equal(data.swings["2-1"]["right"], [[60, 110], [160, 210]])


def test_trials_of_participants(walks):
    assert load_gait(walks, subjects=[10], download=False).cohort.subjects == ("10-1", "10-5")
    with pytest.raises(InvalidParameterError, match="asks for trials none"):
        load_gait(walks, subjects=[3], download=False)


def test_a_foot_without_steps_has_no_swing(walks):
    write_trial(walks / "gait" / "GaitData", "9-9", RightFootActivity=[])
    data = load_gait(walks, trials=["9-9"], download=False)
    assert data.swings["9-9"]["right"].shape == (0, 2)


def test_wishes_that_cannot_be_met_are_named(walks):
    with pytest.raises(InvalidParameterError, match=r"trials 99-1\..* holds 3"):
        load_gait(walks, trials=["99-1"], download=False)
    with pytest.raises(InvalidParameterError, match="'RRQ'"):
        load_gait(walks, channels="RRQ", download=False)


@pytest.mark.parametrize("end", ["csv", "json"])
def test_half_a_pair_is_named(walks, end):
    (walks / "gait" / "GaitData" / f"10-5.{end}").unlink()
    with pytest.raises(DatasetError, match=rf"10-5\.{end} cannot be read"):
        load_gait(walks, download=False)


@pytest.mark.parametrize(
    ("end", "text", "message"),
    [
        ("json", '{"Code": "10-5"}', "LeftFootActivity"),
        ("json", "{", "cannot be read"),
        ("csv", "LAV,LAX\n1,2\n", "RRY"),
        ("csv", "RRY\n1\nx\n", "cannot be read"),
        ("csv", "", "cannot be read"),
    ],
)  # fmt: skip
def test_damaged_files_are_named(walks, end, text, message):
    (walks / "gait" / "GaitData" / f"10-5.{end}").write_text(text)
    with pytest.raises(DatasetError, match=rf"10-5\.{end}.*{message}"):
        load_gait(walks, download=False)


@pytest.mark.realdata
def test_the_real_walks(real_gait):
    data = load_gait(real_gait, download=False)
    sizes = pd.Series(data.cohort.groups).value_counts()
    assert set(sizes.index) <= set(GROUPS)
    assert not data.metadata.index.has_duplicates
    for code, swings in data.swings.items():
        for intervals in swings.values():
            assert (intervals[:, 0] < intervals[:, 1]).all()
            assert intervals.max() < data.cohort[code].n_times
    # A foot that swings forward turns forward, so the signal separates swings from the rest.
    walk = data.cohort["10-5"].values[:, 0]
    inside = np.zeros(len(walk), bool)
    for start, end in data.swings["10-5"]["right"]:
        inside[start:end] = True
    assert np.std(walk[inside]) > 3 * np.std(walk[~inside])
