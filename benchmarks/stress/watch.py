"""A watch on what Python does while a file is opened, and on how long it takes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

#: What opening a file must not do; `ast.parse`, which runs nothing, compiles under that name.
FORBIDDEN = (
    "import", "exec", "compile", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.remove",
    "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.truncate", "os.chmod", "shutil.",
    "subprocess.", "socket.", "pickle.", "marshal.", "ctypes.", "code.", "webbrowser.", "urllib.",
)  # fmt: skip
PARSED = "<unknown>"


@dataclass
class Watchman:
    """Notes what is done while a file is open, of what opening must not do."""

    seen: list[str] = field(default_factory=list)
    awake: bool = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Hear an audit event of Python."""
        if not self.awake:
            return
        writes = event == "open" and _writes(*arguments[1:3])
        forbidden = event.startswith(FORBIDDEN) and arguments[1:2] != (PARSED,)
        if writes or forbidden:
            self.seen.append(f"{event} {arguments!r}"[:120])


_WATCHMAN: list[Watchman] = []


def watchman() -> Watchman:
    """Return the watchman of this process: hooks are for ever, so there is one."""
    if not _WATCHMAN:
        _WATCHMAN.append(Watchman())
        sys.addaudithook(_WATCHMAN[0])
    return _WATCHMAN[0]


def _writes(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Interrupt what takes too long."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
