"""Connections of a federation over Flower: the server's SuperLink and the SuperNode of a site.

The coordinator runs in the process that started the SuperLink. To Flower, that process is the
executor of the run's ServerApp, as `flower-superexec` would be.
"""

from __future__ import annotations

import hashlib
import logging
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.cli.build import build_fab_from_files
from flwr.clientapp import ClientApp
from flwr.common.constant import SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    RegisterNodeRequest,
    StartRunRequest,
    UnregisterNodeRequest,
)
from flwr.proto.runtime_pb2 import PullTaskInputRequest
from flwr.serverapp import Grid
from flwr.supercore.constant import NodeStatus, TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from percdl.exceptions import FederationError
from percdl.runtimes.flower.processes import (
    Executor,
    alive,
    check_alive,
    check_port_free,
    free_port,
    new_secret,
    running,
    wait_until,
)
from percdl.runtimes.flower.wire import make_client_app
from percdl.runtimes.messages import Answer

_log = logging.getLogger(__name__)
# Seconds that a program has to start, that a SuperLink may be silent, between looks for work.
_START, _SILENCE, _LOOK = 120.0, 20.0, 0.3
_LOCAL, _ANY = "127.0.0.1", {"0.0.0.0": "127.0.0.1", "::": "::1"}
DATABASE = "superlink.sqlite"
# Flower needs an app bundle for a run. This one names two apps and holds no code.
_PROJECT = """\
[project]
name = "percdl"
version = "1.0.0"
description = "Placeholder: server and sites run the percdl installed there."
license = "MIT"
dependencies = ["flwr"]

[tool.flwr.app]
publisher = "percdl"

[tool.flwr.app.components]
serverapp = "percdl.none:app"
clientapp = "percdl.none:app"
"""


def make_bundle() -> Fab:
    """Return the app bundle of a run, always the same bytes."""
    content, _ = build_fab_from_files({"pyproject.toml": _PROJECT.encode()})
    return Fab(hashlib.sha256(content).hexdigest(), content, {})


@dataclass(frozen=True)
class Listening:
    """Address of a SuperLink, and its PEM files: authority, certificate and private key."""

    host: str
    port: int
    authority: Path
    certificate: Path
    key: Path

    @property
    def address(self) -> str:
        """Address for connections from this machine."""
        host = _ANY.get(self.host, self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def arguments(self, folder: Path, secret: Path) -> list[str]:
        """Return the arguments of ``flower-superlink``."""
        return [
            *("--host", self.host, "--port", str(self.port)),
            *("--ssl-ca-certfile", str(self.authority)),
            *("--ssl-certfile", str(self.certificate), "--ssl-keyfile", str(self.key)),
            *("--enable-supernode-auth", "--disable-runtime-dependency-installation"),
            *("--isolation", "process", "--superexec-auth-secret-file", str(secret)),
            *("--database", str(folder / DATABASE)),
        ]


class Link:
    """A running SuperLink; made by `running_link`."""

    def __init__(
        self, listening: Listening, child: subprocess.Popen[bytes], log: Path, secret: bytes
    ) -> None:
        self._listening, self._child, self._log, self._secret = listening, child, log, secret
        self._authority = listening.authority.read_bytes()
        self._control = ControlHttpClient.from_server_address(
            listening.address,
            insecure=False,
            root_certificates=self._authority,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="percdl")],
        )

    def close(self) -> None:
        """Close the connection to the SuperLink."""
        self._control.close()

    def check(self) -> None:
        """Raise where the SuperLink has ended."""
        check_alive(self._child, self._log)

    def answers(self) -> bool:
        """Return whether the SuperLink is ready; raise where its certificate does not fit."""
        try:
            self._control.ListNodes(ListNodesRequest())
        except httpx.TransportError as error:
            if "certificate" in str(error).lower():
                raise FederationError(
                    f"the certificate {self._listening.certificate} is not valid for "
                    f"{self._listening.address} ({error}). Name that host when making it: "
                    "percdl federate keys --server HOST"
                ) from error
            return False
        return True

    def admit(self, keys: Mapping[str, bytes]) -> dict[str, int]:
        """Admit exactly the sites with these public keys (OpenSSH); return node ids by site."""
        wanted = {_as_pem(site, key): site for site, key in keys.items()}
        nodes: dict[str, int] = {}
        for node in self._control.ListNodes(ListNodesRequest()).nodes_info:
            if node.status == NodeStatus.UNREGISTERED:  # Flower lists removed nodes forever
                continue
            site = wanted.get(node.public_key)
            if site is not None and node.name == site:
                nodes[site] = node.node_id
            else:
                self._control.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
        for key, site in wanted.items():
            if site in nodes:
                continue
            try:
                asked = RegisterNodeRequest(public_key=key, name=site)
                nodes[site] = self._control.RegisterNode(asked).node_id
            except httpx.HTTPStatusError as error:
                raise FederationError(
                    f"the node key of site {site!r} was removed earlier, or is registered under "
                    "another name. Flower does not accept it again. Let the site make a new one "
                    f"(percdl federate keys), or move {self._log.with_name(DATABASE)} away, which "
                    "forgets all registered keys."
                ) from error
        return nodes

    @contextmanager
    def open_run(self) -> Iterator[Grid]:
        """Start a run and yield its grid; the run ends with the block."""
        run = self._control.StartRun(StartRunRequest(fab=fab_to_proto(make_bundle())))
        with Executor(self._listening.address, self._secret, self._authority) as executor:
            claim = partial(executor.claim, TaskType.SERVER_APP, run.run_id)
            token = wait_until(claim, self.check, _START)
            if not token:
                raise FederationError(
                    f"Flower did not start the run in {_START:g} s ({self._log} may say why)."
                )
            with self._grid(token) as grid:
                yield grid

    @contextmanager
    def _grid(self, token: str) -> Iterator[Grid]:
        grid = HttpGrid(self._listening.address, root_certificates=self._authority, token=token)
        grid._retry_invoker.max_time = _SILENCE
        try:
            with alive(grid._runtime_client):
                given = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
                # Flower stamps messages with these, one set per process.
                TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
                TaskIdentity.node_id = given.context.node_id
                grid.set_run(run_from_proto(given.run))
                yield grid
        except httpx.HTTPError as error:
            self.check()
            raise FederationError(f"the SuperLink does not answer any more ({error}).") from error
        finally:
            grid.close()


