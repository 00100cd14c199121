"""Flower's commands as child processes, and the tasks that they hand out.

Flower would start a new process per message and run the code that came with the run. Here a task
is claimed over the same interface and done in this process, by the installed percdl. Code from the
other side is never unpacked or run.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

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

from percdl.exceptions import FederationError
from percdl.signals.files import PRIVATE, replace_file

# No telemetry: Flower's makers learn neither use nor version.
_SILENT = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
# Seconds that a program has to end after it was asked to.
_GRACE = 8.0
_COLORS = re.compile(r"\x1b\[\d*m")
T = TypeVar("T")
_CLAIM = "/flwr.proto.Runtime/AcquireTask"


class EndedError(FederationError):
    """A program of Flower ended by itself; the message is the end of its log."""


def check_port_free(host: str, port: int) -> None:
    """Raise where a port is taken, before anything is started."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise FederationError(
                f"cannot listen on {host}:{port} ({error.strerror}). "
                "Stop the program that listens there, or choose another port."
            ) from error


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def new_secret(folder: Path) -> Path:
    """Write a new secret that authenticates this process to a program of Flower."""
    path = folder / "executor.secret"
    replace_file(path, secrets.token_bytes(32), PRIVATE)
    return path


@contextmanager
def running(program: str, arguments: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``flower-PROGRAM`` during a block; its files and its log stay in a folder."""
    module = "percdl.runtimes.flower.child"
    command = [sys.executable, "-m", module, f"flower-{program}", str(os.getpid()), *arguments]
    environment = {**os.environ, **_SILENT, "FLWR_HOME": str(folder / "flower")}
    with open(folder / f"{program}.log", "ab") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C goes to this process, which then stops the child
        )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(_GRACE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def check_alive(child: subprocess.Popen[bytes], log: Path) -> None:
    """Raise where a program has ended, with the end of its log."""
    if child.poll() is not None:
        raise EndedError(
            f"{log.stem} ended with code {child.returncode}: {_last_words(log)} ({log} has more.)"
        )


def wait_until(ready: Callable[[], T], check: Callable[[], None], patience: float) -> T:
    """Return the result of ``ready`` when it is true, or after ``patience`` seconds.

    ``check`` may raise meanwhile.
    """
    end = time.monotonic() + patience
    while not (found := ready()) and time.monotonic() <= end:
        check()
        time.sleep(0.2)
    return found


def _last_words(log: Path) -> str:
    """Return the reason why a program ended, as far as its log shows it."""
    text = _COLORS.sub("", log.read_text(errors="replace"))
    _, mark, reasons = text.rpartition("Exit Code")
    if mark:  # the reasons are on the next lines, up to an empty one
        reasons = reasons.partition("\n")[2].partition("\n\n")[0]
        return " ".join(reasons.split("\n")).strip()
    return text.strip().rpartition("\n")[2] or "its log is empty."


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Send all log records of this process to a file during a block."""
    root, flower = logging.getLogger(), logging.getLogger("flwr")
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    before = root.level, flower.handlers[:], flower.propagate
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    flower.handlers.clear()
    flower.propagate = True
    for name in ("httpx", "httpcore"):  # a line per request, several a second
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
        root.setLevel(before[0])
        flower.handlers[:], flower.propagate = before[1], before[2]


class Executor:
    """Client that claims tasks of a SuperLink or SuperNode; a context manager.

    ``address`` is the host and port of its Runtime API, ``secret`` the one it was started with,
    ``authority`` the PEM text of the certificate authority (None: plain HTTP on the loopback).
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

    def claim(self, kind: TaskType, run: int | None = None) -> str | None:
        """Claim a task of a kind, of any run by default; return the token that proves it."""
        found = self._client.AcquireTask(AcquireTaskRequest(supported_task_types=[kind]))
        ours = found.HasField("task") and run in (None, found.task.run_id)
        return found.token if ours and found.token else None

    def at_work(self, token: str) -> RuntimeHttpClient:
        """Return the connection for work on a claimed task."""
        return self._connect(RuntimeTokenHttpInterceptor(token))

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
    """Send Flower heartbeats of a task during a block."""

    def beat() -> bool:
        try:
            client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
        except httpx.TransportError:
            return False  # tried again soon
        except httpx.HTTPStatusError:
            return True  # no longer ours; handing over the result will raise
        return True

    sender = HeartbeatSender(beat)
    sender.start()
    try:
        yield
    finally:
        sender.stop()
