"""Flower's programs as children: what is asked arrives, and none outlives what started it."""

import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import run

from percdl.exceptions import FederationError
from percdl.runtimes.messages import Reply, Request

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'percdl[federated]'")

import httpx
from flower_site import connected
from flwr.supercore.runtime import RuntimeHttpClient

from percdl.runtimes.flower import connection, processes
from percdl.runtimes.flower.connection import (
    Joining,
    Link,
    Listening,
    Node,
    running_link,
    running_node,
)
from percdl.runtimes.flower.wire import FlowerWire, make_client_app

# Flower itself uses a name that its library of patterns deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
ENDED = """\
\x1b[92mINFO\x1b[0m : Starting
Exit Code: 501
the server does not know this key
ask its administrator

Documentation: elsewhere
"""


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("connection") / "keys"
    run("federate", "keys", "lyon", "--ca", "--server", "127.0.0.1", "--folder", folder)
    run("federate", "keys", "nice", "--folder", folder)
    return folder


def listening_at(keys, host="127.0.0.1", port=0):
    return Listening(host, port, *(keys / f"{x}" for x in ("ca.crt", "server.crt", "server.key")))


def ended_child(code=3):
    child = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])
    child.wait()
    return child


def test_a_site_of_another_process_answers_and_those_not_listed_are_put_out(keys):
    folder, public = (
        keys.parent,
        {x: (keys / f"{x}.nodepub").read_bytes() for x in ("lyon", "nice")},
    )
    listening = listening_at(keys, port=processes.free_port())
    with running_link(listening, folder) as link:
        both = link.admit(public)
        only = link.admit({"lyon": public["lyon"]})
        assert only == {"lyon": both["lyon"]}
        for gone in (public, {"lyon": public["lyon"], "nancy": public["nice"]}):
            with pytest.raises(FederationError, match=r"key of site 'n.*superlink\.sqlite away"):
                link.admit(gone)
        assert link.admit({"lyon": public["lyon"]}) == only
        with link.open_run() as grid, connected(folder, listening.address, "lyon.node") as site:
            wire = FlowerWire(grid, only)
            assert processes.wait_until(lambda: bool(wire.sites()), link.check, 60)
            asked = Request("population", "run", 1, 0, {}, {"x": np.arange(5.0)})
            reply = wire.ask({"lyon": asked}, 60)["lyon"]
            (folder / "enough").touch()
            assert site.wait(60) == 0
        with pytest.raises(FederationError, match=r"does not answer any more \(gone\)"):
            with link.open_run():
                raise httpx.ConnectError("gone")
        link._child.kill()
        link._child.wait()
        with pytest.raises(processes.EndedError, match=r"superlink ended with code -9: .*\.log"):
            link.check()
    assert isinstance(reply, Reply), reply
    np.testing.assert_array_equal(reply.arrays["x"], 2 * np.arange(5.0))


@pytest.mark.parametrize(
    ("host", "address"),
    [("0.0.0.0", "127.0.0.1:8000"), ("::", "[::1]:8000"), ("hub.test", "hub.test:8000")],
)
def test_a_server_reaches_itself_where_it_listens(keys, host, address):
    assert listening_at(keys, host, 8000).address == address


class Broken:
    """A connection on which every call fails."""

    def __init__(self, error):
        self.error, self.closed = error, False

    def close(self):
        self.closed = True

    def _fail(self, *_):
        if self.error is not None:
            raise self.error

    ListNodes = SendTaskHeartbeat = PullTaskInput = claim = _fail


class BrokenClient(Broken, RuntimeHttpClient):
    """The same, to a task."""


class BrokenExecutor(Broken, processes.Executor):
    """The same, to a SuperNode."""

    def at_work(self, token):
        self.client = BrokenClient(self.error)
        return self.client


def test_a_certificate_for_another_host_is_told_and_a_link_that_starts_is_waited_for(keys):
    link = Link(listening_at(keys, "hub.test", 8000), ended_child(), keys / "none.log", b"")
    link.close()
    link._control = Broken(httpx.ConnectError("connection refused"))
    assert not link.answers()
    link._control = Broken(httpx.ConnectError("certificate verify failed"))
    message = r"server\.crt is not valid for hub\.test:8000 .*percdl federate keys --server HOST"
    with pytest.raises(FederationError, match=message):
        link.answers()


@pytest.mark.parametrize("text", [b"", b"word", b"of another kind", b"ssh-ed25519 AAAA"])
def test_a_node_key_that_is_none_names_its_site(text):
    with pytest.raises(
        FederationError, match="node key of site 'nice' is not a public key of OpenSSH"
    ):
        connection._as_pem("nice", text)


