"""The code in the documentation runs, and gives what it says."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
# Pages whose code stands by itself, and the packages they need beyond the core.
PAGES = {
    "start.md": ["matplotlib"],
    "tutorials/own_csv.md": ["plotly", "matplotlib"],
    "transforms.md": [],
    "data.md": ["wfdb"],
    "groups.md": ["mne"],
    "interop.md": ["mne", "tslearn"],
    "deviation.md": [],
    "report.md": ["plotly", "matplotlib"],
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


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize("name", ["gait", "ecg"])
def test_tutorial_runs_on_real_recordings(name, shared_data, tmp_path, monkeypatch):
    pytest.importorskip("mne")
    monkeypatch.setenv("PERCDL_DATA", str(shared_data))
    monkeypatch.chdir(tmp_path)
    run_page(f"tutorials/{name}.md")


def run_page(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(block, names)  # the page is ours
        for expression, shape in re.findall(
            r"^(\S+\.shape)\s+# (\([\d, ]+\))", block, re.MULTILINE
        ):
            assert str(eval(expression, names)) == shape


PLAIN = [page for page in DOCS.rglob("*.md") if not {"_build", "generated"} & set(page.parts)]


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_lead_somewhere(page):
    made_by_the_build = ("auto_examples/", "generated/")
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not any(part in target for part in made_by_the_build):
            assert (page.parent / target).exists(), f"links to {target}, which is not there"


def test_every_page_is_in_a_menu():
    listed = {
        (menu.parent / entry).resolve()
        for menu in PLAIN
        for block in re.findall(r"```\{toctree\}\n(.*?)```", menu.read_text("utf-8"), re.DOTALL)
        for entry in block.split()
    }
    alone = [page for page in PLAIN if page.with_suffix("").resolve() not in listed]
    assert alone == [DOCS / "index.md"]
