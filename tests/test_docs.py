"""The code in the documentation runs, and gives what it says."""

import copy
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import small_models
import typer
from walks import write_walks

from percdl import Cohort, make_synthetic
from percdl.cli import app
from percdl.signals.extras import hushed

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# Pages whose code stands by itself, and the packages they need beyond the core.
PAGES = {
    "start.md": ["matplotlib"],
    "index.md": [],
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
    "federated/privacy.md": [],
    "federated/variants.md": [],
    "tutorials/federated.md": ["cryptography"],
}
# Pages that go on from a fit, and the packages they need.
CONTINUED = {
    "corrections.md": ["wfdb"],
    "cycles.md": ["wfdb"],
    "plots.md": ["matplotlib", "mne"],
    "uncertainty.md": ["matplotlib"],
}
SLOW = {"choosing.md", "segmentation.md", "tutorials/own_csv.md"}
REAL = {
    "datasets.md": (),
    "tutorials/ecg.md": pytest.mark.slow,
    "tutorials/gait.md": pytest.mark.slow,
}
# Libraries beside ours on `side_by_side.md`; another Python may have them.
PEERS = ["alphacsc", "fdasrsf", "gaitmap", "neurokit2"]
GIVEN_TO_PEERS = """
import numpy as np, pandas as pd
given = np.load("given.npz")
recordings, segments, lead = [*given["recordings"]], given["segments"], given["lead"]
walk = pd.DataFrame({"gyr_ml": given["walk"]})
"""
NOT_RUN = {"design.md": "shows two lines of algorithm/loop.py, shortened"}


@pytest.mark.pages
@pytest.mark.filterwarnings("ignore:h5py not installed")  # tslearn's, on import
@pytest.mark.parametrize("name", PAGES)
def test_python_runs_and_shapes_are_as_written(name, tmp_path, monkeypatch):
    for package in PAGES[name]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    run_page(name)


@pytest.fixture(scope="module")
def fit():
    """A small cohort, with the names that pages use, and its fit."""
    arrays = small_models.spaced_recordings(0, 3 * small_models.LENGTHS, bend=0.5)
    subjects = [f"C{i:02d}" for i in range(6)] + [f"P{i}" for i in range(36, 42)]
    cohort = Cohort.from_arrays(
        arrays,
        sfreq=small_models.SFREQ,
        subjects=subjects,
        groups=["controls"] * 6 + ["patients"] * 6,
        units="deg/s",
    ).with_visits([f"person {i // 2}" for i in range(12)], ["first", "second"] * 6)
    return cohort, small_models.make("PerCDL").fit(cohort)


@pytest.mark.pages
@pytest.mark.parametrize("name", CONTINUED)
def test_python_goes_on_from_a_fit(name, fit, tmp_path, monkeypatch):
    for package in CONTINUED[name]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    cohort, fitted = fit
    model = copy.copy(fitted)
    model.recordings_ = cohort  # copies leave them out
    events = model.events_
    moved = events["onset_sample"].where(events.index > 0, events["onset_sample"] - 1)
    if "wfdb" in CONTINUED[name]:
        write_annotations("mitdb", "atr", events, {8: "N"})
        waves = zip((1, 2, 3, 5, 7, 9, 11, 13, 14), "(p)(N)(t)", strict=True)
        write_annotations("ludb", "ii", events, dict(waves))
    names = {
        "cohort": cohort,
        "model": model,
        "new": cohort[:3],
        "edited_events": events.assign(
            onset_sample=moved, onset_seconds=moved / cohort.sfreq
        ).drop(index=5),
        "annotations": events.rename(columns={"onset_sample": "sample"}),
    }
    run_page(name, names)


def write_annotations(folder, ending, events, symbols):
    """Write WFDB annotations: symbols at these samples of each event of the first atom."""
    Path(folder).mkdir()
    with hushed():
        import wfdb

        for subject, own in events[events["atom"] == 0].groupby("subject"):
            samples = np.add.outer(own["onset_sample"].to_numpy(), [*symbols]).ravel()
            symbol = [*symbols.values()] * len(own)
            place = {"fs": small_models.SFREQ, "write_dir": folder}
            wfdb.wrann(subject, ending, samples, symbol=symbol, **place)


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


