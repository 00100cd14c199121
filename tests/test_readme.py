"""The code of the README runs, its links exist, and it stays short."""

import re
from pathlib import Path

import pytest
from walks import write_walks

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short():
    assert len(README.splitlines()) <= 120


@pytest.mark.slow
def test_python_runs_and_shapes_are_as_written(tmp_path, monkeypatch):
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    write_walks(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL):
        exec(block, names)  # trusted: it is our own README
    assert (tmp_path / "walks.html").is_file()
    written = re.findall(r"^(model\.\w+\.shape)\s+# (\([\d, ]+\))", README, flags=re.MULTILINE)
    assert len(written) == 3
    for expression, shape in written:
        assert str(eval(expression, names)) == shape
