"""Recordings in pieces, corrections in a file, commands written down."""

import os
import shlex
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from percdl import load
from percdl.cli.studio_command import make_studio
from percdl.report.packing import envelope
from percdl.signals import find_corrections, read_corrections
from percdl.signals.from_files import find_files, find_recordings
from percdl.studio.corrections import Corrections
from percdl.studio.opened import RUN, Curves
from percdl.studio.project import spectrum
from percdl.studio.server import listen

LENGTH, SFREQ = 10, 50.0


@given(st.integers(1, 40 * RUN), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_coarse_pieces_are_the_extremes_of_the_samples(n, factor, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 2))
    values[rng.random(values.shape) < 0.1] = np.nan
    start = RUN * int(rng.integers(0, n // RUN + 1)) if n > RUN else 0
    start = start if start < n else 0
    whole = envelope(values[start:], RUN * factor)
    np.testing.assert_array_equal(Curves(values).read(start, n, RUN * factor), whole)


@given(st.floats(0.5, 20), st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
def test_the_spectrum_of_a_rhythm_is_at_its_rate_in_any_unit(rate, unit, seed):
    times = np.arange(3000) / SFREQ
    values = np.sin(2 * np.pi * rate * times)[:, None] + [5.0, -5.0]
    values[np.random.default_rng(seed).random(values.shape) < 0.05] = np.nan
    frequencies, shares = spectrum(values, SFREQ)
    assert abs(frequencies[np.argmax(shares)] - rate) <= frequencies[1]
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(spectrum(unit * values, SFREQ)[1], shares, atol=1e-9)


def random_events(seed, n_atoms=2):
    """Events that do not overlap, as lists and as a table."""
    rng = np.random.default_rng(seed)
    onsets = np.cumsum(rng.integers(LENGTH, 4 * LENGTH, rng.integers(0, 9)))
    atoms = rng.integers(0, n_atoms, len(onsets))
    return [
        {"atom": int(k), "onset": int(t), "length": LENGTH}
        for k, t in zip(atoms, onsets, strict=True)
    ]


def as_table(events):
    return pd.DataFrame({
        "subject": "Ada",
        "atom": [one["atom"] for one in events],
        "onset_seconds": [one["onset"] / SFREQ for one in events],
    })  # fmt: skip


def as_columns(events):
    filled = {"amplitude": 1.0, "quality": 0.5, "flagged": False}
    columns = {name: [one[name] for one in events] for name in ("atom", "onset", "length")}
    return columns | {name: [value] * len(events) for name, value in filled.items()}


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=4))
def test_the_last_events_that_were_saved_are_shown_again(tmp_path_factory, seeds):
    path = tmp_path_factory.mktemp("corrections") / "model.corrections.tsv"
    found, *edits = map(random_events, seeds)
    for events in edits:
        Corrections(path, SFREQ, LENGTH).save("Ada", as_table(found), events)
    shown = Corrections(path, SFREQ, LENGTH).apply("Ada", as_columns(found))
    expected = edits[-1]
    assert shown["onset"] == [one["onset"] for one in expected]
    assert shown["atom"] == [one["atom"] for one in expected]


def test_going_back_leaves_no_correction(tmp_path):
    found = random_events(3)
    corrections = Corrections(tmp_path / "m.corrections.tsv", SFREQ, LENGTH)
    assert len(corrections.save("Ada", as_table(found), found[1:])) == 1
    assert len(corrections.save("Ada", as_table(found), found)) == 0
    assert len(read_corrections(corrections.path)) == 0


def test_corrections_of_an_earlier_fit_are_kept(tmp_path):
    found = random_events(3)
    corrections = Corrections(tmp_path / "m.corrections.tsv", SFREQ, LENGTH)
    corrections.save("Ada", as_table(found), found[1:])
    # The next fit obeys; then the last event is removed as well.
    table = corrections.save("Ada", as_table(found[1:]), found[1:-1])
    removed = find_corrections(as_table(found), as_table(found[1:-1]), duration=LENGTH / SFREQ)
    pd.testing.assert_frame_equal(
        table.sort_values("onset", ignore_index=True), removed, check_like=True
    )


def test_atoms_are_known_by_their_names(tmp_path):
    path = tmp_path / "m.corrections.tsv"
    path.write_text("subject\tonset\ttrial_type\taction\nAda\t1.0\tstep\tonly\n")
    shown = Corrections(path, SFREQ, LENGTH, ("beat", "step")).apply("Ada", as_columns([]))
    assert (shown["onset"], shown["atom"]) == ([50], [1])


def wait_for(client, job):
    """Return all messages of a command when it has ended, and its exit code."""
    messages, code, end = [], None, time.monotonic() + 300
    while code is None:
        assert time.monotonic() < end
        news = client.ask("news", job=job, known=len(messages)).json()
        messages, code = messages + news["messages"], news["code"]
    return messages, code


def wait_for_people(client):
    end = time.monotonic() + 300
    while not (state := client.ask("open", file="walks.percdl").json())["ready"]:
        assert not state["failure"]
        assert time.monotonic() < end, state
        time.sleep(0.1)


def test_commands_are_run_and_written_down(client, folder):
    wait_for_people(client)
    options = {"model": "walks.percdl", "data": ["Ada.csv"], "out": "percdl-results/params.csv"}
    job = client.ask("run", command="personalize", options=options).json()["job"]
    busy = client.ask("run", command="personalize", options=options)
    assert "is running" in busy.json()["problem"]
    messages, code = wait_for(client, job)
    assert code == 0
    assert messages[-2]["event"] == "done"
    line = "percdl personalize --out=percdl-results/params.csv -- walks.percdl Ada.csv"
    assert line in (folder / "percdl-studio.sh").read_text()
    answer = client.get("/file", params={"name": "percdl-results/params.csv"})
    assert answer.text == (folder / "percdl-results" / "params.csv").read_text()
    assert answer.headers["content-disposition"].startswith("attachment")
    # The model that is looked at stays open.
    assert client.ask("person", file="walks.percdl", s=0).status_code == 200


def test_the_end_of_the_studio_ends_its_command(folder):
    studio = make_studio(folder)
    server, _ = listen(studio, 0)
    thread = threading.Thread(target=server.run)
    thread.start()
    options = {"model": "walks.percdl", "data": ["never.csv"], "out": "percdl-results/never.tsv"}
    job = studio.project.jobs[studio.project.run("watch", options)]
    assert job.wait(0, 300)["messages"][0]["event"] == "start"
    server.stop()
    thread.join()
    end = time.monotonic() + 300
    while job.code is None:
        job.wait(job.wait(0, 0)["known"], 1)
        assert time.monotonic() < end


def test_a_model_that_was_written_again_is_read_again(client, folder):
    wait_for_people(client)
    model = load(folder / "walks.percdl")
    model.save(folder / "walks.percdl")
    assert client.ask("person", file="walks.percdl", s=0).status_code == 400
    wait_for_people(client)
    assert client.ask("person", file="walks.percdl", s=0).status_code == 200


@pytest.mark.parametrize(
    "wrong", [{"atom": 2}, {"atom": -1}, {"onset": -1}, {"onset": 10**30}, {"length": 0}]
)
def test_events_that_cannot_be_are_refused(client, wrong):
    wait_for_people(client)
    event = {"atom": 0, "onset": 5, "length": 16}
    answer = client.ask("correct", file="walks.percdl", s=0, events=[event | wrong])
    assert answer.status_code == 400
    assert "is no event" in answer.json()["problem"]


def test_a_model_whose_recordings_are_not_here_says_what_to_do(client, folder):
    model = load(folder / "walks.percdl")
    model.settings_ = {**model.settings_, "data": ["walks"]}  # as seen from elsewhere
    model.save(folder / "elsewhere.percdl")
    end, failure = time.monotonic() + 300, ""
    while not failure and time.monotonic() < end:
        time.sleep(0.1)
        failure = client.ask("open", file="elsewhere.percdl").json()["failure"]
    assert "no file 'walks'" in failure
    assert "Start the studio in that folder" in failure


@pytest.mark.parametrize(
    ("sep", "decimal", "found"),
    [(",", ".", ("", "")), (";", ",", (";", ",")), ("\t", ".", ("\t", ""))],
)
def test_the_signs_of_a_table_are_recognized(client, folder, sep, decimal, found):
    table = pd.read_csv(folder / "Ada.csv")
    table.to_csv(folder / "signs.csv", sep=sep, decimal=decimal, index=False)
    head = client.ask("columns", name="signs.csv").json()
    assert head == {"columns": [*table], "delimiter": found[0], "decimal": found[1]}


def test_a_command_that_fails_says_why(client):
    options = {"data": ["Ada.csv"], "channels": ["nothing"], "time": "t", "out": "x.percdl"}
    messages, code = wait_for(
        client, client.ask("run", command="fit", options=options).json()["job"]
    )
    assert code == 2
    assert "'nothing'" in next(m["message"] for m in messages if m["event"] == "error")


def test_results_are_not_taken_for_recordings(client, folder):
    before = client.ask("files").json()["recordings"]
    (folder / "percdl-results").mkdir(exist_ok=True)
    for name in ("percdl-results/events.csv", "other.corrections.tsv"):
        (folder / name).write_text("subject,onset\n")
    listed = client.ask("files").json()["recordings"]
    _, read = find_recordings(folder, metadata=folder / "subjects.csv")  # by a command
    assert listed == before
    assert {file.name for file in read} == {one["name"] for one in before} - {"subjects.csv"}


@pytest.mark.parametrize("name", ["Ada.csv", "nobody.percdl"])
def test_what_is_not_a_model_is_said_to_be_none(client, name):
    answer = client.get("/model", params={"file": name})
    assert answer.status_code == 404
    assert "cannot be shown" in answer.text


def test_the_script_repeats_what_succeeded(client, folder):
    script = folder / "percdl-studio.sh"
    wait_for_people(client)
    read = {"channels": ["x"], "sfreq": 50}
    small = {"n_atoms": 2, "atom_length": 16, "penalty": 0.3, "transformation": "identity"}
    fit = {"data": ["Ada.csv", "Bo.csv"], "out": "repeated.percdl", **read, **small}
    wrong = fit | {"channels": ["nothing"]}
    for options, expected in ((wrong, 2), (fit, 0)):
        job = client.ask("run", command="fit", options=options).json()["job"]
        assert wait_for(client, job)[1] == expected
    again = client.ask("run", command="fit", options=fit).json()
    assert "repeated.percdl already. Choose another name" in again["problem"]
    about = {"model": "walks.percdl", "data": ["Ada.csv", "Bo.csv", "Cy.csv", "Di.csv"]}
    about |= {"about": "Bo", "out": "percdl-results/Bo.html"}
    job = client.ask("run", command="person", options=about).json()["job"]
    assert wait_for(client, job)[1] == 0
    assert len(script.read_text().splitlines()) == 5
    first = load(folder / "repeated.percdl").events_
    for name in ("repeated.percdl", "percdl-results/Bo.html"):
        (folder / name).unlink()
    bin_folder = folder.parent / "bin"
    bin_folder.mkdir()
    percdl = bin_folder / "percdl"
    percdl.write_text(f'#!/bin/sh\nexec {sys.executable} -m percdl "$@"\n')
    percdl.chmod(0o755)
    path = os.pathsep.join([str(bin_folder), os.environ["PATH"]])
    subprocess.run(["sh", script], cwd="/", env={**os.environ, "PATH": path}, check=True)
    pd.testing.assert_frame_equal(load(folder / "repeated.percdl").events_, first)
    assert "<h1>Bo</h1>" in (folder / "percdl-results" / "Bo.html").read_text("utf-8")


def test_a_fit_that_was_continued_is_repeated_as_a_whole(folder):
    project = make_studio(folder).project
    read = {"data": ["Ada.csv", "Bo.csv"], "channels": ["x"], "sfreq": 50.0}
    small = {"n_atoms": 2, "atom_length": 16, "penalty": 0.3, "population_rounds": 200}
    fit = {**read, **small, "transformation": "identity", "out": "stopped.percdl"}
    job = project.jobs[project.run("fit", fit)]
    known, end = 0, time.monotonic() + 300
    while job.code is None and time.monotonic() < end:
        news = job.wait(known, 1)
        known = news["known"]
        if any(message["event"] == "round" for message in news["messages"]):
            job.stop()
    assert job.code == 130
    assert not (folder / "percdl-studio.sh").exists()
    job = project.jobs[project.run("fit", {"resume": "stopped.percdl.checkpoint"})]
    while job.code is None and time.monotonic() < end:
        known = job.wait(known, 1)["known"]
    assert job.code == 0
    line = (folder / "percdl-studio.sh").read_text().splitlines()[-1]
    whole = project.make_arguments("fit", fit)
    assert {*whole} <= {*shlex.split(line, comments=True)}
    assert "resume" not in line


def test_thousands_of_files_are_named_by_a_pattern_of_their_folder(tmp_path):
    for folder in ("all", "some", "odd[1]"):
        (tmp_path / folder).mkdir()
        for i in range(1200):
            (tmp_path / folder / f"recording{i:04d}.csv").touch()
    project = make_studio(tmp_path).project
    chosen = sorted(
        file.relative_to(tmp_path).as_posix()
        for file in tmp_path.rglob("*.csv")
        if file.name != "recording0007.csv" or file.parent.name != "some"
    )
    command = project.make_arguments("fit", {"data": chosen})
    places = command[command.index("--") + 1 :]
    assert "all/*.csv" in places
    assert "some/*.csv" not in places  # one of its files was left out
    found = find_files([str(tmp_path / place) for place in places], (".csv",))
    assert [file.relative_to(tmp_path).as_posix() for file in found] == chosen
    few = chosen[:3]
    assert project.make_arguments("fit", {"data": few})[-3:] == few
