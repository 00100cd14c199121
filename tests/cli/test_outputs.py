"""Where nothing can be written: a message, an exit code, and nothing half-written."""

import os
import shutil
from pathlib import Path

import pytest
from commands import MODEL, READ, contents, refused, run
from small_disks import mounted

import percdl

FIT = [*READ, *MODEL]


def arguments_of(command, walks, model_file):
    """Return what a command needs beside an output."""
    return {
        "fit": ["fit", walks, *FIT],
        "personalize": ["personalize", model_file, walks],
        "events": ["events", model_file, walks],
        "events as bids": ["events", model_file, walks, "--format", "bids"],
        "demo": ["demo", "--subjects", "4"],
    }[command]


@pytest.fixture
def full_disk(tmp_path):
    """A folder on a file system on which a page is left, less than a model takes."""
    with mounted(tmp_path / "full", kilobytes=8) as folder:
        (folder / "filler").write_bytes(b"x" * 4096)
        yield folder


def test_a_fit_on_a_full_disk(walks, full_disk):
    old = full_disk / "m.percdl"
    old.write_bytes(b"old")
    result = run("fit", walks, *FIT, "--out", old)
    assert result.exit_code == 2, result.output
    assert "Warning: The checkpoint" in result.output
    assert f"cannot write {old} (No space left on device)" in result.output
    assert "No incomplete file was left" in result.output
    assert contents(full_disk) == ["filler", "m.percdl"]
    assert old.read_bytes() == b"old"


def test_events_on_a_full_disk(walks, model_file, full_disk):
    arguments = [*arguments_of("events as bids", walks, model_file), "--out", full_disk]
    assert f"cannot write {full_disk} (No space left on device)" in refused(*arguments)
    assert contents(full_disk) == ["filler"]


def test_keys_on_a_full_disk(full_disk):
    pytest.importorskip("cryptography")
    arguments = ["federate", "keys", "lyon", "--ca", "--folder", full_disk]
    assert f"cannot write {full_disk} (No space left on device)" in refused(*arguments)
    assert contents(full_disk) == ["filler"]  # not a key without its other half


def test_parameters_on_a_full_disk(walks, model_file, full_disk):
    (full_disk / "more").write_bytes(b"x" * 4096)
    out = full_disk / "params.csv"
    arguments = [*arguments_of("personalize", walks, model_file), "--out", out]
    assert "No space left on device" in refused(*arguments)
    assert contents(full_disk) == ["filler", "more"]


def no_room(path, payload, mode=None):
    raise OSError(28, "No space left on device", str(path))


@pytest.mark.parametrize("command", ["fit", "personalize", "events"])
def test_a_disk_that_is_full_for_everybody(command, walks, model_file, tmp_path, monkeypatch):
    """The same without root: files cannot be written."""
    for module in ("estimators.container", "signals.files", "signals.events"):
        monkeypatch.setattr(f"percdl.{module}.replace_file", no_room)
    out = tmp_path / "new" / "out"
    message = refused(*arguments_of(command, walks, model_file), "--out", out)
    assert f"cannot write {out} (No space left on device)" in message
    assert contents(tmp_path) == []


def test_the_last_checkpoint_survives_a_model_that_cannot_be_written(walks, tmp_path, monkeypatch):
    def refuse(model, path):
        raise OSError(28, "No space left on device", str(path))

    out = tmp_path / "m"
    with monkeypatch.context() as patch:
        patch.setattr("percdl.estimators.modelfile.save", refuse)
        refused("fit", walks, *FIT, "--out", out)
    assert contents(tmp_path) == ["m.checkpoint"]
    assert run("fit", "--resume", tmp_path / "m.checkpoint").exit_code == 0
    assert len(percdl.load(out).events_)


@pytest.mark.parametrize("command", ["fit", "personalize", "events", "events as bids", "demo"])
def test_a_file_where_a_folder_should_be(command, walks, model_file, tmp_path):
    (tmp_path / "taken").write_text("a file")
    out = tmp_path / "taken" / "out"
    message = refused(*arguments_of(command, walks, model_file), "--out", out)
    assert "cannot write to" in message
    assert "Choose another folder with --out" in message
    assert contents(tmp_path) == ["taken"]


@pytest.mark.parametrize("command", ["fit", "personalize", "events", "events as bids", "demo"])
def test_a_folder_that_is_read_only(command, walks, model_file, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):
        folder = Path("/proc/self")  # where even root makes no files
        if not folder.is_dir():
            pytest.skip("this user may write everywhere")
    out = folder if command in ("events as bids", "demo") else folder / "out"
    message = refused(*arguments_of(command, walks, model_file), "--out", out)
    assert f"cannot write to {folder}" in message


