"""Nothing is asked of the network that the user did not ask for: attempts to leave are watched.

Each statement runs in a separate process, with its children, where connections and names
other than those of the machine itself are refused and written down.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
IMPORTS = """
import importlib, pkgutil, percdl
for module in pkgutil.walk_packages(percdl.__path__, "percdl."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
WORK = """
import small_models as small
from percdl import OutOfCore, load, make_synthetic, write_shards
from percdl.datasets import make_handwriting
from percdl.datasets.gait import find_gait
from percdl.datasets.ptbxl import find_ptbxl
from percdl.exceptions import DatasetError
cohort = small.spaced_cohort(0)
model = small.make("PerCDL").fit(cohort)
model.save("model.percdl")
loaded = load("model.percdl")
loaded.personalize(small.spaced_cohort(1)).warps
loaded.fit(write_shards(cohort, "shards"), runtime=OutOfCore("."))
model.report("report.html", cohort)
make_synthetic(3, random_state=0)
make_handwriting(2, random_state=0)
for find in (find_gait, find_ptbxl):
    try:
        find("absent")
    except DatasetError:
        pass
"""
DEMO = """
from percdl.cli import app
app(["demo", "--out", "demo", "--subjects", "4"], standalone_mode=False)
"""
CLUSTER = """
import small_models as small
from percdl import DaskRuntime, local_cluster
if __name__ == "__main__":
    with local_cluster(2) as client:
        small.make("PopCDL").fit(small.spaced_cohort(0), runtime=DaskRuntime(client))
"""
SIMULATION = """
from federation import make_cohort, split
import small_models as small
from percdl import FederatedPerCDL
FederatedPerCDL(small.make("PerCDL")).fit(split(make_cohort()))
"""
CURIOUS = "import urllib.request as r\ntry: r.urlopen('http://example.org')\nexcept OSError: pass"


def attempts(statements, folder, *prefix):
    """Return what the statements asked of the network; they must end well."""
    found = folder / "attempts"
    found.touch()
    script = folder / "script.py"
    script.write_text(statements)
    source = TESTS.parent / "src"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (TESTS / "watched", source, TESTS))),
        "WATCHED": str(found),
    }
    command = [*prefix, sys.executable, str(script)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return found.read_text()


def test_an_attempt_is_seen_though_it_is_swallowed(tmp_path):
    assert "example.org" in attempts(CURIOUS, tmp_path)


def test_importing_everything_asks_nothing(tmp_path):
    pytest.importorskip("uvicorn")
    assert attempts(IMPORTS, tmp_path) == ""


def test_fits_files_reports_and_datasets_ask_nothing(tmp_path):
    pytest.importorskip("plotly")
    assert attempts(WORK, tmp_path) == ""


@pytest.mark.slow
def test_the_demo_asks_nothing(tmp_path):
    pytest.importorskip("jinja2")
    assert attempts(DEMO, tmp_path) == ""


@pytest.mark.slow
def test_workers_talk_to_this_machine_only(tmp_path):
    pytest.importorskip("distributed")
    assert attempts(CLUSTER, tmp_path) == ""


def test_a_simulated_federation_asks_nothing(tmp_path):
    assert attempts(SIMULATION, tmp_path) == ""


@pytest.mark.slow
def test_a_machine_without_network_is_enough(tmp_path):
    # Refused by the kernel, for code that is not Python's as well.
    apart = ("unshare", "--map-root-user", "--net")
    if not shutil.which(apart[0]) or subprocess.run([*apart, "true"], check=False).returncode:
        pytest.skip("this system cannot give a process a separate network")
    assert attempts(WORK, tmp_path, *apart) == ""
