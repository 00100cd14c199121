"""File systems on which little or nothing can be written, where this user may make some."""

import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def mounted(folder, kilobytes):
    """Yield a folder that is a file system of a few pages in memory; only root may mount one."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a full disk is a small tmpfs, which only root may mount")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this system does not allow mounting a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder):
    """Leave no room at all."""
    with open(folder / "filler", "ab", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


def make_read_only(folder):
    """Make a mounted folder read-only, for root too."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
