"""``percdl report``: from a model file and recordings to a page."""

import json
import re
import shutil

import pandas as pd
import pytest
from commands import MODEL, READ, contents, events_of, refused, run
from small_models import SFREQ

import percdl

pytest.importorskip("plotly")

SUBJECTS = ["Ada", "Bo", "Cy", "Di"]


@pytest.fixture
def table(tmp_path):
    """A table of subjects, with groups and an age."""
    path = tmp_path / "subjects.csv"
    people = {"subject": SUBJECTS, "diagnosis": ["control", "ill"] * 2, "age": [50, "", 61, 70]}
    pd.DataFrame(people).to_csv(path, index=False)
    return path


def content_of(page):
    text = page.read_text("utf-8")
    return json.loads(re.search(r'id="content">(.*?)</script>', text, re.S)[1])


def test_a_page_of_the_people_of_the_fit(model_file, walks, table, tmp_path):
    out = tmp_path / "page.html"
    metadata = ["--metadata", table, "--group", "diagnosis"]
    result = run("report", model_file, walks, *metadata, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert events_of(result)[-1] == {
        "event": "done", "out": str(out), "bytes": out.stat().st_size,
    }  # fmt: skip
    content = content_of(out)
    columns = {column["label"]: column["values"] for column in content["columns"]}
    assert columns["Subject"] == SUBJECTS
    assert columns["Group"] == ["control", "ill"] * 2
    assert columns["age"] == [50, None, 61, 70]
    assert content["groups"]["reference"] == "control"


def test_a_page_obeys_corrections(model_file, walks, tmp_path):
    before = percdl.load(model_file).events_.query("subject == 'Bo'")["onset_seconds"].tolist()
    corrections, out = tmp_path / "corrections.tsv", tmp_path / "page.html"
    corrections.write_text(f"subject\tonset\taction\nBo\t{before[1]}\tremove\n")
    result = run("report", model_file, walks, "--corrections", corrections, "--out", out)
    assert result.exit_code == 0, result.output
    onsets = [n / SFREQ for n in content_of(out)["people"][1]["events"]["onset"]]
    assert onsets == pytest.approx([before[0], *before[2:]])


def test_a_reference_that_is_no_group_is_refused(model_file, walks, table, tmp_path):
    before = contents(tmp_path)
    said = refused(
        "report", model_file, walks, "--metadata", table, "--group", "diagnosis",
        "--reference", "healthy", "--out", tmp_path / "page.html",
    )  # fmt: skip
    assert "'healthy'" in said
    assert "'control', 'ill'" in said
    assert contents(tmp_path) == before


def test_the_table_of_the_fit_is_used_with_the_data_of_the_fit(walks, table, tmp_path):
    # The table lies among the recordings, so it must not be read as one of them.
    folder, model, out = tmp_path / "walks", tmp_path / "groups.percdl", tmp_path / "page.html"
    shutil.copytree(walks, folder)
    table = table.rename(folder / "subjects.csv")
    metadata = ["--metadata", table, "--group", "diagnosis"]
    assert run("fit", folder, *READ, *MODEL, *metadata, "--out", model).exit_code == 0
    result = run("report", model, f"{folder}/", "--out", out)
    assert result.exit_code == 0, result.output
    columns = {column["label"]: column["values"] for column in content_of(out)["columns"]}
    assert (columns["Group"], columns["age"]) == (["control", "ill"] * 2, [50, None, 61, 70])
    two = [folder / "Ada.csv", folder / "Bo.csv"]
    assert f"--metadata {table}" in run("report", model, *two, "--out", out).stderr
    assert "no groups" not in run("report", model, *two, *metadata, "--out", out).stderr


def test_recordings_are_needed(model_file, tmp_path):
    assert "no recordings were given" in refused(
        "report", model_file, "--out", tmp_path / "page.html"
    )


def test_a_page_in_place_of_a_folder_is_refused(model_file, walks, tmp_path):
    assert "is a folder" in refused("report", model_file, walks, "--out", tmp_path)


def test_a_page_about_one_person(model_file, walks, table, tmp_path):
    out, metadata = tmp_path / "Cy.html", ["--metadata", table, "--group", "diagnosis"]
    result = run("person", model_file, walks, *metadata, "--about", "Cy", "--out", out)
    assert result.exit_code == 0, result.output
    page = out.read_text("utf-8")
    assert "<h1>Cy</h1>" in page
    assert "<td>61</td>" in page  # the age, from the table
    assert "Ada" not in re.sub('base64,[^"]*', "", page)  # pictures may hold any three letters
    message = refused("person", model_file, walks, "--about", "Eve", "--out", out)
    assert "There is no recording of 'Eve', only of Ada, Bo, Cy, Di" in message
