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

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_CHECK)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Run a command by its name, with the arguments that follow the parent's process id."""
    name, parent = sys.argv[1], int(sys.argv[2])
    (command,) = entry_points(group="console_scripts", name=name)
    sys.argv = [name, *sys.argv[3:]]
    watch_parent(parent)
    command.load()()


if __name__ == "__main__":
    main()
