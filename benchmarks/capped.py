"""A process whose memory the kernel caps, where it lets us."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

# Where groups of processes live, and what limits their memory: versions 1 and 2 of cgroups.
HOMES = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max"),
)


def run_capped(command: Sequence[str], most_bytes: int) -> tuple[str, bool]:
    """Run a command in a separate group; return its output, and whether it was capped."""
    with _group(most_bytes) as group:

        def enter() -> None:
            if group is not None:
                (group / "cgroup.procs").write_text(str(os.getpid()))

        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=enter
        )
    return done.stdout, group is not None


@contextmanager
def _group(most_bytes: int) -> Iterator[Path | None]:
    """Make a group with a cap for the time of the context; None where that is not allowed."""
    for home, limit in HOMES:
        group = home / f"percdl-{uuid4().hex[:8]}"
        try:
            group.mkdir()
            (group / limit).write_text(str(most_bytes))
        except OSError:
            continue
        try:
            yield group
        finally:
            group.rmdir()
        return
    yield None
