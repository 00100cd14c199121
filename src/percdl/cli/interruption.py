"""Ctrl-C: a fit ends after the round it is in, so that what was learned is kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stopping_between_rounds(warn: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Yield what raises `KeyboardInterrupt` once Ctrl-C was pressed; to be called after a round.

    Raised anywhere, an interrupt may come where compiled code calls back and be lost there. A
    second Ctrl-C does not wait.
    """
    pressed = threading.Event()

    def note(number: int, frame: Any) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        warn("stopping after this round. Ctrl-C again stops at once.")

    def check() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield check  # signals are the main thread's
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ending_on_request() -> Iterator[None]:
    """Treat a polite request to end (SIGTERM) as Ctrl-C, so that children are stopped too."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