@pytest.mark.parametrize("command", ["fit", "personalize", "events"])
def test_a_folder_where_a_file_should_be(command, walks, model_file, tmp_path):
    message = refused(*arguments_of(command, walks, model_file), "--out", tmp_path)
    assert f"{tmp_path} is a folder. Name a file with --out" in message


def test_a_report_that_cannot_be_written_is_refused_before_the_fit(walks, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "taken").write_text("a file")
    arguments = ["--out", tmp_path / "m", "--report", tmp_path / "taken" / "page.html"]
    assert "with --report" in refused("fit", walks, *FIT, *arguments)
    assert contents(tmp_path) == ["taken"]


def test_a_recording_is_never_replaced_by_a_result(walks, model_file, tmp_path):
    recording = sorted(walks.glob("*.csv"))[0]
    before = recording.read_bytes()
    for arguments in (
        ["fit", walks, *FIT, "--out", recording],
        ["fit", walks, *FIT, "--out", tmp_path / "m.percdl", "--report", recording],
        ["personalize", model_file, walks, "--out", recording],
        ["personalize", model_file, walks, "--out", tmp_path / "p.csv", "--events", recording],
        ["report", model_file, walks, "--out", recording],
    ):
        assert f"{recording} is one of the files that are read" in refused(*arguments)
        assert recording.read_bytes() == before


def test_what_else_is_read_is_never_replaced_by_a_result(walks, model_file, tmp_path):
    recording, model = sorted(walks.glob("*.csv"))[0], shutil.copy(model_file, tmp_path / "m")
    marks = tmp_path / "marks.csv"
    marks.write_text("subject,sample,seconds,label\nAda,10,0.2,N\n")
    config = tmp_path / "options.toml"
    config.write_text("")
    for read, *arguments in (
        (model, "personalize", model, walks),
        (model, "events", model),
        (model, "events", model, walks),
        (model, "landmarks", model, walks),
        (model, "reliability", model, walks, "--person", "name"),
        (model, "fit", walks, *FIT, "--init", model),
        (model, "find", model, walks, *READ),
        (recording, "events", model, recording),
        (marks, "find", marks, walks, *READ),
        (marks, "fit", walks, *FIT, "--init", marks, "--window", 16),
        (marks, "mark", model, walks, "--annotations", marks),
        (marks, "score", model, marks),
        (model, "score", model, marks),
        (config, "fit", walks, *FIT, "--config", config),
    ):
        before = read.read_bytes()
        message = refused(*arguments, "--out", read)
        assert f"--out {read} is one of the files that are read" in message
        assert read.read_bytes() == before


def test_pages_do_not_replace_the_model(walks, model_file, tmp_path):
    pytest.importorskip("plotly")
    model = shutil.copy(model_file, tmp_path / "m")
    for arguments in (["report", model, walks], ["person", model, walks, "--about", "Ada"]):
        assert "files that are read" in refused(*arguments, "--out", model)


def test_the_table_of_the_fit_is_not_replaced(walks, model_file, tmp_path):
    table, out = tmp_path / "people.csv", tmp_path / "m.percdl"
    table.write_text("subject,group\nAda,a\nBo,b\nCy,a\nDi,b\n")
    model = percdl.load(model_file)
    model.settings_ |= {"metadata": str(table)}
    model.save(out)
    assert "files that are read" in refused("personalize", out, walks, "--out", table)


def test_files_in_a_folder_of_events_do_not_replace_recordings(walks, model_file, tmp_path):
    pytest.importorskip("wfdb")
    own = shutil.copytree(walks, tmp_path / "walks")
    before = {path: path.read_bytes() for path in own.iterdir()}
    options = ["--format", "wfdb", "--extension", "csv", "--out", own]
    assert "files that are read" in refused("events", model_file, own, *options)
    assert {path: path.read_bytes() for path in own.iterdir()} == before


@pytest.mark.parametrize(
    ("command", "other"),
    [
        ("fit", "--report"),
        ("find", "--model"),
        ("personalize", "--events"),
        ("personalize", "--people"),
        ("landmarks", "--intervals"),
    ],
)
def test_two_results_need_two_files(command, other, walks, model_file, tmp_path):
    start = ["fit", walks, *FIT] if command == "fit" else [command, model_file, walks]
    if other == "--report":
        pytest.importorskip("plotly")
    options = ["--out", tmp_path / "x", other, tmp_path / "new" / ".." / "x"]
    assert f"--out and {other} both name" in refused(*start, *options)
    assert contents(tmp_path) == []
