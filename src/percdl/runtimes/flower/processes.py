"""The programs of Flower as children of a command: started quietly, stopped with it."""

from __future__ import annotations

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
from typing import Literal

from percdl.exceptions import FederationError
from percdl.signals.files import PRIVATE, replace_file

# Nothing is told to Flower's makers: neither use nor version.
_SILENT = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
# Seconds a program has to end after it was asked to.
_GRACE = 8.0
_SECRET = "executor.secret"
_COLORS = re.compile(r"\x1b\[\d*m")


class EndedError(FederationError):
    """A program of Flower has ended by itself; its last words are the message."""


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
                "Stop what listens there, or choose another port."
            ) from error


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def new_secret(folder: Path) -> Path:
    """Write what proves to a program of Flower that it talks to this command; for one start."""
    path = folder / _SECRET
    replace_file(path, secrets.token_bytes(32), PRIVATE)
    return path


@contextmanager
def running(
    program: Literal["superlink", "supernode"], arguments: list[str], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program of Flower; its own files and its log stay in a folder."""
    command = [sys.executable, "-m", "percdl.runtimes.flower.child", program, str(os.getpid())]
    environment = {**os.environ, **_SILENT, "FLWR_HOME": str(folder / "flower")}
    with open(folder / f"{program}.log", "ab") as log:
        child = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the command, which then stops this
        )
    try:
        yield child
    finally:
        _stop(child)


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_GRACE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def check_alive(child: subprocess.Popen[bytes], log: Path) -> None:
    """Raise, with the last words of its log, where a program has ended."""
    if child.poll() is not None:
        raise EndedError(
            f"{log.stem} ended with code {child.returncode}: {_last_words(log)} ({log} has more.)"
        )


def wait_until(ready: Callable[[], bool], check: Callable[[], None], patience: float) -> bool:
    """Wait until something is ready, for so many seconds; ``check`` may raise meanwhile."""
    end = time.monotonic() + patience
    while not ready():
        check()
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def _last_words(log: Path) -> str:
    """Return why a program ended, as far as its log says so."""
    lines = [_COLORS.sub("", line).strip() for line in log.read_text(errors="replace").split("\n")]
    ended = [index for index, line in enumerate(lines) if "Exit Code" in line]
    if ended:  # the reasons follow, up to an empty line
        reasons = lines[ended[-1] + 1 :]
        return " ".join(reasons[: reasons.index("")] if "" in reasons else reasons)
    spoken = [line for line in lines if line]
    return spoken[-1] if spoken else "it said nothing."
