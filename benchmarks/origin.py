"""Where a figure comes from: the commit and the kind of machine."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def machine_kind() -> str:
    """Return the name of the GPU that JAX finds, or else of the processor, with its cores."""
    import jax

    device = jax.devices()[0]
    if device.platform != "cpu":
        return device.device_kind
    described = _output("lscpu") if shutil.which("lscpu") else ""
    model = re.search(r"^Model name:\s*(.+)$", described, re.MULTILINE)
    name = model[1] if model else platform.processor() or "unknown processor"
    return f"{platform.machine()} {name} {os.cpu_count()} cores"


def commit() -> str:
    """Return the commit that is measured, with a plus if the sources have changed since.

    Without git or a repository, the environment variable ``PERCDL_COMMIT``.
    """
    try:
        name = _output("git", "rev-parse", "--short=7", "HEAD")
        return name + ("+" if _output("git", "status", "--porcelain", "src") else "")
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("PERCDL_COMMIT", "unknown")


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    print(machine_kind())
