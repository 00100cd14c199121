"""The environment of ``make demo`` is small and quickly installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.claims._claim import Claim, at_most
from benchmarks.timing import seconds

MOST_MEGABYTES = 700
MOST_SECONDS = 60


def claims() -> Iterator[Claim]:
    """Set the environment up in an empty folder, without the cache of pip."""
    with TemporaryDirectory() as folder:
        venv = Path(folder) / "venv"
        command = ["make", f"VENV={venv}", str(venv / ".demo")]
        environment = {**os.environ, "PIP_NO_CACHE_DIR": "1"}
        took = seconds(
            lambda: subprocess.run(command, env=environment, stdout=sys.stderr, check=True)
        )
        files = [path.lstat() for path in venv.rglob("*")]
        size = sum(512 * file.st_blocks for file in files)
    detail = f"{len(files)} files and folders, on disk"
    yield at_most("environment of make demo, MB", size / 1e6, MOST_MEGABYTES, detail)
    yield at_most("its installation, seconds", took, MOST_SECONDS, "venv and pip")
