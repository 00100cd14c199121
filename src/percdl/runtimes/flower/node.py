"""A site's side of Flower: a SuperNode, and the work on what it receives."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from flwr.clientapp import ClientApp
from flwr.common.constant import SubStatus
from flwr.supercore.constant import TaskType
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from percdl.exceptions import FederationError
from percdl.runtimes.flower.client import make_client_app
from percdl.runtimes.flower.processes import (
    check_alive,
    check_port_free,
    free_port,
    new_secret,
    running,
    wait_until,
)
from percdl.runtimes.flower.tasks import Executor, Task, alive
from percdl.runtimes.messages import Answer

_log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
# Seconds between two looks for work, and those a SuperNode has to start.
_LOOK, _START = 0.3, 120.0


@dataclass(frozen=True)
class Joining:
    """How a site reaches its server.

    Attributes
    ----------
    server : str
        Host and port of the server, or of the proxy before it.
    authority : Path
        PEM file of the certificate authority that vouches for the server.
    key : Path
        Private key of the node, as ssh writes it.
    """

    server: str
    authority: Path
    key: Path

    def arguments(self, port: int, secret: Path) -> list[str]:
        """Return the arguments of ``flower-supernode``."""
        return [
            *("--superlink", self.server, "--root-certificates", str(self.authority)),
            *("--auth-supernode-private-key", str(self.key)),
            *("--host", _HOST, "--port", str(port)),
            *("--isolation", "process", "--superexec-auth-secret-file", str(secret)),
        ]


@contextmanager
def running_node(joining: Joining, folder: Path, port: int | None = None) -> Iterator[Node]:
    """Run a SuperNode for the time of a block; its log stays in a folder."""
    port = free_port(_HOST) if port is None else port
    check_port_free(_HOST, port)
    secret = new_secret(folder)
    log = folder / "supernode.log"
    with running("supernode", joining.arguments(port, secret), folder) as child:
        with Executor(f"{_HOST}:{port}", secret.read_bytes()) as executor:
            yield Node(executor, child, log)


class Node:
    """A SuperNode that runs; made by `running_node`."""

    def __init__(self, executor: Executor, child: subprocess.Popen[bytes], log: Path) -> None:
        self._executor, self._child, self._log = executor, child, log

    def serve(self, answer: Answer, done: Callable[[], bool] = lambda: False) -> None:
        """Answer requests, one at a time, until ``done``; raise where the SuperNode ends."""
        app = make_client_app(answer)
        if not wait_until(self._listens, self._check, _START):
            raise FederationError(f"the SuperNode did not start in {_START:g} s ({self._log}).")
        while not done():
            self._check()
            task = self._claim()
            if task is None:
                time.sleep(_LOOK)
            else:
                self._work(task, app)

    def _check(self) -> None:
        check_alive(self._child, self._log)

    def _listens(self) -> bool:
        try:
            self._executor.claim(TaskType.MODEL)  # of which there are none
        except httpx.TransportError:
            return False
        return True

    def _claim(self) -> Task | None:
        try:
            return self._executor.claim(TaskType.CLIENT_APP)
        except httpx.TransportError:  # it ends, or is busy; the next look tells
            return None

    def _work(self, task: Task, app: ClientApp) -> None:
        """Answer one message; what the run's bundle holds is not looked at."""
        client = self._executor.at_work(task)
        try:
            with alive(client):
                message, context, _, _ = pull_task_input(client)
                push_message(client, app(message=message, context=context), context)
                push_task_output(client, context, SubStatus.COMPLETED, "")
        except Exception as error:
            # An answer that came too late, a run that has ended, a connection that was lost: the
            # coordinator counts this site out of the round, and may ask it in the next.
            _log.warning("an answer could not be handed over: %s", error)
        finally:
            client.close()
