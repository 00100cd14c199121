"""The code of the README runs, its links exist, and it stays short."""

import json
import re
from pathlib import Path

import pytest
from walks import write_walks

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_short():
    assert len(README.splitlines()) <= 120


# Where each figure of the table of results comes from, in the order of the table: a claim, the
# beginning of a check, and which of its numbers.
SOURCES = [
    ("recovery", "S = 1024: distance", 1),
    ("recovery", "S = 1024: distance", 0),
    ("gait_segmentation", "sensitivity", 0),
    ("gait_segmentation", "false positives", 0),
    ("automatic", "gait: sensitivity", 2),
    ("automatic", "gait: false positives", 1),
    ("automatic", "gait: sensitivity", 1),
    ("automatic", "gait: false positives", 0),
    ("gait_errors", "gait, PerCDL / IndCDL", 0),
    ("gait_errors", "gait, PerCDL / IndCDL, default rounds", 0),
    ("ecg_errors", "ECG, PerCDL / PopCDL", 0),
    ("ecg_auc", "ECG, AUC, warps 4 x 7", 0),
    ("ecg_auc", "ECG, AUC, warps 4 x 7 at defaults, official folds", 0),
    ("ecg_auc", "ECG, AUC, warps 4 x 14;", 0),
    ("ecg_auc", "ECG, AUC, warps 4 x 14 and modulation", 0),
]


def last_check(claim, beginning):
    results = json.loads((ROOT / "benchmarks/claims/results.json").read_text(encoding="utf-8"))
    return next(c for c in results[claim]["checks"] if c["name"].startswith(beginning))


def numbers(text):
    return re.findall(r"-?\d+(?:\.\d+)?(?:e-\d+)?", text)


def rounded(value, like):
    """A value as a figure is written, maybe in percent."""
    number, _, percent = like.partition(" ")
    digits = len(number.partition(".")[2])
    return f"{100 * value:.{digits}f} %" if percent else f"{value:.{digits}f}"


def test_the_results_are_those_of_the_last_run_and_limits_that_are_missed_are_named():
    table = README.partition("## Results")[2].partition("\n\\*")[0]
    rows = [row.split("|") for row in table.splitlines() if row.startswith("|")][2:]
    sources = iter(SOURCES)
    for *_, here, settings, _ in rows:
        missed = set()
        for written in re.findall(r"\d+\.\d+(?: %)?", here):
            claim, beginning, place = next(sources)
            check = last_check(claim, beginning)
            assert written == rounded(float(numbers(check["figure"])[place]), like=written)
            missed |= set(numbers(check["target"])) if check["holds"] is False else set()
        assert set(re.findall(r"limit of (\d+\.\d+)", settings)) == missed
    assert list(sources) == []


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
