"""Tasks of Flower, worked on in this process instead of in processes that Flower starts.

Flower starts a new process per message and runs in it the code that came with the run. Here a
task is claimed over the same interface, and worked on by the percdl that is installed: what the
other side ships is never unpacked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient

_CLAIM = "/flwr.proto.Runtime/AcquireTask"


@dataclass(frozen=True)
class Task:
    """A task that was claimed: the run it belongs to, and what proves that it was."""

    run_id: int
    token: str


class Executor:
    """Claims tasks of a SuperLink or SuperNode; to be used as a context.

    Parameters
    ----------
    address : str
        Host and port of its Runtime API.
    secret : bytes
        The secret it was started with.
    authority : bytes or None
        PEM of the certificate authority; None for plain HTTP on the loopback.
    """

    def __init__(self, address: str, secret: bytes, authority: bytes | None = None) -> None:
        self._address, self._authority = address, authority
        self._client = self._connect(
            SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=[_CLAIM])
        )

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def claim(self, kind: TaskType) -> Task | None:
        """Claim a task of a kind, if one waits."""
        found = self._client.AcquireTask(AcquireTaskRequest(supported_task_types=[kind]))
        if not (found.HasField("task") and found.token):
            return None
        return Task(found.task.run_id, found.token)

    def at_work(self, task: Task) -> RuntimeHttpClient:
        """Return the connection over which a task is worked on."""
        return self._connect(RuntimeTokenHttpInterceptor(task.token))

    def _connect(
        self, interceptor: SuperExecAuthHttpInterceptor | RuntimeTokenHttpInterceptor
    ) -> RuntimeHttpClient:
        return RuntimeHttpClient.from_server_address(
            server_address=self._address,
            insecure=self._authority is None,
            root_certificates=self._authority,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="percdl"), interceptor],
        )


@contextmanager
def alive(client: RuntimeHttpClient) -> Iterator[None]:
    """Tell Flower, for the time of a block, that a task is being worked on."""

    def beat() -> bool:
        try:
            client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
        except httpx.TransportError:
            return False  # tried again, soon
        except httpx.HTTPStatusError:
            return True  # no longer ours; what is done with the result will say so
        return True

    sender = HeartbeatSender(beat)
    sender.start()
    try:
        yield
    finally:
        sender.stop()
