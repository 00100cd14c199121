"""Options from a TOML file: the command line wins, and unknown keys are refused."""

import pytest
from commands import MODEL, READ, refused, run

import percdl

TOML = """
penalty = 0.3
[data]
channels = ["x"]
sfreq = 50
[fit]
n-atoms = 2
atom_length = "320ms"
population-rounds = 2
personal-rounds = 1
depth = 1
width = 3
realign = false
multistart = false
[suggest]
seed = 3
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "fit.toml"
    path.write_text(TOML)
    return path


def test_the_command_line_wins(walks, config, tmp_path):
    out = tmp_path / "m"
    result = run("fit", walks, "--config", config, "--personal-rounds", "2", "--out", out)
    assert result.exit_code == 0, result.output
    settings = percdl.load(out).settings_
    assert settings["personal_rounds"] == 2
    assert settings["population_rounds"] == 2
    assert settings["atom_length"] == "320ms"
    assert settings["penalty"] == 0.3
    assert settings["channels"] == ["x"]


def test_recordings_may_be_named_there(walks, config, tmp_path):
    text = config.read_text().replace("[data]", f"[data]\ndata = ['{walks}']")
    config.write_text(text + f"\n[personalize]\nout = '{tmp_path / 'params.csv'}'\n")
    result = run("fit", "--config", config, *MODEL, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("atom-lenght = 3", "there is no key 'atom-lenght'. Did you mean 'atom-length'?"),
        ("[fit]\nspeed = 3", "[fit]: there is no key 'speed'. Did you mean 'seed'?"),
        ("[fit]\nxyz = 3", "[fit]: there is no key 'xyz'. Known: atom-length,"),
        ("[data]\nn-atoms = 3", "[data]: there is no key 'n-atoms'."),
        ("[fits]\nseed = 3", "there is no table '[fits]'. Did you mean 'fit'?"),
        ("config = 'x.toml'", "there is no key 'config'"),
        ("penalty = ", "is not a TOML file"),
        ("depth = 'deep'", "'deep' must be an integer of at least 1"),
        ("atom-length = 2", "'2' must be an integer of at least 3"),
    ],
)
def test_what_cannot_be_meant_is_named(text, message, walks, config, tmp_path):
    config.write_text(text)
    assert message in refused("fit", walks, *READ, "--config", config, "--out", tmp_path / "m")


def test_a_file_that_is_not_there(walks, tmp_path):
    assert "cannot be read (No such file" in refused("fit", walks, "--config", tmp_path / "no")
