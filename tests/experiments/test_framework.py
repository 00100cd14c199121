"""The way from a label to its files, with experiments that take no time."""

import json

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from typer.testing import CliRunner

import percdl
from percdl.cli import app
from percdl.exceptions import InvalidParameterError, PerCDLError
from percdl.experiments import CATALOG, Ledger, Line, Result, Scale, Study, find
from percdl.experiments import study as studies
from percdl.experiments.study import write_page

ENTRY, OTHER = CATALOG[0], CATALOG[1]
WIDE = {"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}


def a_result(value=0.25):
    figure = Figure()
    figure.add_subplot().plot([0, 1])
    table = pd.DataFrame({"x": [1, 2], "y": [value, np.nan]})
    lines = [Line("distance", "0.5", f"{value}", "S = 3 | N = 4")]
    return Result(lines, {"_numbers": table}, figure)


@pytest.fixture
def offered(monkeypatch):
    """Let every label run a function of ours; return the list of studies it was asked."""
    asked = []

    def put(function):
        def load(entry):
            return lambda study: (asked.append((entry.label, study)), function(study))[1]

        monkeypatch.setattr(studies.Entry, "load", load)
        return asked

    return put


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)], env=WIDE)


def test_labels_and_names_are_unique():
    assert len({entry.label for entry in CATALOG}) == len(CATALOG)
    assert len({entry.name for entry in CATALOG}) == len(CATALOG)


def test_an_unknown_label_is_answered_with_the_known_ones():
    with pytest.raises(InvalidParameterError, match=r"'fig:none'.*fig:conv"):
        find("fig:none")


def test_an_alias_leads_to_the_label_with_the_same_numbers():
    assert find("tab:app:gait_segmentation") == find("tab:gait_segmentation")


def test_the_scale_decides_the_setting():
    assert Study(Scale.SMALL).pick(1, 2) == 1
    assert Study(Scale.PAPER).pick(1, 2) == 2


def test_a_result_is_written_whole_and_read_back(tmp_path):
    stored = studies.write(ENTRY, Scale.PAPER, a_result(), tmp_path)
    folder = tmp_path / ENTRY.name
    assert {p.name for p in folder.iterdir()} == {
        f"{ENTRY.name}{end}" for end in (".png", ".svg", "_numbers.csv", ".json")
    }
    assert stored == studies.read(ENTRY, tmp_path)
    assert (stored.scale, stored.lines) == (Scale.PAPER, a_result().lines)
    assert pd.read_csv(folder / f"{ENTRY.name}_numbers.csv").equals(a_result().tables["_numbers"])
    summary = json.loads((folder / f"{ENTRY.name}.json").read_text())
    assert summary["tables"][f"{ENTRY.name}_numbers.csv"][1] == {"x": 2, "y": None}


def test_the_same_result_gives_the_same_files(tmp_path):
    for home in ("one", "two"):
        studies.write(ENTRY, Scale.PAPER, a_result(), tmp_path / home)
    one, two = (tmp_path / home / ENTRY.name for home in ("one", "two"))
    assert all(path.read_bytes() == (two / path.name).read_bytes() for path in one.iterdir())


def test_a_result_of_another_scale_or_version_does_not_count_as_finished(tmp_path, monkeypatch):
    assert studies.finished(ENTRY, Scale.SMALL, tmp_path) is None
    written = studies.write(ENTRY, Scale.SMALL, a_result(), tmp_path)
    assert studies.finished(ENTRY, Scale.SMALL, tmp_path) == written
    assert studies.finished(ENTRY, Scale.PAPER, tmp_path) is None
    monkeypatch.setattr(studies, "__version__", "99")
    assert studies.finished(ENTRY, Scale.SMALL, tmp_path) is None


def test_the_page_holds_all_results_and_needs_nothing_else(tmp_path):
    for entry in (OTHER, ENTRY):
        studies.write(entry, Scale.SMALL, a_result(), tmp_path)
    page = write_page(tmp_path).read_text()
    assert page.index(ENTRY.title) < page.index(OTHER.title)
    assert page.count("data:image/png;base64,") == 2
    assert "http" not in page.replace('lang="en"', "")
    text = (tmp_path / "README.md").read_text()
    assert "| distance | 0.5 | 0.25 |\n" in text
    assert "Settings: S = 3 | N = 4." in text
    assert (tmp_path / f"{ENTRY.name}/{ENTRY.name}.png").is_file()
    assert f"]({ENTRY.name}/{ENTRY.name}.png)" in text


