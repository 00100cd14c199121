"""The threat model names tests that exist."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = (ROOT / "docs" / "federated" / "threat_model.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_the_test_of_a_claim_exists(file, name):
    text = ((ROOT if "/" in file else HERE) / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", text, re.MULTILINE)


def test_attacks_and_claims_have_tests():
    sections = re.findall(r"\| test \|\n\|(?:---\|)+\n((?:\|.*\n)+)", PAGE)
    rows = [row for section in sections for row in section.splitlines()]
    assert len(rows) >= 25
    assert all("::test_" in row for row in rows)


def test_all_twelve_attacks_are_in_the_table():
    numbers = [int(number) for number in re.findall(r"^\| (\d+)\. ", PAGE, re.MULTILINE)]
    assert numbers == list(range(1, 13))
