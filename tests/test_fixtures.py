"""Files of this and of earlier versions load, and hold what they held when they were written."""

import json
from pathlib import Path

import numpy as np
import pytest

import percdl
from benchmarks.stress.fixtures import (
    EXPECTED,
    SUMS,
    checksums,
    describe,
    describe_people,
    make_cohort,
    make_models,
    unseen,
)
from percdl.estimators.checkpoint import fit_with_checkpoints, read_checkpoint
from percdl.exceptions import InvalidParameterError, ModelFileError
from percdl.signals.shards import ShardedCohort

FOLDERS = sorted(path for path in (Path(__file__).parent / "fixtures").glob("v*"))
MODELS = [path for folder in FOLDERS for path in sorted(folder.glob("*.percdl"))]
REFUSED = (InvalidParameterError, ModelFileError)


def named(path):
    return f"{path.parent.name}/{path.name}"


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request):
    return request.param


def test_there_are_files():
    assert len(MODELS) >= 10


def test_no_file_was_changed_or_deleted(folder):
    assert checksums(folder) == (folder / SUMS).read_text()


@pytest.mark.parametrize("path", MODELS, ids=named)
def test_a_model_holds_what_it_held(path):
    model = percdl.load(path)
    expected = json.loads((path.parent / EXPECTED).read_text()).get(path.stem)
    if expected is None:  # a federated one: its sites keep the rest
        assert len(model.subjects_) == len(model.events_) == 0
        return
    found = json.loads(json.dumps(describe(model)))
    found["transform"] = found["transform"].replace(", prior=None", "")  # there was no other
    assert found == {name: value for name, value in expected.items() if name != "unseen"}


def test_a_population_model_says_of_others_what_it_said(folder):
    found, expected = what_is_said(folder, "population")
    for column, values in expected["events"].items():
        if isinstance(values[0], float):
            np.testing.assert_allclose(found["events"][column], values, rtol=1e-3)
        else:
            assert found["events"][column] == values


def test_a_warp_model_finds_in_others_what_it_found(folder):
    """Later versions search the warps of new people with more care."""
    found, expected = what_is_said(folder, "warp")
    assert found["events"]["subject"] == expected["events"]["subject"]
    onsets = [np.array(part["events"]["onset_sample"]) for part in (found, expected)]
    assert np.abs(onsets[0] - onsets[1]).max() <= 1
    assert np.mean(onsets[0] == onsets[1]) > 0.8


def what_is_said(folder, name):
    """Return what a model says of people it has not seen, and what it said at its time."""
    expected = json.loads((folder / EXPECTED).read_text())[name]["unseen"]
    return describe_people(percdl.load(folder / f"{name}.percdl").personalize(unseen())), expected


def test_shards_hold_what_they_held(folder):
    for found, expected in zip(ShardedCohort.open(folder / "shards"), make_cohort(), strict=True):
        assert (found.subject, found.group, found.sfreq) == (
            expected.subject,
            expected.group,
            expected.sfreq,
        )
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-9)


@pytest.mark.parametrize("name", ["restarted", "out_of_core"])
def test_a_checkpoint_of_another_version_is_refused_in_words(folder, name, monkeypatch):
    monkeypatch.setattr("percdl.estimators.checkpoint.__version__", "99.0.0")
    version = folder.name.removeprefix("v")
    with pytest.raises(REFUSED, match=f"written by PerCDL {version}"):
        fit_with_checkpoints(
            make_models()["warp"][0],
            make_cohort(),
            None,
            resume=read_checkpoint(folder / f"{name}.checkpoint"),
        )