def test_programs_that_do_not_start_in_time_are_given_up(keys, tmp_path, monkeypatch):
    silent = [sys.executable, "-c", "import time; time.sleep(60)"]
    started = []
    popen = subprocess.Popen

    def start(command, **options):
        started.append(popen(silent, **options))
        return started[-1]

    monkeypatch.setattr(processes.subprocess, "Popen", start)
    monkeypatch.setattr(connection, "_START", 0.1)
    with pytest.raises(
        FederationError, match=r"SuperLink did not start in 0\.1 s.*superlink\.log"
    ):
        with running_link(listening_at(keys, port=processes.free_port()), tmp_path):
            pass
    joining = Joining("127.0.0.1:9", keys / "ca.crt", keys / "lyon.node")
    with pytest.raises(FederationError, match=r"SuperNode did not start in 0\.1 s.*supernode"):
        with running_node(joining, tmp_path) as node:
            node.serve(lambda request: None)
    assert [child.returncode for child in started] == [-signal.SIGTERM] * 2


def test_a_node_that_loses_its_program_says_so(tmp_path):
    log = tmp_path / "supernode.log"
    log.write_text(ENDED)
    node = Node(BrokenExecutor(httpx.ConnectError("refused")), ended_child(), log)
    message = "supernode ended with code 3: the server does not know this key ask its admin"
    with pytest.raises(processes.EndedError, match=message):
        node.serve(lambda request: None)


def test_an_answer_that_cannot_be_handed_over_ends_no_site(tmp_path, caplog):
    executor = BrokenExecutor(httpx.ConnectError("the run has ended"))
    app = make_client_app(lambda request: None)
    Node(executor, ended_child(), tmp_path)._work("token", app)
    assert "an answer could not be handed over: the run has ended" in caplog.text
    assert executor.client.closed


@pytest.mark.parametrize(
    ("said", "words"),
    [("", "its log is empty."), ("one\n\ntwo\n\n", "two"), ("Exit Code: 1\nwhy\nso", "why so")],
)
def test_last_words_are_why_a_program_ended(tmp_path, said, words):
    log = tmp_path / "superlink.log"
    log.write_text(said)
    with pytest.raises(processes.EndedError) as error:
        processes.check_alive(ended_child(7), log)
    assert str(error.value) == f"superlink ended with code 7: {words} ({log} has more.)"


def test_a_taken_port_is_told_before_anything_starts():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(FederationError, match=f"cannot listen on 127.0.0.1:{port} .*another"):
            processes.check_port_free("127.0.0.1", port)
    processes.check_port_free("127.0.0.1", port)


def test_a_secret_is_new_each_time_and_for_its_owner_only(tmp_path):
    first = processes.new_secret(tmp_path).read_bytes()
    path = processes.new_secret(tmp_path)
    assert len(first) == len(path.read_bytes()) == 32
    assert first != path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0


def test_a_child_that_does_not_listen_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_GRACE", 0.2)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    deaf = [sys.executable, "-c", f"{code}; time.sleep(60)"]
    popen = subprocess.Popen
    monkeypatch.setattr(processes.subprocess, "Popen", lambda command, **how: popen(deaf, **how))
    with processes.running("superlink", [], tmp_path) as child:
        while not (tmp_path / "superlink.log").read_bytes():
            time.sleep(0.05)
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("deaf", "code"), [(False, -signal.SIGTERM), (True, 1)])
def test_a_child_ends_with_its_parent(deaf, code):
    source = (
        "import signal, time\n"
        "from percdl.runtimes.flower import child\n"
        "child._GRACE = 0.1\n"
        f"if {deaf}: signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"child.watch_parent({os.getpid()} + 1)\n"  # as if that one had been its parent
        "time.sleep(60)"
    )
    done = subprocess.run([sys.executable, "-c", source], timeout=60, check=False)
    assert done.returncode == code


@pytest.mark.parametrize(
    ("error", "is_fine"),
    [
        (None, True),
        (httpx.ConnectError("lost"), False),
        (httpx.HTTPStatusError("not yours", request=None, response=None), True),
    ],
)
def test_a_lost_heartbeat_is_sent_again_and_an_unwanted_one_is_not(monkeypatch, error, is_fine):
    beats = []

    class Sender:
        def __init__(self, beat):
            self.beat = beat

        def start(self):
            beats.append(self.beat())

        def stop(self):
            beats.append("stopped")

    monkeypatch.setattr(processes, "HeartbeatSender", Sender)
    with processes.alive(BrokenClient(error)):
        pass
    assert beats == [is_fine, "stopped"]


def test_waiting_ends_when_time_is_up():
    began = time.monotonic()
    assert not processes.wait_until(lambda: False, lambda: None, 0.3)
    assert time.monotonic() - began >= 0.3
