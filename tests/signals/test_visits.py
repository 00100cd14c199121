"""Persons and visits of a cohort."""

import numpy as np
import pytest

from percdl import Cohort, ShardedCohort, write_shards
from percdl.exceptions import InvalidParameterError, InvalidRecordingError

SUBJECTS = ["a1", "a2", "b1"]


def cohort(**labels):
    values = np.random.default_rng(0).normal(size=(3, 20))
    return Cohort.from_arrays(values, sfreq=10, subjects=SUBJECTS, **labels)


def test_every_recording_is_a_person_by_default():
    assert cohort().persons == tuple(SUBJECTS)
    assert cohort().visits == (None,) * 3


def test_labels_come_as_lists_or_by_subject():
    labelled = cohort(persons=["a", "a", "b"], visits=[1, 2, 1])
    assert labelled.persons == ("a", "a", "b")
    assert labelled.visits == ("1", "2", "1")
    assert "2 people" in repr(labelled)
    by_subject = cohort().with_visits(
        {"b1": "b", "a1": "a", "a2": "a"}, {"a1": "1", "a2": "2", "b1": "1"}
    )
    assert by_subject == labelled


def test_labels_stay_with_their_recording(tmp_path):
    labelled = cohort(persons=["a", "a", "b"], visits=[1, 2, None])
    assert labelled[[2, 0]].persons == ("b", "a")
    assert labelled.zscore().resample(5).visits == labelled.visits
    labelled.to_npz(tmp_path / "c.npz")
    assert Cohort.from_npz(tmp_path / "c.npz") == labelled
    shards = write_shards(labelled, tmp_path / "shards", recordings_per_shard=2)
    assert shards.persons == labelled.persons
    assert ShardedCohort.open(shards.folder)[:] == labelled
    assert write_shards(cohort(), tmp_path / "plain").persons == tuple(SUBJECTS)


def test_visits_of_a_person_are_unique():
    with pytest.raises(InvalidRecordingError, match="'a' has several recordings of visit '1'"):
        cohort(persons=["a", "a", "b"], visits=[1, 1, 1])
    with pytest.raises(InvalidParameterError, match="persons has 2 entries"):
        cohort(persons=["a", "b"])
