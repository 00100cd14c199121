"""``percdl fit``: the model of Python, from files; its words, its events, its exit codes."""

import sys
from types import ModuleType

import numpy as np
import pytest
from commands import MODEL, READ, contents, events_of, refused, run
from numpy.testing import assert_allclose
from small_models import assert_same_fit

import percdl
from percdl import (
    Algorithm,
    Compose,
    Free,
    Gain,
    Huber,
    Identity,
    L0Coder,
    PerCDL,
    Rotation,
    TimeWarp,
)
from percdl.cli.model_options import ModelOptions
from percdl.cli.output import CommandError
from percdl.parameters import parameters_of


def fit_in_python(walks):
    cohort = percdl.Cohort.from_csv(walks, channels="x", sfreq=50)
    model = PerCDL(
        2,
        16,
        TimeWarp(1, 3),
        0.3,
        algorithm=Algorithm(
            population_rounds=2, personal_rounds=2, realign=False, multistart=False
        ),
        random_state=0,
        progress=False,
    )
    return model.fit(cohort)


def test_the_model_is_that_of_python(walks, model_file):
    model = percdl.load(model_file)
    assert_same_fit(model, fit_in_python(walks))
    assert contents(model_file.parent) == ["walks.percdl"]  # the checkpoint is gone


def test_the_resolved_settings_are_in_the_file(walks, model_file):
    settings = percdl.load(model_file).settings_
    given = {"data": [str(walks)], "channels": ["x"], "sfreq": 50.0, "atom_length": 16}
    assert settings.items() >= given.items()
    assert settings["transformation"] == "warp"
    assert settings["dtype"] == "float32"
    assert not {"config", "quiet", "json", "debug", "resume"} & set(settings)


def test_scripts_get_an_object_per_event(walks, tmp_path):
    out = tmp_path / "m.percdl"
    result = run("fit", walks, *READ, *MODEL, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    events = events_of(result)
    assert [e["event"] for e in events] == ["start", *["round"] * 4, "done"]
    start, *rounds, done = events
    assert (start["subjects"], start["rounds"]) == (4, 4)
    assert [(e["phase"], e["round"]) for e in rounds] == [
        ("population", 1), ("population", 2), ("personal", 1), ("personal", 2),
    ]  # fmt: skip
    assert rounds[-1]["seconds_left"] == 0
    model = percdl.load(out)
    assert done["out"] == str(out)
    assert done["objective"] == model.objective_
    assert done["events"] == len(model.events_)
    ends = model.history_[model.history_["step"].isin(["CDU", "PerCDU"])]
    assert [e["objective"] for e in rounds] == list(ends["objective"])


def test_quiet_says_nothing(walks, tmp_path):
    result = run("fit", walks, *READ, *MODEL, "--out", tmp_path / "m", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_the_result_is_printed(walks, tmp_path):
    result = run("fit", walks, *READ, *MODEL, "--out", tmp_path / "m")
    assert "4 recordings" in result.stdout
    assert "2 atom(s) of 16 samples (0.32 s), penalty 0.3: 15 events" in result.stdout
    assert f"Model: {tmp_path / 'm'}" in result.stdout
    assert "personal round 2, objective" in result.stderr


def test_a_report_is_asked_of_the_report(walks, tmp_path, monkeypatch):
    asked = []

    def write_report(*given, **options):
        asked.append((*given, options))
        return given[1]

    stand_in = ModuleType("percdl.report.cohort")
    stand_in.write_report = write_report
    monkeypatch.setitem(sys.modules, "percdl.report.cohort", stand_in)
    out, page = tmp_path / "m", tmp_path / "new" / "page.html"
    table = tmp_path / "subjects.csv"
    table.write_text("subject,age\nAda,30\nBo,40\nCy,50\nDi,60\n")
    more = ["--metadata", table, "--person", "subject", "--report", page]
    result = run("fit", walks, *READ, *MODEL, "--out", out, *more)
    assert result.exit_code == 0, result.output
    ((model, path, cohort, options),) = asked
    assert len(options.pop("metadata")) == 4
    assert options == {"reference": None, "person": "subject"}
    assert path == page
    assert cohort.subjects == model.subjects_
    assert f"Report: {page}" in result.stdout


def test_nothing_found_is_an_exit_code(walks, tmp_path):
    options = [*MODEL, "--penalty", "1e9", "--out", tmp_path / "m"]
    result = run("fit", walks, *READ, *options)
    assert result.exit_code == 3, result.output
    assert "Warning: Every activation is zero" in result.output
    assert "0 events" in result.output
    assert len(percdl.load(tmp_path / "m").events_) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-atoms", "0"], "'0' must be an integer of at least 1 and below 2**31 or 'auto'"),
        (["--n-atoms", "two"], "'two' must be an integer"),
        (
            ["--atom-length", "1m"],
            "a duration such as '0.6s' or '600ms', a list of such lengths or 'auto'",
        ),
        (["--atom-length", "2"], "'2' must be an integer of at least 3"),
        (["--min-gap", "-1s"], "'-1s' must be an integer"),
        (["--penalty", "-1"], "'-1' must be a finite number of at least 0, a share"),
        (["--transformation", "bend"], "'bend' must be warp, rotation, gain"),
        (["--transformation", "warp+free"], "'warp+free' must be"),
        (["--loss", "cubic"], "'cubic' must be one of 'squared', 'relative', 'huber'"),
        (["--dtype", "float16"], "'float16' must be one of 'float32', 'float64'"),
        (["--depth", "0"], "--depth"),
        (["--seed", "x"], "'x' must be an integer of at least 0"),
        (["--huber-delta", "1"], "--huber-delta requires --loss huber"),
        (["--init", "none.percdl"], "no model file at none.percdl"),
        (["--transform", "warp"], "--transformation"),
        (["--update", "robust", "--transformation", "free"], "moves copies"),
        (["--atom-length", "3s"], "(atom_length=150)` is longer than subjects Ada (97 samples)"),
        (["--nope"], "No such option"),
    ],
)
def test_bad_values_are_named(arguments, message, walks, tmp_path):
    small = [*READ, "--out", tmp_path / "m"]
    assert message in refused("fit", walks, *small, *arguments)
    assert contents(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("warp", TimeWarp(2, 5, per_channel=True)),
        ("warp+gain", Compose(TimeWarp(2, 5, per_channel=True), Gain())),
        ("rotation+gain", Compose(Rotation(), Gain())),
        ("identity", Identity()),
        ("free", Free()),
    ],
)
def test_transforms_have_names(name, expected):
    table = {"transformation": name, "depth": 2, "width": 5, "per-channel": True}
    assert ModelOptions.from_table(table, "").build().transformation == expected


