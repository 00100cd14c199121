"""All targets, how many cases of each make a full run, and how to run them."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from benchmarks.stress.fuzz.engine import Findings, Target, fuzz


class Door(NamedTuple):
    """A target: its module and class here, the cases of a full run, the package it needs."""

    module: str
    kind: str
    cases: int
    needs: str = "percdl"

    @property
    def is_open(self) -> bool:
        """Whether the package it needs is installed."""
        return find_spec(self.needs) is not None

    def target(self, folder: Path) -> Target:
        """Return the target, which may write to a folder."""
        return getattr(import_module(f"benchmarks.stress.fuzz.{self.module}"), self.kind)(folder)


# Many cases where they are cheap. Together a little more than a million.
DOORS = (
    Door("cohorts", "FromArrays", 300_000),
    Door("cohorts", "FromFrame", 25_000),
    Door("tables", "Csv", 120_000),
    Door("tables", "MetadataTable", 25_000),
    Door("tables", "Parquet", 30_000, "pyarrow"),
    Door("binaries", "Npz", 70_000),
    Door("binaries", "Edf", 90_000, "edfio"),
    Door("binaries", "Wfdb", 20_000, "wfdb"),
    Door("settings", "Command", 30_000),
    Door("settings", "Federation", 30_000),
    Door("settings", "Site", 40_000),
    Door("posts", "Posts", 200_000, "cryptography"),
    Door("posts", "Invitations", 80_000, "cryptography"),
)


def run_door(door: Door, n_cases: int, seed: int = 0) -> Findings:
    """Run this many cases of one target, in a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder:
        return fuzz(door.target(Path(folder)), n_cases, seed)


def run_all(doors: tuple[Door, ...], share: float, n_processes: int) -> Iterator[Findings]:
    """Run a share of the cases of each target, each in a separate process."""
    # Not forked: programs that were compiled and threads do not survive it.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_processes, context, max_tasks_per_child=1) as pool:
        counts = [max(1, round(share * door.cases)) for door in doors]
        yield from pool.map(run_door, doors, counts)


def _fast_folder() -> str | None:
    """Return a folder in memory, where there is one: disks are slow, and wear out."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
