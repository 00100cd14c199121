"""``percdl studio``: the page that it opens."""

import sys
from pathlib import Path

import pytest
from commands import refused

from percdl.cli.studio_command import make_studio, studio
from percdl.exceptions import MissingPackageError
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


def test_a_port_that_does_not_exist_is_refused(folder):
    assert "not in the range 0<=x<=65535" in refused("studio", folder, "--port", 99999)


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "plotly"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    folder, monkeypatch, package
):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf"`{package}`.*pip install 'percdl\[studio\]'"):
        make_studio(folder)
    assert f"`{package}`" in refused("studio", folder)
