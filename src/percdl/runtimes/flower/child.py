"""Run a program of Flower as a child that does not outlive its parent: ``python -m`` this file."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

# Seconds between two looks at the parent, and those a program has to end by itself.
_LOOK, _GRACE = 0.5, 5.0


def watch_parent(parent: int) -> None:
    """End this process once its parent has gone, even if that was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Run ``superlink`` or ``supernode``, with the arguments that follow the parent's number."""
    program, parent = sys.argv[1], int(sys.argv[2])
    sys.argv = [f"flower-{program}", *sys.argv[3:]]
    watch_parent(parent)
    if program == "superlink":
        from flwr.superlink.cli.flower_superlink import flower_superlink

        flower_superlink()
    else:
        from flwr.supernode.cli.flower_supernode import flower_supernode

        flower_supernode()


if __name__ == "__main__":
    main()
