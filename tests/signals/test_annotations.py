"""Annotations read from WFDB files, BIDS folders and tables."""

import numpy as np
import pandas as pd
import pytest

from percdl import Cohort, average_segments, events_to_bids, events_to_csv, read_annotations
from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.extras import hushed


def write_wfdb(folder, record, ending, samples, symbols, fs=100, **more):
    wfdb = pytest.importorskip("wfdb")
    place = {"fs": fs, "write_dir": str(folder)}
    with hushed():
        wfdb.wrann(record, ending, np.asarray(samples), symbol=symbols, **place, **more)
    return folder / f"{record}.{ending}"


def events():
    return pd.DataFrame(
        {
            "subject": ["P1", "P1", "P2"],
            "atom": [0, 1, 0],
            "onset_sample": [10, 50, 7],
            "onset_seconds": [0.1, 0.5, 0.07],
            "amplitude": 1.0,
        }
    )


def test_beats_only_unless_asked(tmp_path):
    symbols, samples = ["+", "N", "~", "V", "/", "|", "A"], range(10, 80, 10)
    path = write_wfdb(tmp_path, "100", "atr", samples, symbols, aux_note=["(N"] + [""] * 6)
    beats = read_annotations(path)
    assert beats.columns.tolist() == ["subject", "sample", "seconds", "label", "symbol"]
    assert beats["symbol"].tolist() == ["N", "V", "/", "A"]
    assert beats["sample"].tolist() == [20, 40, 50, 70]
    assert beats["seconds"].tolist() == [0.2, 0.4, 0.5, 0.7]
    assert set(beats["subject"]) == {"100"}
    everything = read_annotations(path, labels="all")
    assert everything["symbol"].tolist() == symbols
    assert everything["label"][:2].tolist() == ["(N", "Normal beat"]
    assert read_annotations(path, labels=["V", "Paced beat"])["sample"].tolist() == [40, 50]


def test_ends_of_waves_are_named_after_the_wave(tmp_path):
    path = write_wfdb(tmp_path, "1", "ii", range(1, 7), ["(", "p", ")", "(", "N", ")"])
    waves = read_annotations(path)
    assert waves["label"].tolist() == [
        "p onset", "P-wave peak", "p end", "N onset", "Normal beat", "N end",
    ]  # fmt: skip
    assert read_annotations(path, labels="N onset")["sample"].tolist() == [4]


def test_samples_follow_the_rate_of_the_recordings(tmp_path):
    path = write_wfdb(tmp_path, "1", "atr", [36, 72], ["N", "N"], fs=360)
    resampled = read_annotations(path, sfreq=100)
    assert resampled["sample"].tolist() == [10, 20]
    assert resampled["seconds"].tolist() == [0.1, 0.2]


def test_events_written_as_bids_come_back(tmp_path):
    where = {"duration": 0.5, "task": "walk", "subjects": ["P1", "P2", "none"]}
    events_to_bids(events(), tmp_path, **where)
    again = read_annotations(tmp_path)
    assert again["subject"].tolist() == ["P1", "P1", "P2"]
    assert again["sample"].tolist() == [10, 50, 7]
    assert again["label"].tolist() == ["atom0", "atom1", "atom0"]


def test_events_written_as_csv_come_back(tmp_path):
    events_to_csv(events(), tmp_path / "events.csv")
    again = read_annotations(tmp_path / "events.csv")
    assert again["subject"].tolist() == ["P1", "P1", "P2"]
    assert again["sample"].tolist() == [10, 50, 7]
    np.testing.assert_allclose(again["seconds"], [0.1, 0.5, 0.07])


def test_a_table_of_seconds_needs_a_rate(tmp_path):
    path = tmp_path / "P7.csv"
    path.write_text("time,label\n2.5,b\n1.25,a\n")
    with pytest.raises(UnreadableFileError, match=r"P7\.csv does not say .* sfreq="):
        read_annotations(path)
    table = read_annotations(path, sfreq=100, subject_of=lambda path: path.stem.lower())
    assert table[["subject", "sample", "label"]].values.tolist() == [
        ["p7", 125, "a"],
        ["p7", 250, "b"],
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "x,y\n1,2\n", "has no column of times"),
        ("a.csv", "sample,seconds\n1,\n", r"line 2: column 'seconds' is empty"),
        ("a.csv", "sample,seconds\n1,b\n", "is not a number"),
        ("a.hea", "a 1 100", r"is a recording.* a\.atr"),
        ("a.atr", "no", r"a\.atr"),
    ],
)
def test_errors_name_the_file(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UnreadableFileError, match=message) as caught:
        read_annotations(path)
    assert str(path) in str(caught.value)


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="Name the files"):
        read_annotations(tmp_path)
    (tmp_path / "a.csv").write_text("sample,seconds,label\n1,1,step\n")
    with pytest.raises(InvalidParameterError, match="There are 'step'"):
        read_annotations(tmp_path / "a.csv", labels="stride")
    for name in ("sub-1_run-1_events.tsv", "sub-1_run-2_events.tsv"):
        (tmp_path / name).write_text("onset\tsample\n1\t1\n")
    with pytest.raises(UnreadableFileError, match="subject_of="):
        read_annotations(tmp_path)


def test_real_beats_and_waves(shared_data):
    pytest.importorskip("wfdb")
    for folder in ("mitdb", "ludb"):
        if not (shared_data / folder).is_dir():
            pytest.skip(f"no {folder} in {shared_data}")
    beats = read_annotations(shared_data / "mitdb" / "103.atr")
    assert len(beats) == 2084  # as PhysioNet counts them
    waves = read_annotations(shared_data / "ludb" / "data" / "1.ii")
    onsets, ends = (waves["label"].str.endswith(end).sum() for end in ("onset", "end"))
    assert onsets == ends == len(waves) / 3


@pytest.mark.parametrize("mark", [";", "|", "\t"])
@pytest.mark.parametrize("cell", ["1.5", "1,5"])
def test_the_sign_between_cells_is_recognized(tmp_path, mark, cell):
    path = tmp_path / "marks.csv"
    path.write_text(f"subject;onset;label\nA;0;a, b\nA;{cell};step\n".replace(";", mark))
    if cell == "1,5" and mark != ";":
        with pytest.raises(UnreadableFileError, match="'1,5' in column 'onset'"):
            read_annotations(path, sfreq=10)
    else:
        found = read_annotations(path, sfreq=10)
        assert found["sample"].tolist() == [0, 15]
        assert found["label"].tolist() == ["a, b", "step"]


def test_annotations_at_another_rate_are_refused():
    cohort = Cohort.from_arrays(np.random.default_rng(0).normal(size=(1, 400)), sfreq=200)
    marks = pd.DataFrame({"subject": "0", "sample": [100, 300], "seconds": [0.2, 0.6]})
    with pytest.raises(InvalidParameterError, match=r"'0' have sample 100 at 0.2 s.*sfreq=200 to"):
        average_segments(cohort, marks, 20, 10)
    at_home = marks.assign(sample=[40, 120])
    assert average_segments(cohort, at_home, 20, 10).shape == (1, 20, 1)