@pytest.mark.pages
@pytest.mark.filterwarnings("ignore:h5py not installed")  # tslearn's, on import
@pytest.mark.parametrize("with_files", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_our_side_runs(with_files, tmp_path, monkeypatch):
    pytest.importorskip("tslearn")
    monkeypatch.chdir(tmp_path)
    write_walks(tmp_path)
    names = {}
    for block in python_blocks("side_by_side.md"):
        if not imports(block, *PEERS) and (with_files or "walks/" not in block):
            run_python(block, names)


@pytest.mark.parametrize("peer", PEERS)
def test_the_side_of_a_peer_runs(peer, tmp_path):
    pythons = [sys.executable, os.environ.get("PERCDL_DETECTORS")]
    look = f"import importlib.util as u, sys; sys.exit(u.find_spec('{peer}') is None)"
    having = [p for p in pythons if p and not subprocess.run([p, "-c", look]).returncode]
    if not having:
        pytest.skip(f"{peer} is not installed, nor in the Python that PERCDL_DETECTORS names")
    truth = make_synthetic(n_subjects=4, n_times=400, noise_std=0.03, random_state=0)
    time = np.arange(5000) / 500
    waves = ((0.15, -0.16, 0.025), (1.0, 0.0, 0.011), (0.3, 0.25, 0.045))
    since = (time + 0.4) % 0.8 - 0.4
    np.savez(
        tmp_path / "given.npz",
        recordings=[recording.values for recording in truth.cohort],
        segments=truth.personal_dictionary[:, 0],
        walk=200 * np.sin(2 * np.pi * time),
        lead=sum(h * np.exp(-0.5 * ((since - at) / s) ** 2) for h, at, s in waves),
    )
    (block,) = [block for block in python_blocks("side_by_side.md") if imports(block, peer)]
    subprocess.run([having[0], "-c", GIVEN_TO_PEERS + block], check=True, cwd=tmp_path)


@pytest.mark.pages
@pytest.mark.realdata
@pytest.mark.filterwarnings("ignore:.*(5016|6563|13060|100-2)")  # as the pages say
@pytest.mark.parametrize("name", [pytest.param(name, marks=REAL[name]) for name in REAL])
def test_python_runs_on_real_recordings(name, shared_data, tmp_path, monkeypatch):
    pytest.importorskip("mne")
    pytest.importorskip("wfdb")
    monkeypatch.setenv("PERCDL_DATA", str(shared_data))
    monkeypatch.chdir(tmp_path)
    run_page(name)


@pytest.mark.slow
# The grid tries more atoms than there are patterns.
@pytest.mark.filterwarnings("ignore::percdl.exceptions.AlikeAtomsWarning")
@pytest.mark.filterwarnings("ignore::percdl.exceptions.NoActivationWarning")
def test_settings_are_chosen():
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    phases = np.arange(600) / np.arange(54, 62)[:, None]
    walks = np.cos(2 * np.pi * phases) + 0.6 * np.cos(4 * np.pi * phases + 1)
    walks += 0.1 * rng.standard_normal(walks.shape)
    run_page("choosing.md", {"cohort": Cohort.from_arrays(walks, sfreq=100)})


def test_no_page_is_forgotten():
    with_code = {
        str(page.relative_to(DOCS))
        for page in PLAIN
        if "```python\n" in page.read_text(encoding="utf-8")
    }
    assert with_code == {*PAGES, *CONTINUED, *SLOW, *REAL, *NOT_RUN, "side_by_side.md"}


def test_commands_have_the_options_that_they_are_shown_with():
    group = typer.main.get_command(app)
    lines = [line for line in shell_lines() if line.startswith("percdl ")]
    assert len(lines) > 20
    for line in lines:
        command, (_, *arguments) = group, shlex.split(line, comments=True)
        while hasattr(command, "commands"):
            name, *arguments = arguments
            command = command.commands[name]
        command.make_context(name, arguments)


def test_targets_claims_and_extras_exist():
    text = "\n".join([*shell_lines(), *re.findall(r"`([^`\n]+)`", all_text())])
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"^make (\w+)\b(?!=)", text, re.M)) <= set(
        re.findall(r"^(\w+):", makefile, re.M)
    )
    named = re.findall(r'(?:make claims ONLY="?|benchmarks\.claims )([\w ]+)', text)
    scripts = {path.stem for path in (ROOT / "benchmarks" / "claims").glob("[!_]*.py")}
    assert {name for names in named for name in names.split()} <= scripts
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.findall(r"(?:'\.|percdl)\[([\w,]+)\]", text)
    assert {e for names in extras for e in names.split(",")} <= {*project["optional-dependencies"]}


def all_text():
    return "\n".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *PLAIN])


def shell_lines():
    """The lines of all blocks for the shell; a line that goes on is one line."""
    blocks = re.findall(r"^ *```([^\n]*)\n(.*?)^ *```", all_text(), flags=re.DOTALL | re.MULTILINE)
    for block in (block for language, block in blocks if language in ("sh", "bash", "")):
        for line in block.replace("\\\n", " ").splitlines():
            yield line.strip().removeprefix("$ ")


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


def run_page(name, names=(), shell=False):
    names = dict(names)
    for language, block in blocks_of(name):
        if language == "python":
            run_python(block, names)
        elif shell:
            run_commands(block)


def blocks_of(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.findall(r"```(python|sh)\n(.*?)```", text, flags=re.DOTALL)


def python_blocks(name):
    return [block for language, block in blocks_of(name) if language == "python"]


def imports(block, *packages):
    return re.search(rf"^(?:from|import) (?:{'|'.join(packages)})\b", block, flags=re.MULTILINE)


def run_python(block, names):
    exec(block, names)  # the page is ours
    check_shapes(block, names)


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