@contextmanager
def running_link(listening: Listening, folder: Path) -> Iterator[Link]:
    """Run a SuperLink during a block; its database and log stay in a folder."""
    check_port_free(listening.host, listening.port)
    secret = new_secret(folder)
    log = folder / "superlink.log"
    with running("superlink", listening.arguments(folder, secret), folder) as child:
        link = Link(listening, child, log, secret.read_bytes())
        try:
            if not wait_until(link.answers, link.check, _START):
                raise FederationError(f"the SuperLink did not start in {_START:g} s ({log}).")
            yield link
        finally:
            link.close()


def _as_pem(site: str, key: bytes) -> bytes:
    try:
        return public_key_to_bytes(load_ssh_public_key(key))  # pyright: ignore[reportArgumentType]
    except (ValueError, AttributeError, UnsupportedAlgorithm) as error:
        raise FederationError(
            f"the node key of site {site!r} is not a public key of OpenSSH ({error})."
        ) from error


@dataclass(frozen=True)
class Joining:
    """Address of a server, PEM file of its authority, and private key of the node (OpenSSH)."""

    server: str
    authority: Path
    key: Path

    def arguments(self, port: int, secret: Path) -> list[str]:
        """Return the arguments of ``flower-supernode``."""
        return [
            *("--superlink", self.server, "--root-certificates", str(self.authority)),
            *("--auth-supernode-private-key", str(self.key)),
            *("--host", _LOCAL, "--port", str(port)),
            *("--isolation", "process", "--superexec-auth-secret-file", str(secret)),
        ]


@contextmanager
def running_node(joining: Joining, folder: Path, port: int | None = None) -> Iterator[Node]:
    """Run a SuperNode during a block; its log stays in a folder."""
    port = free_port(_LOCAL) if port is None else port
    check_port_free(_LOCAL, port)
    secret = new_secret(folder)
    log = folder / "supernode.log"
    with running("supernode", joining.arguments(port, secret), folder) as child:
        with Executor(f"{_LOCAL}:{port}", secret.read_bytes()) as executor:
            yield Node(executor, child, log)


class Node:
    """A running SuperNode; made by `running_node`."""

    def __init__(self, executor: Executor, child: subprocess.Popen[bytes], log: Path) -> None:
        self._executor, self._child, self._log = executor, child, log

    def serve(self, answer: Answer, done: Callable[[], bool] = lambda: False) -> None:
        """Answer requests, one at a time, until ``done``; raise where the SuperNode ends."""
        app = make_client_app(answer)
        if not wait_until(self._listens, self._check, _START):
            raise FederationError(f"the SuperNode did not start in {_START:g} s ({self._log}).")
        while not done():
            self._check()
            token = None
            with suppress(httpx.TransportError):  # it ends or is busy; the next look shows which
                token = self._executor.claim(TaskType.CLIENT_APP)
            if token is None:
                time.sleep(_LOOK)
            else:
                self._work(token, app)

    def _check(self) -> None:
        check_alive(self._child, self._log)

    def _listens(self) -> bool:
        try:
            self._executor.claim(TaskType.MODEL)  # there are none of this type
        except httpx.TransportError:
            return False
        return True

    def _work(self, token: str, app: ClientApp) -> None:
        """Answer one message; the bundle of the run is ignored."""
        client = self._executor.at_work(token)
        try:
            with alive(client):
                message, context, _, _ = pull_task_input(client)
                push_message(client, app(message=message, context=context), context)
                push_task_output(client, context, SubStatus.COMPLETED, "")
        except Exception as error:
            # The answer was late, the run has ended, or the connection was lost: the coordinator
            # leaves this site out of the round, and may ask it in the next one.
            _log.warning("an answer could not be handed over: %s", error)
        finally:
            client.close()
