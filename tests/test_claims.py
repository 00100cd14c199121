"""The claims are found, can be run, and a claim that falls short fails the run."""

import importlib
import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from percdl import make_synthetic

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / "claims"
CLAIM = """
from benchmarks.claims._claim import Claim, at_least, at_most, beside
def claims():
    yield at_most("size", {size}, 2)
    yield beside("another", "3")
"""
ABSENT = """
from benchmarks import Absent
def claims():
    raise Absent("no such data")
    yield
"""


@pytest.fixture
def runner(monkeypatch):
    """The module behind ``python -m benchmarks.claims``."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.claims.__main__")


@pytest.fixture
def claims_of(tmp_path):
    """Write claim scripts into a folder and return it."""

    def write(**scripts):
        for name, text in scripts.items():
            (tmp_path / f"{name}.py").write_text(text)
        return tmp_path

    return write


def test_scripts_are_those_of_the_documentation(runner):
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    table = page.partition("## The claims")[2].partition("###")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(runner.discover())


@pytest.mark.parametrize("path", sorted(FOLDER.glob("[!_]*.py")), ids=lambda path: path.stem)
def test_script_has_claims(runner, path):
    assert callable(runpy.run_path(str(path))["claims"])


def test_claims_that_hold_succeed(runner, claims_of, capsys):
    assert runner.main([], claims_of(_helper="1 / 0", good=CLAIM.format(size=1))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "claim | target | figure | holds",
        "good: size | <= 2 | 1 | yes",
        "good: another | - | 3 | for comparison",
    ]


@pytest.mark.parametrize("size", ["3", "float('nan')"])
def test_a_claim_that_falls_short_fails_the_run(runner, claims_of, capsys, size):
    folder = claims_of(bad=CLAIM.format(size=size), good=CLAIM.format(size=1))
    assert runner.main([], folder) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("bad: size | <= 2 | ")
    assert lines[1].endswith(" | NO")
    assert lines[3] == "good: size | <= 2 | 1 | yes"
    assert lines[-1] == "1 claim fell short."
    assert runner.main(["good"], folder) == 0


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("1 / 0", "odd: odd | runs to its end | exit status 1 | NO"),
        ("def claims():\n    return ()", "odd: odd | measures something | no claim | NO"),
    ],
)
def test_a_script_that_measures_nothing_fails_the_run(runner, claims_of, capsys, script, line):
    assert runner.main([], claims_of(odd=script)) == 1
    assert line in capsys.readouterr().out.splitlines()


def test_absent_data_are_no_failure(runner, claims_of, capsys):
    assert runner.main([], claims_of(far=ABSENT)) == 0
    assert "far: far | as documented | no such data | skipped" in capsys.readouterr().out


def test_the_last_results_of_each_script_are_kept(runner, claims_of):
    def figures(folder):
        results = json.loads((folder / runner.RESULTS).read_text(encoding="utf-8"))
        assert list(results) == sorted(results)
        return {name: [c["figure"] for c in one["checks"]] for name, one in results.items()}

    folder = claims_of(good=CLAIM.format(size=1), bad=CLAIM.format(size=3))
    runner.main([], folder)
    assert figures(folder) == {"bad": ["3", "3"], "good": ["1", "3"]}
    claims_of(good=CLAIM.format(size=4), bad=ABSENT)
    runner.main(["--quick"], folder)
    runner.main(["bad"], folder)
    assert figures(folder) == {"bad": ["3", "3"], "good": ["1", "3"]}
    runner.main(["good"], folder)
    assert figures(folder) == {"bad": ["3", "3"], "good": ["4", "3"]}


def test_the_documentation_is_in_step_with_the_results(runner):
    script = runpy.run_path(str(ROOT / "docs" / "make_claims.py"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["render"]()
    results = json.loads((FOLDER / runner.RESULTS).read_text(encoding="utf-8"))
    assert set(results) <= set(runner.discover())


def test_a_script_of_many_checks_lists_those_that_fall_short():
    script = runpy.run_path(str(ROOT / "docs" / "make_claims.py"))
    checks = [
        {"name": f"c|{i}", "target": "<b>", "figure": "1", "holds": bool(i)}
        for i in range(script["MOST_LISTED"])
    ]
    beside = {"name": "d", "target": None, "figure": "2", "holds": None}
    listed = script["list_checks"]
    assert [str(row) for row in listed([checks[0], beside])] == [r"c\|0 | \<b> | 1 | NO"]
    assert [str(row) for row in listed([beside])] == ["d | - | 2 | for comparison"]
    assert len(listed(checks)) == len(checks)
    assert [row.verdict for row in listed([*checks, checks[1]])] == ["NO", "yes"]


def test_an_unknown_name_lists_the_others(runner, claims_of, capsys):
    with pytest.raises(SystemExit):
        runner.main(["god"], claims_of(good=CLAIM.format(size=1)))
    assert "no claim god; there are good" in capsys.readouterr().err


def test_peers_are_given_the_true_personal_atoms(runner):
    data = make_synthetic(3, random_state=0)
    segments = importlib.import_module("benchmarks.peers").cut(data)
    truth = data.personal_dictionary[..., 0].swapaxes(0, 1)
    np.testing.assert_allclose(segments, truth, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "value", "holds"),
    [
        ("dictionary", 1 + 1e-12, (True, True)),
        ("dictionary", 1 + 1e-3, (False, True)),
        ("dictionary", 2, (False, False)),
        ("parameters", np.nan, (False, False)),
        ("amplitudes", 0, (False, False)),
        ("objective", 0.9, (False, True)),
        ("objective", 3, (False, False)),
    ],
)
def test_devices_are_compared_by_all_that_a_fit_has_learned(runner, kind, value, holds):
    devices = importlib.import_module("benchmarks.claims.devices")
    # The third subject has no activation: its parameters are unknown on both devices.
    params = np.array([1.0, 1.0, np.nan])[:, None, None]
    learned = dict.fromkeys(devices.KINDS, np.ones((3, 1, 1))) | {"parameters": params}
    here = {f"{p}: {k}": x for p in ("float64", "float32") for k, x in learned.items()}
    there = {k: np.where(x == 1, value, x) if k.endswith(kind) else x for k, x in here.items()}
    assert tuple(claim.holds for claim in devices.compare(there, here)) == holds
