"""A process that counts its steps on disk, and kills itself at one of them.

A step is an event of Python's audit hooks (a file is opened, renamed or deleted, a folder made or
deleted), a flush to disk, or a write; at a write, half of it is on disk when the process dies.
"""

from __future__ import annotations

import builtins
import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}


class KillPoint:
    """The steps of this process in a folder, and the one at which it dies.

    Parameters
    ----------
    folder : Path
        Steps elsewhere are not counted.
    fatal : int or None
        The step, counted from one, at which the process kills itself; None: it only counts.
    """

    def __init__(self, folder: Path, fatal: int | None):
        self.count = 0
        self._folder, self._fatal = str(folder), fatal

    def arm(self) -> None:
        """Watch this process, to its end: for children that were forked for it."""
        from percdl.signals import files

        flush = os.fsync

        def flush_or_die(descriptor: int) -> None:
            self._step()
            flush(descriptor)

        def open_to_tear(path: Any, *arguments: Any, **options: Any) -> Any:
            if arguments == ("wb",):
                return _Torn(io.FileIO(path, "wb"), self._step)
            return builtins.open(path, *arguments, **options)

        os.fsync = flush_or_die
        setattr(files, "open", open_to_tear)  # noqa: B010, it has none of its own
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS and self._is_here(arguments):
            self._step()

    def _is_here(self, arguments: tuple[Any, ...]) -> bool:
        """Whether a step is one in the folder; what is relative is part of a deleted tree."""
        named = arguments[0]
        if not isinstance(named, (str, bytes, os.PathLike)):
            return False
        path = os.fsdecode(named)
        return path.startswith(self._folder) or not os.path.isabs(path)

    def _step(self, tear: Callable[[], Any] = lambda: None) -> None:
        self.count += 1
        if self.count == self._fatal:
            tear()
            os.kill(os.getpid(), signal.SIGKILL)


class _Torn(io.BufferedWriter):
    """A file of which a write may end in the middle."""

    def __init__(self, raw: io.FileIO, step: Callable[..., None]):
        super().__init__(raw)
        self._step = step

    def write(self, data: Any) -> int:
        def tear() -> None:
            super(_Torn, self).write(memoryview(data).cast("B")[: len(data) // 2])
            self.flush()

        self._step(tear)
        return super().write(data)
