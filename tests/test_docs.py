"""The code in the documentation runs, and gives what it says."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
# Pages whose code stands by itself, and the packages they need beyond the core.
PAGES = {
    "transforms.md": [],
    "deviation.md": [],
    "data.md": ["wfdb"],
    "groups.md": ["mne"],
    "interop.md": ["mne", "tslearn"],
    "report.md": ["plotly"],
}


@pytest.mark.filterwarnings("ignore:h5py not installed")  # tslearn's, on import
@pytest.mark.parametrize("name", PAGES)
def test_python_runs_and_shapes_are_as_written(name, tmp_path, monkeypatch):
    for package in PAGES[name]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    run_page(name)


@pytest.mark.slow
@pytest.mark.realdata
def test_segmentation_runs_on_real_walks(real_gait, monkeypatch):
    monkeypatch.setenv("PERCDL_DATA", str(real_gait))
    run_page("segmentation.md")


def run_page(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(block, names)  # the page is ours
        for expression, shape in re.findall(
            r"^(\S+\.shape)\s+# (\([\d, ]+\))", block, re.MULTILINE
        ):
            assert str(eval(expression, names)) == shape


def test_links_lead_somewhere():
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (DOCS / target).exists(), f"{page.name} links to {target}, which is not there"
