"""The code of the README runs, its links exist, and it stays short."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from walks import write_walks

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short():
    assert len(README.splitlines()) <= 120


# The figures of the table of results, and the claim that each was recorded for.
RECORDED = {
    "0.016": "recovery",
    "1.20": "recovery",
    "99.2 %": "gait_segmentation",
    "0.005": "gait_segmentation",
    "98.5 %": "automatic",
    "0.021": "automatic",
    "97.7 %": "automatic",
    "0.015": "automatic",
    "1.133": "gait_errors",
    "1.164": "gait_errors",
    "0.7005": "ecg_errors",
    "0.831": "ecg_auc",
    "0.801": "ecg_auc",
    "0.875": "ecg_auc",
    "0.887": "ecg_auc",
}


def recorded_numbers(name):
    """Return the numbers of a claim in docs/benchmarks.md."""
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    measured = page.partition("### Measured")[2]
    parts = re.split(r"\n\n|\n(?=\| `)", measured)
    following = [b for a, b in pairwise(parts) if f"ONLY={name}`" in a]
    text = "\n".join([part for part in parts if f"`{name}`" in part] + following)
    return [float(number) for number in re.findall(r"\d+\.\d+(?:e-\d+)?", text)]


def test_every_figure_of_the_results_was_recorded():
    table = README.partition("## Results")[2].partition("\n\\*")[0]
    cells = [row.split("|")[3] for row in table.splitlines() if row.startswith("|")][2:]
    figures = [found for cell in cells for found in re.findall(r"\d+\.\d+(?: %)?", cell)]
    assert sorted(figures) == sorted(RECORDED)
    for figure, name in RECORDED.items():
        number, _, percent = figure.partition(" ")
        digits = len(number.partition(".")[2])
        values = [100 * x if percent else x for x in recorded_numbers(name)]
        assert any(f"{x:.{digits}f}" == number for x in values), f"{figure} is not in {name}"


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
