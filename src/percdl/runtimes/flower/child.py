"""Run a command of Flower as a child that ends with its parent: ``python -m`` this file."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from importlib.metadata import entry_points

# Seconds between two checks of the parent, and until a program that does not end is killed.
_CHECK, _GRACE = 0.5, 5.0


def watch_parent(parent: int) -> None:
    """End this process when its parent has ended or was killed."""
    while os.getppid() == parent:
        time.sleep(_CHECK)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os._exit(1)


if __name__ == "__main__":
    _, name, parent, *arguments = sys.argv
    (command,) = entry_points(group="console_scripts", name=name)
    sys.argv = [name, *arguments]
    threading.Thread(target=watch_parent, args=[int(parent)], daemon=True).start()
    command.load()()
