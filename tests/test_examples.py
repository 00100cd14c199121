"""The scripts of the gallery run, and each ends in a picture."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
# What some need beyond the extra `plot`.
NEEDS = {"03_groups": ["mne"]}


@pytest.fixture
def plt():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    pyplot.close("all")
    yield pyplot
    pyplot.close("all")


def test_there_are_ten():
    assert len(EXAMPLES) == 10


@pytest.mark.pages
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_ends_in_a_picture(path, plt, monkeypatch, tmp_path):
    for package in NEEDS.get(path.stem, []):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    runpy.run_path(str(path), run_name="__main__")
    assert plt.get_fignums(), f"{path.name} draws nothing"
    drawn = [ax for ax in plt.gcf().axes if ax.has_data()]
    assert drawn
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in drawn)
