"""The README says what is so: its code runs, its links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), f"README.md links to {target}, which is not there"


@pytest.mark.slow
def test_python_runs_and_shapes_are_as_written(tmp_path, monkeypatch):
    block, later = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names = {}
    monkeypatch.chdir(tmp_path)
    exec(block + later, names)  # the README is ours
    written = re.findall(r"^(model\.\w+\.shape)\s+# (\([\d, ]+\))", block, flags=re.MULTILINE)
    assert len(written) == 3
    for expression, shape in written:
        assert str(eval(expression, names)) == shape
