"""A release has one version and one date, and what it says of itself is true."""

import importlib
import re
import runpy
from datetime import date
from pathlib import Path

import pytest

import percdl

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def release(monkeypatch):
    """The module ``benchmarks.release``."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.release")


def test_changelog_and_citation_have_the_version_and_its_date():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (.+)$", changelog, re.MULTILINE)
    assert versions[0][0] == percdl.__version__
    days = [date.fromisoformat(day) for _, day in versions]
    assert days == sorted(days, reverse=True)
    assert f"\nversion: {versions[0][0]}\n" in citation
    assert f"\ndate-released: {versions[0][1]}\n" in citation


def test_the_commands_of_the_readme_are_those_that_make_dist_tries(release):
    lines = release.commands()
    assert [line.split()[:2] for line in lines] == [
        ["percdl", command] for command in ("fit", "personalize", "info")
    ]
    written = " ".join(lines)
    assert all(name in written for name in release.RESULTS)


def test_a_command_that_fails_ends_the_trial(release, tmp_path):
    assert release.run("echo fine", tmp_path) == "fine\n"
    with pytest.raises(SystemExit, match="exit status 3"):
        release.run("exit 3", tmp_path)


def test_the_dependency_sheet_is_current():
    script = runpy.run_path(str(ROOT / "docs" / "make_soup.py"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["render"]()


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_links_of_the_pages_at_the_root_exist(page):
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), f"{page.name} links to {target}, which does not exist"
