"""The history of figures: what is read is what was written, and what is worse is found."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def history(monkeypatch):
    """The module ``benchmarks.history``."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.history")


@pytest.fixture
def row(history):
    """One row; the others are made from it."""
    detail = 'a, "quoted"; 1.2 s / 0.4 s'
    return history.Row("2026-01-02", "abc1234", "aarch64 2 cores", "gait", 3.0, "ratio", detail)


def test_rows_survive_the_file(history, row):
    rows = [row, replace(row, figure="ECG, plain", value=0.1234), replace(row, unit="s")]
    assert history.parse(history.dump(rows)) == rows
    assert history.parse(history.dump([])) == []


def test_a_row_replaces_the_one_of_the_same_figure_commit_and_machine(history, row):
    others = [replace(row, commit="b"), replace(row, machine="H200"), replace(row, figure="ECG")]
    again = replace(row, value=2.0, date="2026-01-03")
    assert history.append([row, *others], [again]) == [*others, again]
    assert history.append(history.append([row], others), others) == [row, *others]


@pytest.mark.parametrize(
    ("value", "worse"), [(2.0, False), (3.0, False), (3.44, False), (3.46, True), ("nan", True)]
)
def test_a_figure_is_worse_beyond_the_tolerance(history, row, value, worse):
    new = replace(row, commit="def5678", value=float(value))
    better = replace(row, commit="0123456", value=1.0)
    pairs = history.find_worse([better, row], [new])
    assert pairs == ([(row, new)] if worse else [])


@pytest.mark.parametrize("change", [{"machine": "H200"}, {"figure": "ECG"}, {"commit": "abc1234"}])
def test_only_the_same_figure_on_the_same_kind_of_machine_is_compared(history, row, change):
    new = replace(row, **{"commit": "def5678", "value": 99.0, **change})
    assert history.find_worse([row], [new]) == []


def test_nothing_may_follow_nothing(history, row):
    none = replace(row, value=0.0)
    assert history.find_worse([none], [replace(none, commit="b")]) == []
    assert len(history.find_worse([none], [replace(none, commit="b", value=1.0)])) == 1


def test_the_table_has_the_last_row_of_each_figure_and_machine(history, row):
    rows = [
        row,
        replace(row, commit="b", value=2.5),
        replace(row, machine="NVIDIA H200", value=0.2, unit="s"),
    ]
    lines = history.render(rows).splitlines()
    assert lines[2:] == [
        f"| NVIDIA H200 | gait | 0.2 s | {row.detail} | abc1234, 2026-01-02 |",
        f"| aarch64 2 cores | gait | 2.5 | {row.detail} | b, 2026-01-02 |",
    ]


def test_the_page_changes_between_its_markers_only(history, row):
    page = f"before\n{history.BEGIN}old\n{history.END}after\n"
    table = history.render([row])
    once = history.update_page(page, table)
    assert once == f"before\n{history.BEGIN}{table}{history.END}after\n"
    assert history.update_page(once, table) == once
    with pytest.raises(ValueError, match="needs the markers"):
        history.update_page("no markers", table)


def test_the_documentation_is_in_step_with_the_history(history):
    rows = history.parse((ROOT / "benchmarks" / "history.csv").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert len({row.key for row in rows}) == len(rows)
    assert history.update_page(page, history.render(rows)) == page


@pytest.fixture
def bench(monkeypatch, history, tmp_path):
    """The module ``benchmarks.bench`` at a commit, its files elsewhere, one figure of a group."""
    module = importlib.import_module("benchmarks.bench")
    for name, text in (("HISTORY", history.dump([])), ("PAGE", history.BEGIN + history.END)):
        path = tmp_path / name
        path.write_text(text)
        monkeypatch.setattr(module, name, path)

    def measure(value, commit, *options):
        monkeypatch.setattr(module, "commit", lambda: commit)
        figure = history.Figure("speed", value, 3.0, "as told")
        monkeypatch.setitem(module.GROUPS, "gait", lambda _: iter([figure]))
        return module.main(["gait", *options]), [
            row.value for row in history.parse(module.HISTORY.read_text())
        ]

    return measure


def test_a_figure_that_is_worse_fails_the_run_until_it_is_accepted(bench, capsys):
    assert bench(2.0, "a") == (0, [2.0])
    assert bench(2.2, "b") == (0, [2.0, 2.2])
    assert bench(2.9, "c") == (1, [2.0, 2.2])
    assert "Worse: speed, 2.9 after 2.2 at b." in capsys.readouterr().out
    assert bench(2.9, "c") == (1, [2.0, 2.2])
    assert bench(9.0, "c", "--quick") == (0, [2.0, 2.2])
    assert bench(2.9, "c", "--accept") == (0, [2.0, 2.2, 2.9])
    assert bench(1.0, "d") == (0, [2.0, 2.2, 2.9, 1.0])


def test_unknown_figures_are_refused(bench, capsys):
    module = importlib.import_module("benchmarks.bench")
    with pytest.raises(SystemExit):
        module.main(["gaits"])
    assert "no figures gaits; there are gait, ecg" in capsys.readouterr().err
