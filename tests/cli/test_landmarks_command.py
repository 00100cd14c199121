"""``percdl mark``, ``percdl landmarks``, and the quality of events."""

import shutil

import pandas as pd
import pytest
from commands import MODEL, READ, refused, run

import percdl


@pytest.fixture
def marked(model_file, tmp_path):
    """A copy of the model with two landmarks placed by hand."""
    path = shutil.copy(model_file, tmp_path / "marked.percdl")
    for name, time in (("first", 0.08), ("second", 0.2)):
        result = run("mark", path, "--name", name, "--at", time, "--atom", 1)
        assert result.exit_code == 0, result.output
    assert "second" in result.output
    return path


def test_landmarks_of_recordings(marked, walks, tmp_path):
    out, spans = tmp_path / "landmarks.csv", tmp_path / "intervals.csv"
    options = ("landmarks", marked, walks, "--out", out, "--intervals", spans)
    result = run(*options, "--interval", "rise=first:second")
    assert result.exit_code == 0, result.output
    table = pd.read_csv(out)
    assert {*table["landmark"]} == {"first", "second"}
    assert {*pd.read_csv(spans)["interval"]} <= {"rise"}
    assert "QT='QRS onset:T end'" in refused(*options, "--interval", "rise")


def test_a_landmark_is_removed(marked):
    assert run("mark", marked, "--remove", "first").exit_code == 0
    assert [mark.name for mark in percdl.load(marked).marks_] == ["second"]
    assert "no landmark 'first'. The model has 'second'" in refused(
        "mark", marked, "--remove", "first"
    )
    assert "or --remove" in refused("mark", marked, "--remove", "a", "--name", "b", "--at", 0.1)


def test_landmarks_from_annotations(marked, walks, tmp_path):
    out, annotations = tmp_path / "landmarks.csv", tmp_path / "annotations.csv"
    assert run("landmarks", marked, walks, "--out", out, "--level", 0.9).exit_code == 0
    table = pd.read_csv(out).dropna(subset="sample").rename(columns={"landmark": "label"})
    table["sample"] = table["sample"].round().astype(int)
    table[["subject", "sample", "label"]].to_csv(annotations, index=False)
    again = tmp_path / "again.percdl"
    options = ("--annotations", annotations, "--atom", 1, "--out", again)
    result = run("mark", marked, walks, *options)
    assert result.exit_code == 0, result.output
    times = {mark.name: mark.time for mark in percdl.load(again).marks_}
    assert times["first"] == pytest.approx(0.08, abs=0.02)
    assert "either --annotations" in refused("mark", marked, "--name", "a")


def test_a_fit_from_a_model_keeps_its_landmarks(marked, walks, tmp_path):
    again = tmp_path / "again.percdl"
    result = run("fit", walks, *READ, *MODEL, "--init", marked, "--out", again)
    assert result.exit_code == 0, result.output
    tables = []
    for path in (marked, again):
        assert run("landmarks", path, walks, "--out", tmp_path / "table.csv").exit_code == 0
        tables.append(pd.read_csv(tmp_path / "table.csv").dropna(subset="sample"))
    assert [mark.spread for mark in percdl.load(again).marks_] == [0, 0]
    both = pd.merge(*tables, on=["subject", "landmark", "cycle"])
    assert {*both["landmark"]} == {"first", "second"}
    assert both["sample_x"].to_numpy() == pytest.approx(both["sample_y"], abs=0.5)


def test_without_landmarks_the_command_that_places_them_is_named(model_file, walks, tmp_path):
    message = refused("landmarks", model_file, walks, "--out", tmp_path / "x.csv")
    assert "or `percdl mark` in the shell" in message


def test_events_with_their_quality(model_file, walks, tmp_path):
    out = tmp_path / "events.csv"
    options = ("events", model_file, walks, "--out", out)
    assert run(*options, "--quality").exit_code == 0
    table = pd.read_csv(out)
    assert table["quality"].between(0, 1).all()
    least = float(table["quality"].median())
    assert run(*options, "--min-quality", least).exit_code == 0
    assert len(pd.read_csv(out)) == (table["quality"] >= least).sum()
    assert "pass DATA" in refused("events", model_file, "--out", out, "--quality")
