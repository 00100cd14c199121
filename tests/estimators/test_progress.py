"""Progress is shown on request, and the history says how a fit went."""

import re
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from small_models import make

from percdl.algorithm.state import StopReason
from percdl.estimators import fitting as progress_module

ROUNDS = ("population round 1", "population round 2", "personal round 1", "personal round 2")


@pytest.fixture
def terminal(monkeypatch):
    """Pretend that standard error is a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    # Not on `sys.stderr` itself, which is exchanged between a fixture and its test.
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=Mock(isatty=lambda: True)))


def shown(capsys):
    """Return what was written to standard error, without colours; to standard output, nothing."""
    written = capsys.readouterr()
    assert written.out == ""
    return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", written.err)


@pytest.mark.parametrize("progress", [False, "auto"])
def test_silent_without_a_terminal(progress, cohort, capsys):
    make("PerCDL", progress=progress).fit(cohort)
    assert shown(capsys) == ""


def test_silent_on_a_terminal_if_asked_to_be(cohort, capsys, terminal):
    make("PerCDL", progress=False).fit(cohort)
    assert shown(capsys) == ""


@pytest.mark.parametrize("progress", [True, "auto"])
def test_a_terminal_shows_a_bar_that_goes_away(progress, cohort, capsys, terminal):
    make("PerCDL", progress=progress).fit(cohort)
    text = shown(capsys)
    assert "\N{BOX DRAWINGS HEAVY HORIZONTAL}" in text
    assert re.search(r"personal round 2, objective \d", text)


def test_a_log_file_gets_a_line_per_round_on_request(cohort, capsys):
    model = make("PerCDL", progress=True).fit(cohort)
    lines = shown(capsys).splitlines()
    ends = model.history_[model.history_["step"].isin(["CDU", "PerCDU"])]["objective"]
    assert lines == [
        f"{text}, objective {objective:.6g}" for text, objective in zip(ROUNDS, ends, strict=True)
    ]


def test_all_restarts_are_shown(cohort, capsys):
    make("PopCDL", progress=True, init="auto", n_restarts=3, random_state=0).fit(cohort)
    assert shown(capsys).count("population round 4,") == 3


def test_personalizing_is_silent(fitted, cohort, capsys):
    fitted.score(cohort)
    assert shown(capsys) == ""


def test_history_lists_every_half_step(fitted_models):
    history = fitted_models["PerCDL"].history_
    assert list(history.columns) == ["phase", "round", "step", "objective", "seconds"]
    steps = [("population", k, step) for k in range(2) for step in ("CSC", "CDU")]
    steps += [("personal", k, step) for k in range(2) for step in ("IPU", "CSC", "PerCDU")]
    steps += [("final", 0, "IPU"), ("final", 0, "CSC"), ("final", 0, "express")]
    assert list(history[["phase", "round", "step"]].itertuples(index=False, name=None)) == steps


def test_time_goes_on_and_the_last_objective_is_that_of_the_model(fitted):
    history = fitted.history_
    assert history["seconds"].iloc[0] > 0
    assert history["seconds"].is_monotonic_increasing
    assert history["objective"].iloc[-1] == fitted.objective_
    assert fitted.objective_ < history["objective"].iloc[0]


def test_all_rounds_are_run_without_a_tolerance(fitted):
    assert fitted.stop_reason_ == StopReason.ROUNDS_DONE
    assert re.fullmatch(r"[A-Z].*\.", fitted.stop_reason_)


@pytest.mark.parametrize("name", ["PerCDL", "PopCDL", "IndCDL"])
def test_a_large_tolerance_stops_each_phase_at_its_second_round(name, cohort):
    model = make(name, tol=10.0, population_rounds=4, personal_rounds=4).fit(cohort)
    assert model.stop_reason_ == StopReason.CONVERGED
    assert "changed by less than `tol`" in model.stop_reason_
    rounds = model.history_.groupby("phase")["round"].max().drop("final")
    assert (rounds == 1).all()
    assert len(rounds) == (2 if name == "PerCDL" else 1)


def test_a_tolerance_stops_when_the_objective_has_settled(cohort):
    model = make("PopCDL", tol=1e-6, population_rounds=30, personal_rounds=0).fit(cohort)
    ends = model.history_.query("step == 'CSC' and phase == 'population'")["objective"].to_numpy()
    changes = np.abs(np.diff(ends)) / ends[:-1]
    assert 2 < len(ends) < 30
    assert changes[-1] <= 1e-6 < changes[:-1].min()
    assert model.stop_reason_ == StopReason.CONVERGED