def test_settings_that_differ_are_written_line_by_line(tmp_path):
    result = a_result()
    result.lines.append(Line("error", "-", "1", "S = 5 | N = 4"))
    studies.write(ENTRY, Scale.SMALL, result, tmp_path)
    page = write_page(tmp_path).read_text()
    text = (tmp_path / "README.md").read_text()
    assert "| distance | 0.5 | 0.25 | S = 3 \\| N = 4 |" in text
    assert "<td>S = 5 | N = 4</td>" in page
    assert "Settings:" not in page + text


def test_the_command_writes_what_it_shows(tmp_path, offered):
    asked = offered(lambda study: a_result())
    outcome = reproduce(ENTRY.label, "--scale", "paper", "--out", tmp_path)
    assert outcome.exit_code == 0, outcome.output
    assert "distance: 0.5 | 0.25 | S = 3" in outcome.output
    assert [(label, study.scale) for label, study in asked] == [(ENTRY.label, Scale.PAPER)]
    assert (tmp_path / "index.html").is_file()


def test_finished_labels_are_kept_unless_asked(tmp_path, offered):
    asked = offered(lambda study: a_result())
    reproduce(ENTRY.label, "--out", tmp_path)
    reproduce(ENTRY.label, "--out", tmp_path)
    assert len(asked) == 1
    reproduce(ENTRY.label, "--out", tmp_path, "--fresh")
    assert len(asked) == 2


def test_an_interrupted_study_goes_on(tmp_path, offered):
    measured = []

    def two_rows(study):
        for seed in range(2):
            if seed == 1 and not measured[1:]:
                measured.append("interrupted")
                raise KeyboardInterrupt
            study.ledger.row({"seed": seed}, lambda n=seed: measured.append(n) or {"y": 1})
        return a_result()

    offered(two_rows)
    stopped = reproduce(ENTRY.label, "--out", tmp_path)
    assert "the next run continues" in stopped.output
    assert measured == [0, "interrupted"]
    assert reproduce(ENTRY.label, "--out", tmp_path).exit_code == 0
    assert measured == [0, "interrupted", 1]
    assert not list(tmp_path.rglob("*.partial.jsonl"))


def test_an_interrupted_fresh_run_goes_on_without_fresh(tmp_path, offered):
    offered(lambda study: a_result())
    reproduce(ENTRY.label, "--out", tmp_path)

    def interrupted(study):
        raise KeyboardInterrupt

    offered(interrupted)
    reproduce(ENTRY.label, "--out", tmp_path, "--fresh")
    asked = offered(lambda study: a_result())
    outcome = reproduce(ENTRY.label, "--out", tmp_path)
    assert asked
    assert "kept" not in outcome.output


def test_the_page_says_what_is_missing(tmp_path):
    studies.write(ENTRY, Scale.SMALL, a_result(), tmp_path)
    page = write_page(tmp_path).read_text()
    for text in (page, (tmp_path / "README.md").read_text()):
        assert f"1 of {len(CATALOG)} figures" in text
        assert OTHER.label in text


def test_the_page_names_other_versions_that_measured(tmp_path, monkeypatch):
    studies.write(ENTRY, Scale.SMALL, a_result(), tmp_path)
    assert "Measured with" not in write_page(tmp_path).read_text()
    monkeypatch.setattr(studies, "__version__", "99")
    for text in (write_page(tmp_path).read_text(), (tmp_path / "README.md").read_text()):
        assert f"Measured with percdl {percdl.__version__}." in text


@pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry.label)
def test_every_label_has_its_function(entry):
    assert callable(entry.load())


def test_an_unknown_label_is_refused_with_the_known_ones():
    with pytest.raises(InvalidParameterError, match=r"no label 'conv'.*fig:conv"):
        find("conv")


def test_one_label_that_fails_does_not_stop_the_others(tmp_path, offered):
    def fail_first(study, calls=[]):  # noqa: B006
        calls.append(1)
        if len(calls) == 1:
            raise PerCDLError("no recordings here [set PERCDL_DATA]")
        return a_result()

    offered(fail_first)
    outcome = reproduce(ENTRY.label, OTHER.label, "--out", tmp_path)
    assert outcome.exit_code != 0
    assert "no recordings here [set PERCDL_DATA]" in outcome.output
    assert f"not reproduced: {ENTRY.label}" in outcome.output
    assert studies.finished(OTHER, Scale.SMALL, tmp_path)


def test_a_ledger_measures_a_line_cut_short_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    first = Ledger(path)
    first.row({"seed": 0}, lambda: {"y": np.float32(0.5), "curve": np.arange(2)})
    first.row({"seed": 1}, lambda: {"y": 2})
    path.write_text(path.read_text()[:-9])
    again = Ledger(path)
    assert again.row({"seed": 0}, dict) == {"seed": 0, "y": 0.5, "curve": [0, 1]}
    assert again.row({"seed": 1}, lambda: {"y": 3})["y"] == 3
    assert Ledger(path).row({"seed": 1}, dict)["y"] == 3
