"""``percdl studio``: the page that it opens."""

from pathlib import Path

import pytest

from percdl.cli.studio_command import studio
from percdl.studio.server import Server


@pytest.mark.parametrize(("name", "model"), [("", ""), ("walks.percdl", "&model=walks.percdl")])
def test_a_relative_place_opens_its_own_page(folder, monkeypatch, name, model):
    pages = []
    monkeypatch.setattr("typer.launch", pages.append)
    monkeypatch.setattr(Server, "run", lambda self: self.listening.close())
    monkeypatch.chdir(folder.parent)
    studio(Path(folder.name, name))
    (page,) = pages
    assert page.endswith(model)
    assert ("&" in page) == bool(model)
