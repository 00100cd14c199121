"""Pages that rest a claim on a test name one that exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "federated").glob("*.md")]
NAMED = sorted(
    {
        found
        for page in PAGES
        for found in re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", page.read_text("utf-8"))
    }
)
THREATS = (ROOT / "docs" / "threat_model.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_the_test_of_a_claim_exists(file, name):
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE)


def test_every_derivation_names_a_test():
    text = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    sections = text.split("\n## ")[1:]
    assert len(sections) >= 8
    assert [part.partition("\n")[0] for part in sections if "`tests/" not in part] == []
    assert all("$$" in part for part in sections)


def test_every_threat_is_met_by_a_test():
    rows = re.findall(r"^\| (?!it cannot|claim|-)(.+?) \| (.+) \|$", THREATS, re.MULTILINE)
    assert len(rows) >= 25
    assert [claim for claim, tests in rows if "::test_" not in tests] == []
