"""``percdl score``, and fits that start from annotations."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import MODEL, READ, events_of, refused, run
from numpy.testing import assert_allclose

import percdl
from percdl import average_segments, events_to_csv, read_annotations
from percdl.cli.model_options import ModelOptions

MARKS = "subject,sample,seconds,label\n"


@pytest.fixture
def files(tmp_path):
    """Return events and annotations; three of four are found, one event is false."""
    events = pd.DataFrame({"subject": "A", "atom": 0, "onset_sample": [30, 80, 100, 180]})
    events = events.assign(onset_seconds=events["onset_sample"] / 100, amplitude=1.0)
    events_to_csv(events, tmp_path / "events.csv")
    rows = "".join(f"A,{at},{at / 100},N\n" for at in (10, 60, 160, 300))
    (tmp_path / "marks.csv").write_text(MARKS + rows + "A,500,5.0,+\n")
    return tmp_path / "events.csv", tmp_path / "marks.csv"


def test_score_prints_what_python_measures(files, tmp_path):
    result = run(
        "score", *files, "--label", "N", "--tolerance", "50ms", "--out", tmp_path / "t.csv"
    )
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "sensitivity  0.7500 (3 of 4 annotations)"
    assert lines[1] == "PPV          0.7500 (3 of 4 events)"
    assert "after a lag of 200.0 ms" in lines[3]
    assert pd.read_csv(tmp_path / "t.csv")["n_found"].tolist() == [3]


def test_score_draws_a_picture(files, tmp_path):
    pytest.importorskip("matplotlib")
    result = run("score", *files, "--label", "N", "--plot", tmp_path / "score.svg")
    assert result.exit_code == 0, result.output
    assert "</svg>" in (tmp_path / "score.svg").read_text()
    assert "must end in .png" in refused("score", *files, "--plot", tmp_path / "score.doc")


def test_score_of_a_lag_given_and_for_scripts(files):
    done = events_of(run("score", *files, "--label", "N", "--lag", "0", "--json"))[-1]
    assert done["found"] == 0
    assert done["timing_bias"] is None
    assert done["table"][0]["subject"] == "A"
    json.dumps(done)
    assert "must be a number of seconds" in refused("score", *files, "--lag", "soon")
    assert "must be" in refused("score", *files, "--tolerance", "soon")


def test_annotations_in_seconds_need_no_rate(files):
    events, marks = files
    pd.read_csv(marks).drop(columns="sample").to_csv(marks, index=False)
    result = run("score", events, marks, "--label", "N", "--tolerance", "50ms")
    assert result.stdout.startswith("sensitivity  0.7500 (3 of 4"), result.output


def test_a_model_is_scored_by_the_events_of_its_fit(model_file, tmp_path):
    model = percdl.load(model_file)
    events_to_csv(model.events_, tmp_path / "events.csv")
    result = run("score", model_file, tmp_path / "events.csv", "--tolerance", "1ms")
    assert result.stdout.startswith("sensitivity  1.0000"), result.output


def test_a_fit_starts_from_the_mean_segment_at_annotations(walks, model_file, tmp_path):
    cohort = percdl.Cohort.from_csv(walks, channels="x", sfreq=50)
    events = percdl.load(model_file).events_
    first = events[events["atom"] == 0]
    events_to_csv(pd.DataFrame(first), tmp_path / "marks.csv")
    marks = read_annotations(tmp_path / "marks.csv", sfreq=50)
    cut = {"init": str(tmp_path / "marks.csv"), "window": "320ms", "pre": 2}
    model = ModelOptions.from_table(cut, "").build(cohort)
    assert_allclose(model.init, average_segments(cohort, marks, 16, 2))
    assert model.atom_length == 16
    options = ["--init", tmp_path / "marks.csv", "--window", 16, "--n-atoms", 1]
    result = run("fit", walks, *READ, *MODEL, *options, "--out", tmp_path / "m.percdl")
    assert result.exit_code == 0, result.output


def test_windows_are_those_of_annotations_only(walks, model_file, tmp_path):
    (tmp_path / "marks.csv").write_text(MARKS)
    marks = ["--init", tmp_path / "marks.csv"]
    out = ["--out", tmp_path / "m.percdl"]
    assert "pass --window" in refused("fit", walks, *READ, *marks, *out)
    assert "No complete segment" in refused("fit", walks, *READ, *marks, "--window", 16, *out)
    given = ["--init", model_file, "--window", "16"]
    assert "has a window already" in refused("fit", walks, *READ, *given, *out)
    assert "--window requires --init" in refused("fit", walks, *READ, "--window", "16", *out)


def test_the_mean_segment_is_that_of_each_person_first():
    pulse = np.array([0.0, 1.0, 0.0])
    one, other = np.tile(pulse, 4), 9 * np.roll(np.tile(pulse, 2), 1)
    cohort = percdl.Cohort.from_arrays([one, other], sfreq=1)
    marks = pd.DataFrame({"subject": ["0"] * 4 + ["1"] * 2, "sample": [1, 4, 7, 10, 1, 4]})
    expected = (pulse + np.roll(pulse, 1)) / 2
    assert_allclose(average_segments(cohort, marks, 3, 1)[0, :, 0], expected)
    by_person = average_segments(cohort, marks, 3, 1, by="subject")
    assert_allclose(by_person[:, :, 0], [pulse, np.roll(pulse, 1)])
    with pytest.raises(percdl.exceptions.InvalidParameterError, match="must lie in the window"):
        average_segments(cohort, marks, 3, 3)
