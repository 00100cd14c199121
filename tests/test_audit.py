"""An audit that could look nothing up is no clean bill."""

import importlib.util
import json
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[1] / "benchmarks" / "audit.py"
CLEAN = {"name": "a", "version": "1", "vulns": []}
KNOWN = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1"}]}
SKIPPED = {"name": "c", "skip_reason": "not found"}


@pytest.fixture
def audit():
    spec = importlib.util.spec_from_file_location("audit", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("found", "status"),
    [([CLEAN], 0), ([CLEAN, KNOWN, SKIPPED], 1), ([CLEAN, SKIPPED], None), ([], None)],
)
def test_an_answer_counts_only_where_all_was_looked_up(audit, found, status):
    assert audit.judge(json.dumps({"dependencies": found}))[0] == status


@pytest.mark.parametrize("printed", ["", "null", "[]", "no such host"])
def test_no_answer_is_not_clean(audit, printed):
    assert audit.judge(printed)[0] is None


def test_the_run_fails_where_nobody_answers(audit, capsys):
    assert audit.main("false", "requirements/dev.lock") == 2
    assert "not the same as clean" in capsys.readouterr().out
