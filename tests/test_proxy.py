"""The reverse proxy of the documentation: sites get through it, administration does not."""

import re
import shutil
import ssl
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from commands import run

from percdl.runtimes.messages import Reply, Request

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'percdl[federated]'")

import httpx
from flower_site import connected

from percdl.runtimes.flower.connection import Listening, running_link
from percdl.runtimes.flower.processes import free_port
from percdl.runtimes.flower.wire import FlowerWire

pytestmark = [
    pytest.mark.slow,
    # Flower itself uses a name that its library of patterns deprecates.
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning"),
]
ROOT = Path(__file__).resolve().parents[1]
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


@contextmanager
def proxy(folder, inner, outer):
    """Run nginx on the documented file, its addresses and paths exchanged."""
    text = (ROOT / "docs" / "federated" / "nginx.conf").read_text()
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{outer} ssl"),
        ("127.0.0.1:8000", f"127.0.0.1:{inner}"),
        ("/etc/percdl/keys", str(folder / "keys")),
    ):
        assert old in text
        text = text.replace(old, new)
    paths = "".join(
        f"{name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = (
        f"pid {folder}/nginx.pid; error_log {folder}/nginx.log; daemon off; events {{}}\n"
        f"http {{ access_log off; {paths}\n{text} }}"
    )
    (folder / "nginx.conf").write_text(whole)
    command = [str(NGINX), "-c", str(folder / "nginx.conf"), "-e", str(folder / "nginx.log")]
    subprocess.run([*command, "-t"], check=True, capture_output=True)
    with subprocess.Popen(command) as child:
        try:
            yield
        finally:
            child.terminate()


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    run("federate", "keys", "lyon", "--ca", "--server", "127.0.0.1", "--folder", folder)
    run("federate", "keys", "stranger", "--folder", folder)
    return folder


def ask(wire, patience=60):
    """Wait for the site, and ask it something."""
    end = time.monotonic() + patience
    while not wire.sites() and time.monotonic() < end:
        time.sleep(0.3)
    asked = Request("population", "run", 1, 0, {}, {"x": np.arange(5.0)})
    return wire.ask({"lyon": asked}, patience)["lyon"]


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_only_what_sites_need_passes(keys, tmp_path):
    inner, outer = free_port(), free_port()
    paths = (keys / "ca.crt", keys / "server.crt", keys / "server.key")
    public = {"lyon": (keys / "lyon.nodepub").read_bytes()}
    with running_link(Listening("127.0.0.1", inner, *paths), tmp_path) as link:
        nodes = link.admit(public)
        with proxy(tmp_path, inner, outer), link.open_run() as grid:
            with connected(tmp_path, f"127.0.0.1:{outer}", "lyon.node"):
                reply = ask(FlowerWire(grid, nodes))
            statuses = look_around(outer, keys / "ca.crt")
            direct = look_around(inner, keys / "ca.crt")
    assert isinstance(reply, Reply), reply
    np.testing.assert_array_equal(reply.arrays["x"], 2 * np.arange(5.0))
    # Without a signature the fleet API answers 401; the rest is not even reached.
    assert statuses["/v1/fleet/pull-messages"] == 401
    assert {status for path, status in statuses.items() if "pull-messages" not in path} == {403}
    # What the proxy is for: on the server itself, administration asks for no password.
    assert direct["/v1/control/list-nodes"] == 200


def look_around(port, authority):
    """Return how a server answers a stranger, by path."""
    context = ssl.create_default_context(cafile=authority)
    headers = {"content-type": "application/protobuf", "accept": "application/protobuf"}
    paths = (
        "/v1/fleet/pull-messages", "/v1/fleet/register-node", "/v1/fleet/unregister-node",
        "/v1/control/list-nodes", "/v1/control/start-run", "/v1/control/register-node",
        "/v1/runtime/acquire-task", "/v1/fleet/../control/list-nodes", "/docs", "/health", "/",
    )  # fmt: skip
    with httpx.Client(verify=context, base_url=f"https://127.0.0.1:{port}") as client:
        return {path: client.post(path, headers=headers).status_code for path in paths}


def test_a_stranger_is_not_admitted(keys, tmp_path):
    port = free_port()
    paths = (keys / "ca.crt", keys / "server.crt", keys / "server.key")
    with running_link(Listening("127.0.0.1", port, *paths), tmp_path) as link:
        link.admit({"lyon": (keys / "lyon.nodepub").read_bytes()})
        with connected(tmp_path, f"127.0.0.1:{port}", "stranger.node") as child:
            assert child.wait(60) != 0
            assert child.stderr is not None
            assert re.search(rb"EndedError: supernode ended with code", child.stderr.read())
        # A site that is taken from the list is no longer admitted either.
        assert link.admit({"nice": (keys / "stranger.nodepub").read_bytes()}).keys() == {"nice"}
        with connected(tmp_path, f"127.0.0.1:{port}", "lyon.node") as child:
            assert child.wait(60) != 0
