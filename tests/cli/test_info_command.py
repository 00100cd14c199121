"""``percdl info``, ``percdl suggest`` and ``percdl datasets``: what is known beforehand."""

import json

import pytest
from commands import READ, events_of, refused, run

import percdl
from percdl import Algorithm
from percdl.estimators.checkpoint import fit_with_checkpoints
from percdl.estimators.start import Choices, choose


def test_info_says_what_is_in_the_file(model_file):
    result = run("info", model_file)
    assert result.exit_code == 0, result.output
    lines = {line[:24].strip(): line[24:].strip() for line in result.stdout.splitlines()}
    assert lines["version"] == percdl.__version__
    assert lines["personal-rounds"] == "2"  # a setting
    said, model = " ".join(result.stdout.split()), percdl.load(model_file)
    for facts in model.summary().sections.values():
        for name, text, _ in facts:
            assert f"{name} {text}" in said


def test_info_for_scripts(model_file):
    described = json.loads(run("info", model_file, "--json").stdout)
    model = percdl.load(model_file)
    assert described["objective"] == model.objective_
    assert described["settings"] == model.settings_
    assert described["rounds"] == 4


def test_info_of_a_model_made_in_python(model_file, tmp_path):
    model = percdl.load(model_file)
    model.settings_ = None
    model.save(tmp_path / "m")
    assert "not fitted from the command line" in run("info", tmp_path / "m").stdout


def test_info_of_a_checkpoint(walks, tmp_path):
    cohort = percdl.Cohort.from_csv(walks, channels="x", sfreq=50)
    model = percdl.PopCDL(
        2,
        16,
        0.3,
        algorithm=Algorithm(population_rounds=1, personal_rounds=1, realign=False),
        random_state=0,
    )
    fit_with_checkpoints(model, cohort, tmp_path / "c", settings={"sfreq": 50.0})
    described = json.loads(run("info", tmp_path / "c", "--json").stdout)
    assert described["checkpoint_of"] == "PopCDL"
    assert described["rounds_done"] == 2
    assert described["to_continue"] == f"percdl fit --resume {tmp_path / 'c'}"
    assert described["settings"] == {"sfreq": 50.0}


def test_info_of_something_else(model_file, tmp_path):
    assert "There is no model file at" in refused("info", tmp_path / "none")
    assert "There is no model file at" in refused("info", tmp_path)
    (tmp_path / "text").write_text("no model")
    assert "is not a PerCDL model file, or it is damaged" in refused("info", tmp_path / "text")
    damaged = bytearray(model_file.read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    assert "checksum does not match" in refused("info", tmp_path / "damaged")


def test_suggestions_are_those_of_an_automatic_fit(walks):
    result = run("suggest", walks, *READ, "--atom-length", "320ms", "--json")
    assert result.exit_code == 0, result.output
    done = events_of(result)[-1]
    cohort = percdl.Cohort.from_csv(walks, channels="x", sfreq=50)
    chosen = choose(percdl.PerCDL("auto", 16, penalty="auto", random_state=0), cohort)
    assert (done["n_atoms"], done["atom_length"]) == (chosen.n_atoms, 16)
    assert done["penalty"] == chosen.penalty
    assert done["atom_seconds"] == 0.32


@pytest.mark.parametrize("length", ["0", "2"])
def test_nothing_is_suggested_that_a_fit_refuses(walks, length):
    message = refused("suggest", walks, *READ, "--atom-length", length)
    assert f"'{length}' must be an integer of at least 3" in message


def test_suggestions_from_the_period(walks, monkeypatch):
    def rest(model, cohort):
        return Choices(2, model.atom_length, 1234.5)

    monkeypatch.setattr("percdl.estimators.start.choose", rest)
    result = run("suggest", walks, *READ)
    assert result.exit_code == 0, result.output
    cohort = percdl.Cohort.from_csv(walks, channels="x", sfreq=50)
    length = percdl.suggest_atom_length(cohort).length
    assert f"percdl fit ... --atom-length {length} --n-atoms 2 --penalty 1230" in result.stdout


def test_no_suggestion_where_nothing_repeats_itself(tmp_path):
    (tmp_path / "ramp.csv").write_text("x\n" + "\n".join(map(str, range(60))) + "\n")
    result = run("suggest", tmp_path, *READ)
    assert result.exit_code == 3, result.output
    assert "None of the 1 recordings repeats itself" in result.output


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    """A machine without datasets."""
    monkeypatch.delenv("PERCDL_DATA", raising=False)
    monkeypatch.setattr("percdl.datasets.downloads.shared_folder", lambda: None)
    monkeypatch.setattr("percdl.datasets.downloads.cache_folder", lambda: tmp_path / "cache")


def test_datasets_are_listed_with_their_terms(no_data, tmp_path):
    result = run("datasets")
    assert result.exit_code == 0, result.output
    assert "gait: the gait dataset of Truong et al., 200 MB" in result.stdout
    assert "not on this computer; percdl datasets --download ptbxl" in result.stdout
    listed = events_of(run("datasets", "--json"))
    assert [(e["name"], e["folder"]) for e in listed] == [("gait", None), ("ptbxl", None)]


def test_datasets_are_found(no_data, tmp_path, monkeypatch):
    folder = tmp_path / "gait" / "GaitData"
    folder.mkdir(parents=True)
    (folder / "1-1.json").write_text("{}")
    listed = events_of(run("datasets", "--data-home", tmp_path, "--json"))
    assert listed[0]["folder"] == str(folder)
    monkeypatch.setenv("PERCDL_DATA", str(tmp_path))
    assert str(folder) in run("datasets").stdout
    result = run("datasets", "--download", "gait")  # it is there already
    assert result.stdout == f"gait: {folder}\n"


def test_a_download_goes_where_it_is_asked(no_data, tmp_path, monkeypatch):
    fetched = []

    def fetch(source, folder):
        fetched.append(source.archive)
        (folder / "GaitData").mkdir(parents=True)
        (folder / "GaitData" / "1-1.json").write_text("{}")

    monkeypatch.setattr("percdl.datasets.downloads.fetch", fetch)
    (tmp_path / "home").mkdir()
    result = run("datasets", "--download", "gait", "--data-home", tmp_path / "home", "--json")
    assert fetched == ["GaitData.zip"]
    assert events_of(result)[-1]["folder"] == str(tmp_path / "home" / "gait" / "GaitData")


def test_unknown_datasets_and_folders(no_data, tmp_path, monkeypatch):
    assert "must be one of gait, ptbxl" in refused("datasets", "--download", "mnist")
    assert "is not a folder" in refused("datasets", "--data-home", tmp_path / "none")
    monkeypatch.setenv("PERCDL_DATA", str(tmp_path / "none"))
    assert "PERCDL_DATA=" in refused("datasets")
