"""The code in the documentation runs, and gives what it says."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
# Pages whose code stands by itself, and the packages they need beyond the core.
PAGES = {
    "start.md": ["matplotlib"],
    "transforms.md": [],
    "data.md": ["wfdb"],
    "groups.md": ["mne"],
    "interop.md": ["mne", "tslearn"],
    "deviation.md": [],
    "kinds.md": [],
    "live.md": [],
    "reliability.md": ["matplotlib"],
    "report.md": ["plotly", "matplotlib"],
    "scale.md": [],
    "side_by_side.md": ["tslearn"],
    "federated/variants.md": [],
    "tutorials/federated.md": ["cryptography"],
}


@pytest.mark.usefixtures("optimized")
@pytest.mark.filterwarnings("ignore:h5py not installed")  # tslearn's, on import
@pytest.mark.parametrize("name", PAGES)
def test_python_runs_and_shapes_are_as_written(name, tmp_path, monkeypatch):
    for package in PAGES[name]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    run_page(name)


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.filterwarnings("ignore:Activations do not follow")  # 100-2, as the page says
def test_segmentation_runs_on_real_walks(real_gait, monkeypatch):
    monkeypatch.setenv("PERCDL_DATA", str(real_gait))
    run_page("segmentation.md")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Explained far worse")  # P03, as the tutorial says
def test_tutorial_on_csv_files_runs_in_the_shell_too(tmp_path, monkeypatch):
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(DOCS.parent / "src"))
    run_page("tutorials/own_csv.md", shell=True)
    assert (tmp_path / "params.csv").is_file()


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.filterwarnings("ignore:.*(5016|6563|13060|100-2)")  # as the pages say
@pytest.mark.parametrize("name", ["gait", "ecg"])
def test_tutorial_runs_on_real_recordings(name, shared_data, tmp_path, monkeypatch):
    pytest.importorskip("mne")
    monkeypatch.setenv("PERCDL_DATA", str(shared_data))
    monkeypatch.chdir(tmp_path)
    run_page(f"tutorials/{name}.md")


def test_every_question_is_answered_within_a_minute_of_reading():
    front = (DOCS / "index.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (.+?) \| \[[^]]+\]\(([^)]+)\) \| (.+?) \| \d \| \d+ \|",
        (DOCS / "questions.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    assert len(rows) == 20
    for question, target, answer in rows:
        page, _, section = target.partition("#")
        before, link, _ = front.partition(f"]({page})")
        assert link, f"{question} The front page does not link {page}."
        titles, text = enter(page, section)
        read, found, _ = visible(text).partition(visible(answer))
        assert found, f"{question} {target} does not say: {answer}"
        words = f"{visible(before)} {visible(titles)} {read} {found}".split()
        assert len(words) < 238, f"{question} takes {len(words)} words."


def enter(page, section):
    """The titles up to a section of a page, and the text from there on."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if not section:
        return "", text
    titles = []
    for title in re.finditer(r"^##+ (.*)$", text, flags=re.MULTILINE):
        titles.append(title[1])
        if re.sub(r"[^\w -]", "", title[1].lower()).replace(" ", "-") == section:
            return " ".join(titles), text[title.start() :]
    raise AssertionError(f"{page} has no section {section}.")


def visible(text):
    """The words of a page without its markup."""
    text = re.sub(r"```\{toctree\}.*?```", "", text, flags=re.DOTALL)
    markup = r"!\[.*?\]\(.*?\)|\]\(.*?\)|```\w*|\|[-|]+\||[]|#*`[]"
    return " ".join(re.sub(markup, " ", text).split())


def run_page(name, shell=False):
    text = (DOCS / name).read_text(encoding="utf-8")
    names = {}
    for language, block in re.findall(r"```(python|sh)\n(.*?)```", text, flags=re.DOTALL):
        if language == "python":
            exec(block, names)  # the page is ours
            check_shapes(block, names)
        elif shell:
            run_commands(block)


def check_shapes(block, names):
    for expression, shape in re.findall(r"^(\S+\.shape)\s+# (\([\d, ]+\))", block, re.MULTILINE):
        assert str(eval(expression, names)) == shape


def run_commands(block):
    for line in block.replace("\\\n", " ").splitlines():
        command, *arguments = shlex.split(line)
        assert command == "percdl"
        subprocess.run([sys.executable, "-m", "percdl", *arguments], check=True)


PLAIN = [page for page in DOCS.rglob("*.md") if not {"_build", "generated"} & set(page.parts)]


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_lead_somewhere(page):
    made_by_the_build = ("auto_examples/", "generated/")
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not any(part in target for part in made_by_the_build):
            assert (page.parent / target).exists(), f"links to {target}, which is not there"


def test_the_decision_tree_is_the_same_as_picture_and_as_list():
    script = runpy.run_path(str(DOCS / "make_choosing_image.py"))
    assert script["as_list"]() in script["PAGE"].read_text(encoding="utf-8")
    assert script["PICTURE"].read_text(encoding="utf-8") == script["draw"]()


def test_every_line_of_the_checklists_has_a_link():
    text = (DOCS / "checklists.md").read_text(encoding="utf-8")
    for name in ("JOSS", "pyOpenSci"):
        table = text.partition(f"## {name}\n")[2].partition("\n## ")[0]
        rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
        assert len(rows) > 20
        assert [row for row in rows if not re.search(r"\]\([^)]+\)[^|]*\|$", row)] == []


def test_every_page_is_in_a_menu():
    listed = {
        (menu.parent / entry).resolve()
        for menu in PLAIN
        for block in re.findall(r"```\{toctree\}\n(.*?)```", menu.read_text("utf-8"), re.DOTALL)
        for entry in re.findall(r"^(?:.*<(?=.*>$))?([\w/]+)>?$", block, re.MULTILINE)
    }
    alone = [page for page in PLAIN if page.with_suffix("").resolve() not in listed]
    assert alone == [DOCS / "index.md"]
