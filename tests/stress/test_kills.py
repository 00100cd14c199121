"""The short version of ``make kills``: a few fits are killed (-9), go on, and end the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_killed_fits_end_as_if_nobody_had_killed_them(monkeypatch):
    # In a separate process, where JAX has not started: forking is impossible afterwards.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    command = [sys.executable, "-m", "benchmarks.stress.kills", "6"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    fit, writer = json.loads(done.stdout)
    assert fit["faults"] == writer["faults"] == []
    assert fit["by_step"] + fit["by_clock"] == 6
    assert fit["ends"] >= 1
    assert writer["n_cut"] == writer["n_steps"] == writer["ends"]
