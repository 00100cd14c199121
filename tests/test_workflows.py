"""Workflows and recipe ask for what pyproject.toml says, and for no more rights than they need."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import percdl

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in FILES}


def read(name):
    return yaml.safe_load(TEXTS[name])


@pytest.mark.parametrize("name", TEXTS)
def test_actions_are_pinned_and_leave_no_credentials(name):
    used = re.findall(r"uses: (.+)", TEXTS[name])
    assert used
    assert [
        line for line in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", line)
    ] == []
    assert TEXTS[name].count("actions/checkout@") == TEXTS[name].count("credentials: false")


def test_rights_are_the_least():
    assert read("test.yml")["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in read("test.yml")["jobs"].values())
    publish = read("publish.yml")
    assert publish["permissions"] == {}
    rights = {name: job["permissions"] for name, job in publish["jobs"].items()}
    assert rights == {"build": {"contents": "read"}, "upload": {"id-token": "write"}}


def test_the_matrix_is_what_the_classifiers_promise():
    prefix = "Programming Language :: Python :: 3."
    promised = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith(prefix)]
    matrix = read("test.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == promised
    systems = {c.split(" :: ")[-1].lower() for c in PROJECT["classifiers"] if "Operating" in c}
    runners = {"linux": "ubuntu", "macos": "macos", "windows": "windows"}
    assert {f"{runners[system]}-latest" for system in systems} == set(matrix["os"])


def test_the_extras_are_those_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = re.search(r"^EXTRAS \?= (.+)$", makefile, re.MULTILINE)[1]
    assert f'".[{extras}]"' in TEXTS["test.yml"]


@pytest.mark.parametrize("name", TEXTS)
def test_the_targets_that_are_made_exist(name):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    made = {
        word
        for line in re.findall(r"run: make ([a-z ]+)$", TEXTS[name], re.MULTILINE)
        for word in line.split()
    }
    assert made
    assert made <= set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))


def test_the_recipe_asks_for_what_the_wheel_asks_for():
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == percdl.__version__
    assert f">={recipe['context']['python_min']}" == PROJECT["requires-python"]
    wanted = [re.sub(r"(?=[<>])", " ", need, count=1) for need in PROJECT["dependencies"]]
    assert recipe["requirements"]["run"][1:] == wanted
    name, _, target = recipe["build"]["python"]["entry_points"][0].partition(" = ")
    assert PROJECT["scripts"] == {name: target}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actionlint_finds_nothing(path):
    if shutil.which("actionlint") is None:
        pytest.skip("actionlint is not installed; its wheel on PyPI fetches a program when built")
    subprocess.run(["actionlint", str(path)], check=True)
