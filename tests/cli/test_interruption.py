"""Ctrl-C: a checkpoint, a word on how to go on, and the same result as in one go."""

import json
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext

import pytest
from commands import MODEL, READ, contents, refused, run
from small_models import assert_same_fit

import percdl
from percdl.cli.output import Output, interruptible, terminating_like_ctrl_c
from percdl.estimators import container


@pytest.fixture
def interrupting(monkeypatch):
    """Make a fit be interrupted after some rounds: call it with their number."""

    def after(n_rounds):
        def rounds(self, total):
            shown = []

            def report(*round_):
                shown.append(round_)
                if len(shown) == n_rounds:
                    raise KeyboardInterrupt

            return nullcontext(report)

        monkeypatch.setattr(Output, "rounds", rounds)

    return after


def interrupted_fit(walks, out, *more):
    message = refused("fit", walks, *READ, *MODEL, "--out", out, *more, code=130)
    assert f"percdl fit --resume {out}.checkpoint" in message


@pytest.mark.parametrize("n_rounds", [1, 3])
def test_what_was_interrupted_goes_on(
    n_rounds, walks, model_file, tmp_path, interrupting, monkeypatch
):
    out = tmp_path / "m"
    interrupting(n_rounds)
    interrupted_fit(walks, out)
    monkeypatch.undo()
    assert contents(tmp_path) == ["m.checkpoint"]
    result = run("fit", "--resume", f"{out}.checkpoint")
    assert result.exit_code == 0, result.output
    assert_same_fit(percdl.load(out), percdl.load(model_file))
    assert percdl.load(out).settings_["out"] == str(out)
    assert contents(tmp_path) == ["m"]


def test_all_settings_come_back(walks, tmp_path, interrupting, monkeypatch):
    config = tmp_path / "fit.toml"
    config.write_text("bandpass = [0.5, 20]\nzscore = true\nunits = 'g'\nsigned = true\n")
    table = tmp_path / "subjects.csv"
    table.write_text("subject,group\nAda,a\nBo,b\nCy,a\nDi,b\n")
    more = ["--config", config, "--metadata", table, "--min-gap", "20ms", "--tol", "1e-9"]
    whole = run("fit", walks, *READ, *MODEL, *more, "--out", tmp_path / "whole")
    assert whole.exit_code == 0, whole.output
    interrupting(2)
    interrupted_fit(walks, tmp_path / "m", *more)
    monkeypatch.undo()
    result = run("fit", "--resume", tmp_path / "m.checkpoint")
    assert result.exit_code == 0, result.output
    first, second = percdl.load(tmp_path / "whole"), percdl.load(tmp_path / "m")
    assert_same_fit(first, second)
    assert {**first.settings_, "out": ""} == {**second.settings_, "out": ""}


def test_only_the_same_fit_goes_on(walks, tmp_path, interrupting, monkeypatch):
    interrupting(1)
    interrupted_fit(walks, tmp_path / "m")
    monkeypatch.undo()
    resume = ["--resume", tmp_path / "m.checkpoint"]
    message = refused("fit", *resume, "--penalty", "0.5")
    assert "is of a fit with `penalty=0.3`, not `penalty=0.5`" in message
    assert "of a fit to other recordings" in refused("fit", *resume, "--zscore")
    assert "files that are read" in refused("fit", *resume, "--out", tmp_path / "m.checkpoint")
    assert contents(tmp_path) == ["m.checkpoint"]


@pytest.mark.parametrize("page", ["page.html", "a\0.html", "\x1b[2J.html"])
def test_a_forged_checkpoint_decides_neither_places_nor_addresses(
    walks, tmp_path, interrupting, monkeypatch, page
):
    """It names files to replace, and a scheduler whose messages would be code."""
    interrupting(1)
    interrupted_fit(walks, tmp_path / "m")
    monkeypatch.undo()
    path, precious = tmp_path / "m.checkpoint", tmp_path / "elsewhere" / "precious"
    precious.parent.mkdir()
    precious.write_text("precious")
    content, arrays = container.read(path, container.CHECKPOINT)
    content["settings"] |= {
        "out": str(precious),
        "report": f"{precious.parent}/{page}",
        "dask": "tcp://127.0.0.1:1",
        "config": str(precious),
    }
    container.write(path, container.CHECKPOINT, content, arrays)
    result = run("fit", "--resume", path)
    assert result.exit_code == 0, result.output
    assert "To write the report of that fit as well: --report" in result.output
    assert "\0" not in result.output
    assert "\x1b" not in result.output
    assert precious.read_text() == "precious"
    assert contents(tmp_path) == ["elsewhere/precious", "m"]


