"""``percdl watch`` writes the events of the whole file while it grows."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
import small_models
from commands import events_of, refused, run

from percdl import Stream


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A fitted model, and its file."""
    fitted = small_models.make("PopCDL").fit(small_models.spaced_cohort(0))
    path = tmp_path_factory.mktemp("model") / "model.percdl"
    fitted.save(path)
    return fitted, path


@pytest.fixture
def walk(tmp_path):
    """A file of samples, and the samples."""
    x = np.concatenate(small_models.spaced_recordings(3))[:, 0]
    path = tmp_path / "walk.csv"
    pd.DataFrame({"ch0": x}).to_csv(path, index=False)
    return path, pd.read_csv(path)["ch0"].to_numpy()


def expected(fitted, x):
    stream = Stream(fitted, "Ada")
    return pd.concat([stream.push(x), stream.finish()], ignore_index=True)


def assert_written(out, found):
    table = pd.read_csv(out, sep="\t")
    assert len(found) > 5
    np.testing.assert_array_equal(table["sample"], found["onset_sample"])
    np.testing.assert_allclose(table["onset"], found["onset_seconds"], atol=1e-6)
    np.testing.assert_allclose(table["quality"], found["quality"], rtol=1e-3)
    assert list(table["trial_type"]) == [f"atom{k}" for k in found["atom"]]
    assert (table["duration"] == 16 / small_models.SFREQ).all()


def test_a_whole_file_has_the_events_of_the_stream(model, walk, tmp_path):
    fitted, path = model
    out = tmp_path / "events.tsv"
    result = run("watch", path, walk[0], "--person", "Ada", "--once", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    found = expected(fitted, walk[1])
    assert_written(out, found)
    kinds = [event["event"] for event in events_of(result)]
    assert kinds == ["start", *["found"] * len(found), "done"]


def test_with_the_samples_come_the_events_that_are_not_certain_yet(model, walk, tmp_path):
    fitted, path = model
    stream, n = Stream(fitted, "Ada"), 0
    while not len(stream.pending):
        stream.push(walk[1][n : n + 1])
        n += 1
    begun = tmp_path / "begun.csv"
    pd.DataFrame({"ch0": walk[1][:n]}).to_csv(begun, index=False)
    options = "--person", "Ada", "--once", "--out", tmp_path / "events.tsv", "--json", "--samples"
    events = events_of(run("watch", path, begun, *options))
    (heard,) = (event for event in events if event["event"] == "heard")
    assert len(heard["samples"][0]) == n
    assert [x["onset"] for x in heard["pending"]] == stream.pending["onset_seconds"].tolist()


def test_a_file_that_grows_has_the_same_events(model, walk, tmp_path):
    fitted, path = model
    growing, out = tmp_path / "growing.csv", tmp_path / "events.tsv"
    text = walk[0].read_text()

    def write():
        for start in range(0, len(text), 997):
            time.sleep(0.01)
            with open(growing, "a") as file:
                file.write(text[start : start + 997])

    writer = threading.Thread(target=write)
    writer.start()
    result = run(
        "watch", path, growing, "--person", "Ada", "--out", out, "--idle", 2, "--poll", 0.01
    )
    writer.join()
    assert result.exit_code == 0, result.output
    assert_written(out, expected(fitted, walk[1]))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")
def test_ctrl_c_ends_the_recording_with_all_its_events(model, walk, tmp_path):
    fitted, path = model
    out = tmp_path / "events.tsv"
    command = [sys.executable, "-m", "percdl", "watch", path, walk[0], "--person", "Ada"]
    with subprocess.Popen(
        [*map(str, command), "--out", str(out)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            while not (out.exists() and len(out.read_text().splitlines()) > 5):
                assert process.poll() is None
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 0
    found = expected(fitted, walk[1])
    assert f"{len(found)} events" in said
    assert_written(out, found)


def test_an_empty_file_has_no_events(model, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("ch0\n")
    out = tmp_path / "events.tsv"
    assert run("watch", model[1], empty, "--once", "--out", out).exit_code == 3
    assert len(pd.read_csv(out, sep="\t")) == 0


def test_what_needs_the_whole_recording_is_refused(model, walk, tmp_path):
    to = ["--out", tmp_path / "events.tsv", "--once"]
    path, file = model[1], walk[0]
    assert "needs their end" in refused("watch", path, file, *to, "--bandpass", 1, 10)
    assert "rate of the model" in refused("watch", path, file, *to, "--sfreq", 100)
    assert "there is no file" in refused("watch", path, file.with_name("nope.csv"), *to)
    assert "one file" in refused("watch", path, file, file, *to)
    assert "not a text table" in refused("watch", path, tmp_path, *to)
    assert "--group does not apply" in refused("watch", path, file, *to, "--group", "g")
    assert "--channels 2" in refused("watch", path, file, *to, "--channels", "a,b")
    for read in (path, file):
        assert "one of the files that are read" in refused("watch", path, file, "--out", read)
    assert "line 4" in refused("watch", path, _with_text(file), *to)


def _with_text(file):
    lines = file.read_text().splitlines()
    lines[3] = "three"
    odd = file.with_name("odd.csv")
    odd.write_text("\n".join(lines))
    return odd


def test_models_of_zscored_recordings_learn_the_scale(walk, tmp_path):
    cohort = small_models.spaced_cohort(0).zscore()
    path, out = tmp_path / "scaled.percdl", tmp_path / "events.tsv"
    fitted = small_models.make("PopCDL", penalty=3.0).fit(cohort)
    fitted.save(path)
    options = ["--person", "Ada", "--learn", "2s", "--once", "--out", out]
    assert run("watch", path, walk[0], *options).exit_code == 0
    x = walk[1][:, None]
    scaled = (x - x[:100].mean()) / x[:100].std()
    stream = Stream(fitted, "Ada", scaling=None)
    assert_written(out, pd.concat([stream.push(scaled), stream.finish()]))
