"""Where the words of Flower's libraries go: to a file, as the screen is for the command."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CHATTY = ("httpx", "httpcore")


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Send all log records of this process to a file for the time of a block."""
    root, flower = logging.getLogger(), logging.getLogger("flwr")
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    before = root.level, flower.handlers[:], flower.propagate
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    flower.handlers.clear()
    flower.propagate = True
    for name in _CHATTY:  # a line per request, several a second
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
        root.setLevel(before[0])
        flower.handlers[:], flower.propagate = before[1], before[2]