def test_an_old_checkpoint_is_not_lost_without_a_word(walks, tmp_path):
    (tmp_path / "m.checkpoint").write_text("old")
    result = run("fit", walks, *READ, *MODEL, "--out", tmp_path / "m")
    assert result.exit_code == 0
    assert "m.checkpoint, of an earlier fit, is replaced" in result.output


def test_without_checkpoints_there_is_nothing_to_go_on_from(walks, tmp_path, interrupting):
    interrupting(2)
    arguments = ["fit", walks, *READ, *MODEL, "--out", tmp_path / "m", "--no-checkpoint"]
    assert "Stopped before a checkpoint was written" in refused(*arguments, code=130)
    assert contents(tmp_path) == []


def test_what_is_no_checkpoint_is_refused(walks, model_file, tmp_path):
    assert "There is no checkpoint at" in refused("fit", "--resume", tmp_path / "none")
    message = refused("fit", "--resume", model_file)
    assert "is a PerCDL model file, not a checkpoint" in message


def test_ctrl_c_in_a_terminal(walks, model_file, tmp_path):
    out = tmp_path / "m"
    command = [sys.executable, "-m", "percdl", "fit", walks, *READ, *MODEL, "--out", out, "--json"]
    process = subprocess.Popen(
        [str(word) for word in [*command, "--personal-rounds", "500"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    events = []
    for line in process.stdout:
        events.append(json.loads(line))
        if events[-1]["event"] == "round" and events[-1]["phase"] == "personal":
            process.send_signal(signal.SIGINT)
            break
    rest, complaints = process.communicate(timeout=60)
    events += [json.loads(line) for line in rest.splitlines()]
    assert process.returncode == 130, complaints
    assert events[0]["event"] == "start"
    assert (events[-1]["event"], events[-1]["code"]) == ("interrupted", 130)
    assert f"percdl fit --resume {out}.checkpoint" in complaints
    assert "Traceback" not in complaints
    assert contents(tmp_path) == ["m.checkpoint"]
    described = json.loads(run("info", f"{out}.checkpoint", "--json").stdout)
    assert described["rounds_done"] >= 3


def test_the_second_press_does_not_wait(capsys):
    before = signal.getsignal(signal.SIGINT)
    with interruptible(Output(json=True), 3, lambda: "how to go on") as report:
        report("personal", 0, 1.0)
        signal.raise_signal(signal.SIGINT)
        assert "Press Ctrl-C again to stop immediately." in capsys.readouterr().out
        with pytest.raises(KeyboardInterrupt):
            report("personal", 1, 1.0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_polite_request_to_end_is_as_ctrl_c():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), terminating_like_ctrl_c():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_another_thread_leaves_signals_alone():
    seen = []

    def work():
        with terminating_like_ctrl_c(), interruptible(Output(json=True), 1, str) as report:
            report("personal", 0, 1.0)
            seen.append([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)])

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_request_to_end_leaves_the_last_round(walks, tmp_path):
    """SIGTERM, as from a batch system: the process ends at once, and what it wrote is good."""
    out, fit = (
        tmp_path / "m",
        ["fit", walks, *READ, *MODEL, "--personal-rounds", "60", "--tol", "0"],
    )
    command = [sys.executable, "-m", "percdl", *fit, "--out", out, "--json"]
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if json.loads(line)["event"] == "round":
            process.send_signal(signal.SIGTERM)
            break
    _, complaints = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM, complaints
    result = run("fit", "--resume", f"{out}.checkpoint")
    assert result.exit_code == 0, result.output
    assert contents(tmp_path) == ["m"]
    assert run(*fit, "--out", tmp_path / "whole").exit_code == 0
    assert_same_fit(percdl.load(out), percdl.load(tmp_path / "whole"))
