"""Events written for other programs, and read back by them."""

import json

import numpy as np
import pandas as pd
import pytest

from percdl import events_to_bids, events_to_csv, events_to_wfdb
from percdl.exceptions import InvalidParameterError


@pytest.fixture
def events():
    """Return events of two subjects at 100 Hz, out of order, as a model would list them."""
    return pd.DataFrame(
        {
            "subject": ["10-5", "10-5", "7", "10-5", "10-5"],
            "atom": [0, 1, 0, 1, 0],
            "onset_sample": [250, 0, 123_456, 99, 99],
            "onset_seconds": [2.5, 0.0, 1234.56, 0.99, 0.99],
            "amplitude": [1.25, 1 / 3, 2e-5, 3.0, -0.5],
        }
    )


def test_csv_gives_the_events_back(events, tmp_path):
    events_to_csv(events, tmp_path / "events.csv")
    again = pd.read_csv(tmp_path / "events.csv", dtype={"subject": str})
    pd.testing.assert_frame_equal(again, events, check_dtype=False)


def test_csv_keeps_further_columns_behind_the_others(events, tmp_path):
    events_to_csv(events.assign(probability=0.5)[::-1], tmp_path / "events.csv")
    again = pd.read_csv(tmp_path / "events.csv")
    assert list(again) == [*events, "probability"]
    assert (again["probability"] == 0.5).all()


def test_bids_files_are_where_they_belong_and_describe_themselves(events, tmp_path):
    files = events_to_bids(
        events, tmp_path, duration=0.65, task="walk", subjects=["10-5", "7", "8"]
    )
    assert [str(file.relative_to(tmp_path)) for file in files] == [
        f"sub-{label}/beh/sub-{label}_task-walk_events.tsv" for label in ("105", "7", "8")
    ]
    table = pd.read_csv(files[0], sep="\t", dtype={"subject": str})
    assert table.columns[:3].tolist() == ["onset", "duration", "trial_type"]
    assert table["onset"].tolist() == [0.0, 0.99, 0.99, 2.5]
    assert set(table["duration"]) == {0.65}
    assert table["trial_type"].tolist() == ["atom1", "atom0", "atom1", "atom0"]
    assert table["sample"].tolist() == [0, 99, 99, 250]
    np.testing.assert_array_equal(table["amplitude"], [1 / 3, -0.5, 3.0, 1.25])
    assert set(table["subject"]) == {"10-5"}
    assert len(pd.read_csv(files[2], sep="\t")) == 0
    described = json.loads((tmp_path / "task-walk_events.json").read_text())
    assert set(described) == set(table.columns)
    assert described["onset"]["Units"] == described["duration"]["Units"] == "s"
    assert all(column["Description"] for column in described.values())


def test_bids_names_must_stay_apart(events, tmp_path):
    clash = events.replace({"subject": {"7": "105"}})
    with pytest.raises(InvalidParameterError, match=r"'10-5' and '105' would both be sub-105"):
        events_to_bids(clash, tmp_path, duration=1, task="walk")
    with pytest.raises(InvalidParameterError, match=r"'-' has no letter"):
        events_to_bids(events, tmp_path, duration=1, task="-")
    with pytest.raises(InvalidParameterError, match=r"duration=nan .*atom_length_"):
        events_to_bids(events, tmp_path, duration=np.nan, task="walk")
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # in the package
def test_wfdb_reads_the_annotations_back(events, tmp_path):
    wfdb = pytest.importorskip("wfdb")
    files = events_to_wfdb(events, tmp_path, sfreq=100)
    assert [file.name for file in files] == ["10-5.percdl", "7.percdl"]
    read = wfdb.rdann(str(tmp_path / "10-5"), "percdl")
    assert read.sample.tolist() == [0, 99, 99, 250]
    assert read.fs == 100
    assert read.num.tolist() == [1, 0, 1, 0]
    assert read.symbol == ["("] * 4
    assert read.aux_note == [
        "atom=1 amplitude=0.333333333",
        "atom=0 amplitude=-0.5",
        "atom=1 amplitude=3",
        "atom=0 amplitude=1.25",
    ]
    assert wfdb.rdann(str(tmp_path / "7"), "percdl").sample.tolist() == [123_456]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"subject": "Ada L."}, {}, "'Ada L.'"),
        ({"atom": 128}, {}, "atoms up to 127"),
        ({"onset_sample": -1}, {}, "onsets from 0"),
        ({}, {"extension": "a/1"}, "'a/1'"),
    ],
)
def test_what_wfdb_cannot_hold_is_refused_before_writing(
    events, tmp_path, change, options, message
):
    pytest.importorskip("wfdb")
    with pytest.raises(InvalidParameterError, match=message):
        events_to_wfdb(events.assign(**change), tmp_path / "out", sfreq=100, **options)
    assert not (tmp_path / "out").exists()


def test_events_need_their_columns(events, tmp_path):
    with pytest.raises(InvalidParameterError, match="no column 'amplitude', only subject, atom"):
        events_to_csv(events.drop(columns="amplitude"), tmp_path / "events.csv")
    with pytest.raises(FileNotFoundError, match="no folder"):
        events_to_csv(events, tmp_path / "none" / "events.csv")
