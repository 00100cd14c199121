"""Every target of docs/paper_map.md exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "paper_map.md"
TARGETS = sorted(set(re.findall(r"`(src/[\w/]+\.py):([\w.]+)`", PAGE.read_text(encoding="utf-8"))))


def defined(body: list[ast.stmt], prefix: str = "") -> set[str]:
    """Return the names of functions, classes and methods, such as ``TimeWarp.warp``."""
    names = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(prefix + node.name)
        if isinstance(node, ast.ClassDef):
            names |= defined(node.body, f"{prefix}{node.name}.")
    return names


def test_the_page_has_targets():
    assert len(TARGETS) > 30


def test_every_row_has_a_target():
    text = PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    without = [row for row in rows if not re.search(r"`src/[\w/]+\.py:[\w.]+` \|$", row)]
    assert all(row.endswith("| code |") for row in without), without


@pytest.mark.parametrize(("file", "name"), TARGETS, ids=lambda part: part)
def test_target_exists(file, name):
    assert (ROOT / file).is_file(), f"{file} is gone: correct docs/paper_map.md"
    names = defined(ast.parse((ROOT / file).read_text(encoding="utf-8")).body)
    assert name in names, f"{file} has no {name}: correct docs/paper_map.md"
