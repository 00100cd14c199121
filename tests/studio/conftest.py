"""A studio that runs: a folder of recordings with a model, served on this machine."""

import shutil
import threading
from contextlib import chdir, contextmanager

import httpx
import pytest
from browser import Visit
from commands import MODEL, READ, run, write_walks

pytest.importorskip("plotly")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from percdl.cli.studio_command import make_studio
from percdl.studio.server import HOST, listen

MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="session")
def walks(tmp_path_factory):
    """Four walks of two persons, a table of groups, and a model; one group is markup."""
    place = write_walks(tmp_path_factory.mktemp("walks"))
    rows = [f"Ada,{MARKUP},p,61", f"Bo,{MARKUP},p,61", "Cy,healthy,q,47", "Di,healthy,q,47"]
    header = "subject,group,person,age"
    (place / "subjects.csv").write_text("\n".join([header, *rows]) + "\n")
    with chdir(place):
        files = [f"{name}.csv" for name in ("Ada", "Bo", "Cy", "Di")]
        result = run("fit", *files, *READ, *MODEL, "--metadata", "subjects.csv", "--group",
                     "group", "--out", "walks.percdl")  # fmt: skip
    assert result.exit_code == 0, result.output
    return place


@pytest.fixture
def folder(walks, tmp_path, monkeypatch):
    """The current folder: a copy of the walks, so that no test sees what another one wrote."""
    place = tmp_path / "studio"
    shutil.copytree(walks, place)
    (tmp_path / "secret.csv").write_text("t,x\n0,1\n")
    monkeypatch.chdir(place)
    return place


@pytest.fixture(scope="session")
def serve():
    """A context that serves a folder and gives the address, with its token."""

    @contextmanager
    def serving(folder):
        server, address = listen(make_studio(folder), 0)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        yield address
        server.stop()
        thread.join(20)

    return serving


@pytest.fixture
def studio(folder, serve):
    """The address of a studio in the folder."""
    with serve(folder) as address:
        yield address


@pytest.fixture
def client(studio):
    """A client that was let in; ``ask`` sends a question as the pages do."""
    base = studio.partition("/?")[0]
    with httpx.Client(base_url=base, follow_redirects=True, timeout=120) as made:
        assert made.get(studio).status_code == 200
        made.ask = lambda about, /, **question: made.post(f"/api/{about}", json=question)
        yield made


@pytest.fixture
def visit(chromium, studio):
    """Open a page of the studio; no visit may complain or ask for anything outside."""
    opened = []

    def open_page(path: str = "", address: str = studio, **window) -> Visit:
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 1000}, **window})
        seen = Visit(context.new_page())
        seen.page.set_default_timeout(120_000)
        opened.append((context, seen))
        seen.page.goto(address + path)
        seen.page.wait_for_selector("html[data-ready=yes]")
        return seen

    yield open_page
    for context, seen in opened:
        context.close()
        assert seen.complaints == []
        outside = [url for url in seen.requests if not url.startswith((f"http://{HOST}", "data:"))]
        assert outside == []
