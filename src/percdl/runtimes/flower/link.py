"""The server's side of Flower: a SuperLink, the sites it admits, and the grid of a run.

The coordinator runs in the process that started the SuperLink. To Flower that process is the
executor of the run's ServerApp, as `flower-superexec` would be.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
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
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from percdl.exceptions import FederationError
from percdl.runtimes.flower.bundle import make_bundle
from percdl.runtimes.flower.processes import (
    check_alive,
    check_port_free,
    new_secret,
    running,
    wait_until,
)
from percdl.runtimes.flower.tasks import Executor, alive

# Seconds a SuperLink has to start, and those it may be silent before a run is given up.
_START, _SILENCE = 120.0, 20.0
DATABASE = "superlink.sqlite"
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True)
class Listening:
    """Where a SuperLink listens, and the certificates it shows.

    Attributes
    ----------
    host, port : str, int
        The address.
    authority, certificate, key : Path
        PEM files: the certificate authority, the server's certificate, its private key.
    """

    host: str
    port: int
    authority: Path
    certificate: Path
    key: Path

    @property
    def address(self) -> str:
        """Where this machine itself reaches it."""
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
    """A SuperLink that runs; made by `running_link`."""

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
        """Return whether the SuperLink is ready; raise where its certificate is not for here."""
        try:
            self._control.ListNodes(ListNodesRequest())
        except httpx.TransportError as error:
            if "certificate" in str(error).lower():
                raise FederationError(
                    f"the certificate {self._listening.certificate} does not hold for "
                    f"{self._listening.address} ({error}). Name that host when making it: "
                    "percdl federate keys --server HOST"
                ) from error
            return False
        return True

    def admit(self, keys: Mapping[str, bytes]) -> dict[str, int]:
        """Admit sites by their public keys (as ssh writes them), and nobody else.

        Returns
        -------
        dict of int
            By site, the number of its node.
        """
        wanted = {_as_pem(site, key): site for site, key in keys.items()}
        nodes: dict[str, int] = {}
        for node in self._control.ListNodes(ListNodesRequest()).nodes_info:
            if node.status == NodeStatus.UNREGISTERED:  # listed for ever, and put out already
                continue
            site = wanted.get(node.public_key)
            if site is not None and node.name == site:
                nodes[site] = node.node_id
            else:
                self._control.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
        for key, site in wanted.items():
            if site not in nodes:
                nodes[site] = self._register(site, key)
        return nodes

    def _register(self, site: str, key: bytes) -> int:
        try:
            asked = RegisterNodeRequest(public_key=key, name=site)
            return self._control.RegisterNode(asked).node_id
        except httpx.HTTPStatusError as error:
            raise FederationError(
                f"the node key of site {site!r} was admitted once and put out since, or has "
                "another name: Flower does not take it back. Let the site make a new one "
                f"(percdl federate keys), or move {self._log.with_name(DATABASE)} away, which "
                "forgets all that were ever admitted."
            ) from error

    @contextmanager
    def open_run(self) -> Iterator[Grid]:
        """Start a run and yield its grid; the run ends with the block."""
        run = self._control.StartRun(StartRunRequest(fab=fab_to_proto(make_bundle())))
        executor = Executor(self._listening.address, self._secret, self._authority)
        with executor:
            found: list[str] = []

            def claimed() -> bool:
                task = executor.claim(TaskType.SERVER_APP)
                if task is not None and task.run_id == run.run_id:
                    found.append(task.token)
                return bool(found)

            if not wait_until(claimed, self.check, _START):
                raise FederationError(
                    f"Flower did not start the run in {_START:g} s ({self._log} may say why)."
                )
            with self._grid(found[0]) as grid:
                yield grid

    @contextmanager
    def _grid(self, token: str) -> Iterator[Grid]:
        grid = HttpGrid(self._listening.address, root_certificates=self._authority, token=token)
        grid._retry_invoker.max_time = _SILENCE
        try:
            with alive(grid._runtime_client):
                given = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
                # Messages are stamped with these, which Flower keeps for the whole process.
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
    """Run a SuperLink for the time of a block; its database and log stay in a folder."""
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
            f"the node key of site {site!r} is no public key of ssh ({error})."
        ) from error
