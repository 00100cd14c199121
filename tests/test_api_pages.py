"""The reference has a place for every public name, and for no other."""

import importlib
import re
from pathlib import Path

import pytest

API = Path(__file__).resolve().parents[1] / "docs" / "api"
MODULES = [
    "percdl",
    "percdl.analysis",
    "percdl.datasets",
    "percdl.federated",
    "percdl.plotting",
    "percdl.transforms",
]
# Offered by no `__all__` above, but met by everyone.
ALSO = ["percdl.exceptions", "percdl.estimators"]
BLOCK = re.compile(
    r"\.\. currentmodule:: ([\w.]+)\n\n\.\. autosummary::\n.*?\n\n(.*?)```", re.DOTALL
)


def listed() -> list[tuple[str, str]]:
    """Return (module, name) of every entry of the reference."""
    return [
        (module, name)
        for page in sorted(API.glob("*.md"))
        for module, names in BLOCK.findall(page.read_text(encoding="utf-8"))
        for name in names.split()
    ]


def thing(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_place(module):
    pytest.importorskip("matplotlib")
    known = [thing(*entry) for entry in listed()]
    public = [name for name in importlib.import_module(module).__all__ if name != "__version__"]
    absent = [name for name in public if not any(thing(module, name) is one for one in known)]
    assert not absent, f"add to a page of docs/api: {absent}"


def test_nothing_is_listed_twice():
    entries = [thing(*entry) for entry in listed()]
    assert len({id(entry) for entry in entries}) == len(entries)


def test_every_error_and_warning_has_a_place():
    from percdl import exceptions

    raised = {name for name, value in vars(exceptions).items() if isinstance(value, type)}
    assert raised == {name for module, name in listed() if module == "percdl.exceptions"}


def test_all_homes_are_public():
    assert {module for module, _ in listed()} <= {*MODULES, *ALSO}
