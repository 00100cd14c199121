"""Corrections of events: the table, its file, and how recordings carry them."""

import numpy as np
import pandas as pd
import pytest

from percdl import (
    Cohort,
    ShardedCohort,
    find_corrections,
    read_annotations,
    read_corrections,
    write_corrections,
    write_shards,
)
from percdl.exceptions import InvalidParameterError, UnreadableFileError


def cohort():
    rng = np.random.default_rng(0)
    return Cohort.from_arrays(rng.normal(size=(3, 500, 1)), sfreq=100, subjects=["A", "B", "C"])


def events(*rows):
    frame = pd.DataFrame(rows, columns=["subject", "atom", "onset_seconds"])
    return frame.assign(onset_sample=(frame["onset_seconds"] * 100).round().astype(int))


def corrections(*rows):
    columns = ["subject", "onset", "duration", "trial_type", "action", "tolerance"]
    return pd.DataFrame(rows, columns=columns)


SOME = corrections(
    ("A", 1.25, 0.5, "atom0", "keep", 0.0),
    ("A", 3.0, np.nan, "", "remove", np.nan),
    ("C", 1 / 3, 0.5, "", "only", 0.02),
)


def test_a_file_returns_what_was_written(tmp_path):
    path = tmp_path / "corrections.tsv"
    write_corrections(SOME, path)
    pd.testing.assert_frame_equal(read_corrections(path)[SOME.columns], SOME)
    assert path.read_text().splitlines()[0].split("\t")[:2] == ["onset", "duration"]  # BIDS


def test_a_missing_file_is_not_damaged(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*nope\.tsv"):
        read_corrections(tmp_path / "nope.tsv")


def test_corrections_with_semicolons(tmp_path):
    path = tmp_path / "corrections.csv"
    path.write_text("subject;onset;action\nP01;1.5;remove\n")
    assert read_corrections(path)[["subject", "onset"]].values.tolist() == [["P01", 1.5]]


def test_no_corrections_are_a_file_too(tmp_path):
    path = tmp_path / "corrections.tsv"
    write_corrections(SOME[:0], path)
    assert read_corrections(path).empty
    assert cohort().correct(read_corrections(path)) == cohort()


def test_annotations_are_read_without_what_was_removed(tmp_path):
    path = tmp_path / "corrections.tsv"
    write_corrections(SOME, path)
    found = read_annotations(path, sfreq=100)
    assert found[["subject", "sample"]].to_numpy().tolist() == [["A", 125], ["C", 33]]


def test_bids_events_are_events_to_keep(tmp_path):
    path = tmp_path / "sub-07_task-rest_events.tsv"
    path.write_text("onset\tduration\ttrial_type\n0.5\t0.2\tstep\n1.5\tn/a\tn/a\n")
    found = read_corrections(path)
    assert found["subject"].tolist() == ["sub-07", "sub-07"]
    assert found["action"].tolist() == ["keep", "keep"]
    assert found["trial_type"].tolist() == ["step", ""]


def test_differences_between_events():
    before = events(("A", 0, 1.0), ("A", 0, 2.0), ("A", 0, 3.0), ("B", 0, 1.0), ("B", 1, 2.0))
    after = events(("A", 0, 1.0), ("A", 0, 2.1), ("A", 0, 4.0), ("B", 1, 1.0), ("B", 1, 2.0))
    found = find_corrections(before, after, duration=0.5)
    expected = [
        ("A", 2.1, "atom0", "keep", 0.0),  # moved
        ("A", 3.0, "", "remove", np.nan),
        ("A", 4.0, "atom0", "keep", np.nan),  # added
        ("B", 1.0, "atom1", "keep", np.nan),  # another atom
    ]
    columns = ["subject", "onset", "trial_type", "action", "tolerance"]
    pd.testing.assert_frame_equal(found[columns], pd.DataFrame(expected, columns=columns))


def test_equal_events_need_no_correction():
    some = events(("A", 0, 1.0), ("A", 1, 2.0))
    assert find_corrections(some, some, duration=0.5).empty
    assert find_corrections(some[:0], some[:0], duration=0.5).empty


def test_an_event_replaced_by_two_is_moved_once_and_added_once():
    found = find_corrections(
        events(("A", 0, 1.0)), events(("A", 0, 0.8), ("A", 0, 1.3)), duration=0.5
    )
    assert found["action"].tolist() == ["keep", "keep"]
    assert found["tolerance"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("Z", 1.0, 0.5, "", "keep", np.nan), ("'Z'", "A, B, C")),
        (("A", 4.8, 0.5, "", "keep", np.nan), ("'A'", "4.8 s", "5 s")),
        (("A", -0.1, 0.5, "", "remove", np.nan), ("'A'", "-0.1 s")),
        (("A", 1.0, 0.5, "wave", "keep", np.nan), ("'A'", "1 s", "'wave'", "atom0")),
        (("A", 1.0, 0.5, "", "kept", np.nan), ("'A'", "1 s", "'kept'", "keep, remove, only")),
        (("A", np.nan, 0.5, "", "keep", np.nan), ("'A'", "onset")),
        (("A", 1.0, 0.0, "", "keep", np.nan), ("'A'", "duration")),
        (("A", 1.0, np.inf, "", "remove", np.nan), ("'A'", "duration")),
        (("A", 1.0, 0.5, "", "keep", -1.0), ("'A'", "tolerance")),
        (("A", 1.0, 0.5, "", "keep", np.inf), ("'A'", "tolerance")),
        (("", 1.0, 0.5, "", "keep", np.nan), ("subject", "1 s")),
    ],
)
def test_impossible_corrections_are_named(row, words):
    with pytest.raises(InvalidParameterError) as error:
        cohort().correct(corrections(row))
    assert all(word in str(error.value) for word in words), str(error.value)


def test_a_file_without_onsets_says_what_it_needs(tmp_path):
    path = tmp_path / "corrections.tsv"
    path.write_text("subject\ttime\nA\t1\n")
    with pytest.raises(UnreadableFileError, match="onset"):
        read_corrections(path)


def test_atoms_have_names_and_numbers():
    rows = [("A", t, 0.5, kind, "keep", np.nan) for t, kind in enumerate(("V", "atom0", "1"))]
    found = cohort().correct(corrections(*rows), names=("N", "V"))
    assert [each.atom for each in found["A"].corrections] == [1, 0, 1]


def test_corrections_travel_with_recordings(tmp_path):
    corrected = cohort().correct(SOME)
    assert corrected != cohort()
    assert [len(recording.corrections) for recording in corrected] == [2, 0, 1]
    assert corrected[["B" in s for s in corrected.subjects]] == cohort()[[False, True, False]]
    assert corrected.resample(50)["A"].corrections == corrected["A"].corrections
    corrected.to_npz(tmp_path / "cohort.npz")
    assert Cohort.from_npz(tmp_path / "cohort.npz") == corrected
    shards = write_shards(corrected, tmp_path / "shards", recordings_per_shard=2)
    assert shards[:] == corrected
    assert [r for shard in shards.shards for r in shard.read()] == [*corrected]


def test_a_cohort_on_disk_is_corrected_without_its_files(tmp_path):
    shards = write_shards(cohort(), tmp_path, recordings_per_shard=2)
    corrected = shards.correct(SOME)
    assert corrected[:] == cohort().correct(SOME)
    assert corrected.fingerprint != shards.fingerprint
    assert corrected.correct(SOME[:0]).fingerprint != corrected.fingerprint
    assert ShardedCohort.open(tmp_path)[:] == cohort() == shards[:]