def test_every_hyperparameter_is_an_option_with_the_same_default():
    """A hyper-parameter that is declared in `percdl.parameters` needs no line in the shell."""
    model, python = ModelOptions.from_table({}, "").build(), PerCDL(random_state=0, progress=False)
    for name, value in python.get_params(deep=False).items():
        nested = name in ("algorithm", "coder", "transformation")
        assert getattr(model, name) == (python.resolve(name) if nested else value), name
    options = {option.name for option in ModelOptions.options()}
    declared = [*parameters_of(PerCDL), *parameters_of(Algorithm), *parameters_of(L0Coder)]
    elsewhere = {"algorithm", "coder", "progress", "random_state"}
    assert {parameter.name for parameter in declared} - elsewhere <= options


def test_values_are_those_of_python():
    table = {"penalty": "10%", "atom-length": "0.5s", "loss": "huber", "huber-delta": 2}
    model = ModelOptions.from_table(table, "").build()
    assert (model.penalty, model.atom_length, model.loss) == ("10%", "0.5s", Huber(2))
    kinds = ModelOptions.from_table({"atom-length": "0.5s,30", "loss": "relative"}, "").build()
    assert (kinds.atom_length, kinds.loss) == (["0.5s", 30], "relative")


def test_a_fit_starts_from_a_dictionary_on_disk(walks, model_file, tmp_path):
    atoms = percdl.load(model_file).dictionary_
    np.save(tmp_path / "atoms.npy", atoms)
    (tmp_path / "text.npy").write_text("no array")
    for path in (model_file, tmp_path / "atoms.npy"):
        model = ModelOptions.from_table({"init": str(path)}, "").build()
        assert (model.init == atoms).all()
    start = ["--init", model_file, "--no-realign", "--no-multistart", "--personal-rounds", "0"]
    more = ["--depth", "1", "--width", "3", "--penalty", "0.3", "--population-rounds", "0"]
    result = run("fit", walks, *READ, *start, *more, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert_allclose(percdl.load(tmp_path / "m").dictionary_, atoms, atol=1e-6)
    with pytest.raises(CommandError, match=r"is not an \.npy file"):
        ModelOptions.from_table({"init": str(tmp_path / "text.npy")}, "").build()


def test_internal_errors_are_reported_and_traced_on_demand(walks, tmp_path, monkeypatch):
    def break_down(*_, **__):
        raise RuntimeError("the sky fell")

    monkeypatch.setattr("percdl.estimators.checkpoint.fit_with_checkpoints", break_down)
    arguments = ["fit", walks, *READ, *MODEL, "--out", tmp_path / "m"]
    message = refused(*arguments, code=1)
    assert "Error: internal error: RuntimeError: the sky fell" in message
    assert "--debug" in message
    result = run(*arguments, "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.output
    last = events_of(run(*arguments, "--json"))[-1]
    assert (last["event"], last["code"]) == ("error", 1)
