"""``percdl personalize`` and ``percdl events``: what Python finds, in files."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from commands import contents, events_of, refused, run, write_walks
from numpy.testing import assert_allclose

import percdl
from percdl.exceptions import InvalidParameterError
from percdl.signals.extras import hushed


@pytest.fixture(scope="module")
def new_walks(tmp_path_factory):
    """Recordings that the model has not seen."""
    return write_walks(tmp_path_factory.mktemp("new") / "walks", seed=8)


@pytest.fixture(scope="module")
def expected(model_file, new_walks):
    """What Python says of them."""
    cohort = percdl.Cohort.from_csv(new_walks, channels="x", sfreq=50)
    return percdl.load(model_file).personalize(cohort)


def test_parameters_come_as_a_table(model_file, new_walks, expected, tmp_path):
    out = tmp_path / "params.csv"
    result = run("personalize", model_file, new_walks, "--out", out)  # read as in the fit
    assert result.exit_code == 0, result.output
    table = pd.read_csv(out)
    cohort = percdl.Cohort.from_csv(new_walks, channels="x", sfreq=50)
    pd.testing.assert_frame_equal(table, percdl.load(model_file).parameters(cohort))
    assert list(table["subject"]) == [name for name in expected.subjects for _ in range(2)]
    assert list(table["atom"]) == [0, 1] * 4
    # At an eighth of the way through the 16 samples of the atom.
    psi = [np.interp(15 / 8, range(16), own[0]) for person in expected.warps for own in person]
    assert_allclose(table["displacement_at_12.5%_s"], (np.array(psi) - 15 / 8) / 50, atol=1e-9)
    assert (table["activations"].to_numpy() == expected.n_activations.ravel()).all()


def test_events_come_along(model_file, new_walks, expected, tmp_path):
    out, where = tmp_path / "params.csv", tmp_path / "events.csv"
    result = run("personalize", model_file, new_walks, "--out", out, "--events", where, "--json")
    done = events_of(result)[-1]
    assert done["events"] == len(expected.events) == len(pd.read_csv(where))
    assert done["events_file"] == str(where)


def test_channels_are_found_by_name(new_walks, tmp_path):
    """In files whose columns have another order; in Python that is an error."""
    tables = {path.name: pd.read_csv(path) for path in sorted(new_walks.glob("*.csv"))}
    for order in (["x", "other"], ["other", "x"]):
        (folder := tmp_path / order[0]).mkdir()
        for name, table in tables.items():
            table[order].to_csv(folder / name, index=False)
    cohort, swapped = (percdl.Cohort.from_csv(tmp_path / x, sfreq=50) for x in ("x", "other"))
    brief = percdl.Algorithm(population_rounds=1, personal_rounds=0)
    model = percdl.PerCDL(1, 16, penalty=1.0, algorithm=brief, random_state=0).fit(cohort)
    with pytest.raises(InvalidParameterError, match="fitted on the channels x, other, but X has"):
        model.personalize(swapped)
    model.save(tmp_path / "two.percdl")
    ends = []
    for folder in ("x", "other"):
        out = tmp_path / f"{folder}.csv"
        result = run(
            "events", tmp_path / "two.percdl", tmp_path / folder, "--sfreq", "50", "--out", out
        )
        assert result.exit_code == 0, result.output
        ends.append(pd.read_csv(out))
    pd.testing.assert_frame_equal(*ends)
    assert len(ends[0]) == len(model.events_)


def test_people_come_along(model_file, new_walks, expected, tmp_path):
    out, where = tmp_path / "params.csv", tmp_path / "people.csv"
    result = run("personalize", model_file, new_walks, "--out", out, "--people", where)
    assert result.exit_code == 0, result.output
    table = pd.read_csv(where)
    assert list(table["subject"]) == list(expected.subjects)
    assert table["n_atom0"].tolist() == expected.n_activations[:, 0].tolist()


def test_other_processing_is_warned_of(model_file, new_walks, tmp_path):
    result = run("personalize", model_file, new_walks, "--zscore", "--out", tmp_path / "p.csv")
    assert result.exit_code == 0
    assert "Warning: `PerCDL` was fitted on recordings that were not processed" in result.output
    assert "processing.py" not in result.output


def test_nothing_found_is_an_exit_code(model_file, tmp_path):
    noise = np.random.default_rng(0).standard_normal(100) * 1e-3
    pd.DataFrame({"x": noise}).to_csv(tmp_path / "Ed.csv", index=False)
    out = tmp_path / "params.csv"
    result = run("personalize", model_file, tmp_path / "Ed.csv", "--out", out)
    assert result.exit_code == 3, result.output
    table = pd.read_csv(out)
    assert table["displacement_at_50%_s"].isna().all()
    assert list(table["activations"]) == [0, 0]
    result = run("events", model_file, tmp_path / "Ed.csv", "--out", tmp_path / "events.csv")
    assert result.exit_code == 3
    assert len(pd.read_csv(tmp_path / "events.csv")) == 0


@pytest.mark.parametrize("command", ["personalize", "events"])
@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("none.percdl", [], "There is no model file at"),
        ("text.percdl", [], "is not a PerCDL model file, or it is damaged"),
        ("cut.percdl", [], "is not a PerCDL model file, or it is damaged"),
        (".", [], "There is no model file at"),
        (None, ["--channels", "y"], "no column 'y', only 't', 'x', 'other'"),
        (None, ["--channels", "x,other"], "was fitted on 1 channel(s) (x), but X has 2"),
        (
            None,
            ["--sfreq", "100"],
            "sampled at 100 Hz. Resample X first (in the shell: --resample 50)",
        ),
        (None, ["--sfreq", "100"], "`Cohort.from_arrays(X, sfreq=50)`"),
        (None, ["--nope"], "No such option"),
    ],
)
def test_what_does_not_fit_is_named(
    command, model, arguments, message, model_file, new_walks, tmp_path
):
    (tmp_path / "text.percdl").write_text("not a model")
    (tmp_path / "cut.percdl").write_bytes(model_file.read_bytes()[:500])
    path = model_file if model is None else tmp_path / model
    out = tmp_path / "new" / "out.csv"
    assert message in refused(command, path, new_walks, *arguments, "--out", out)
    assert contents(tmp_path / "new") == []


def test_what_the_model_was_told_is_no_option_here(model_file, new_walks, tmp_path):
    short = pd.read_csv(new_walks / "Ada.csv")[:10]
    short.to_csv(tmp_path / "Ed.csv", index=False)
    message = refused("personalize", model_file, tmp_path / "Ed.csv", "--out", tmp_path / "out")
    assert "`PerCDL(atom_length=16)` is longer than subject Ed (10 samples)" in message


def test_events_as_csv(model_file, new_walks, expected, tmp_path):
    out = tmp_path / "events.csv"
    assert run("events", model_file, new_walks, "--out", out).exit_code == 0
    found = pd.read_csv(out)
    assert_allclose(found["onset_sample"], expected.events["onset_sample"])
    assert list(found["subject"]) == list(expected.events["subject"])


def test_events_of_the_fit_itself(model_file, tmp_path):
    out = tmp_path / "events.csv"
    assert run("events", model_file, "--out", out).exit_code == 0
    assert len(pd.read_csv(out)) == len(percdl.load(model_file).events_)


def test_events_as_bids(model_file, new_walks, tmp_path):
    study = tmp_path / "study"
    (study / "sub-Ada").mkdir(parents=True)
    (study / "sub-Ada" / "notes.txt").write_text("kept")
    arguments = ["--format", "bids", "--task", "walk", "--datatype", "motion", "--out", study]
    result = run("events", model_file, new_walks, *arguments, "--json")
    assert result.exit_code == 0, result.output
    names = [f"sub-{s}/motion/sub-{s}_task-walk_events.tsv" for s in ("Ada", "Bo", "Cy", "Di")]
    assert contents(study) == sorted([*names, "sub-Ada/notes.txt", "task-walk_events.json"])
    table = pd.read_csv(study / names[0], sep="\t")
    assert (table["duration"] == 0.32).all()
    assert "onset" in json.loads((study / "task-walk_events.json").read_text())
    assert str(study / names[0]) in events_of(result)[-1]["files"]


def test_events_as_wfdb(model_file, new_walks, expected, tmp_path):
    wfdb = pytest.importorskip("wfdb")
    arguments = ["--format", "wfdb", "--extension", "atoms", "--out", tmp_path / "notes"]
    result = run("events", model_file, new_walks, *arguments)
    assert result.exit_code == 0, result.output
    with hushed():
        found = wfdb.rdann(str(tmp_path / "notes" / "Ada"), "atoms")
    own = expected.events[expected.events["subject"] == "Ada"]
    assert list(found.sample) == list(own["onset_sample"])


def test_a_format_that_fails_leaves_nothing(model_file, new_walks, tmp_path):
    pytest.importorskip("wfdb")
    odd = shutil.copytree(new_walks, tmp_path / "odd")
    (odd / "Di.csv").rename(odd / "D i.csv")
    arguments = ["--format", "wfdb", "--out", tmp_path / "notes"]
    message = refused("events", model_file, odd, *arguments)
    assert "WFDB names consist of letters, digits, - and _" in message
    assert contents(tmp_path / "notes") == []


def test_formats_are_few(model_file, tmp_path):
    assert "--format" in refused("events", model_file, "--format", "xml", "--out", tmp_path / "e")


def test_corrections_are_obeyed(model_file, new_walks, expected, tmp_path):
    """As in Python; a file that is read is not overwritten."""
    events, corrections = expected.events, tmp_path / "corrections.tsv"
    table = percdl.find_corrections(events, events.drop(1), duration=16 / 50)
    percdl.write_corrections(table, corrections)
    where = tmp_path / "events.csv"
    options = ("--corrections", corrections, "--out", tmp_path / "params.csv")
    result = run("personalize", model_file, new_walks, *options, "--events", where)
    assert result.exit_code == 0, result.output
    cohort = percdl.Cohort.from_csv(new_walks, channels="x", sfreq=50).correct(table)
    found = percdl.load(model_file).personalize(cohort).events
    assert pd.read_csv(where)["onset_sample"].tolist() == found["onset_sample"].tolist()
    assert not set(found["onset_sample"][:2]) >= set(events["onset_sample"][:2])
    message = refused("personalize", model_file, new_walks, *options[:2], "--out", corrections)
    assert "one of the files that are read" in message


def test_corrections_may_use_the_names_of_atoms(model_file, new_walks, expected, tmp_path):
    named, paths = tmp_path / "named.percdl", [tmp_path / f"{i}.csv" for i in range(2)]
    percdl.load(model_file).name_atoms({0: "step"}).save(named)
    table = percdl.find_corrections(expected.events, expected.events.drop(1), duration=16 / 50)
    for i, kind in enumerate(("atom0", "step")):
        corrections = tmp_path / "corrections.tsv"
        percdl.write_corrections(table.assign(trial_type=kind), corrections)
        options = ("--corrections", corrections, "--out", tmp_path / "params.csv")
        result = run("personalize", named, new_walks, *options, "--events", paths[i])
        assert result.exit_code == 0, result.output
    assert paths[0].read_text() == paths[1].read_text()
