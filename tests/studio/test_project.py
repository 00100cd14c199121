"""Recordings in pieces, corrections in a file, commands written down."""

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
from percdl.studio.corrections import Corrections
from percdl.studio.opened import RUN, Curves
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
    found = client.ask("files").json()
    (folder / "other.corrections.tsv").unlink()
    assert found["recordings"] == before
    assert not found["all_listed"]


@pytest.mark.parametrize("name", ["Ada.csv", "nobody.percdl"])
def test_what_is_not_a_model_is_said_to_be_none(client, name):
    answer = client.get("/model", params={"file": name})
    assert answer.status_code == 404
    assert "cannot be shown" in answer.text
