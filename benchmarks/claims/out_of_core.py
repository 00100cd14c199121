"""100,000 records of 12 leads on disk are fitted in 2 GB of memory, each at the same cost.

About 5 GB of samples as float32, two and two rounds, two cores. The fit runs in a separate
process, whose resident memory includes JAX and compiled programs. If possible, the kernel caps the
memory of that process, pages of files included. Cost is processor time.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.capped import run_capped
from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.cohorts import beats_on_disk
from benchmarks.timing import say

SIZES = (10_000, 100_000)
MOST_BYTES, MOST_RATIO = 2_000_000_000, 1.1
# Number of records that are also fitted in memory, and whose states are measured.
N_COMPARED = 2048


def claims() -> Iterator[Claim]:
    """Write cohorts of two sizes to disk and fit them."""
    costs = []
    for n_records in (1100, 2200) if is_quick() else SIZES:
        found = _fit(n_records)
        costs.append(found["cpu_seconds"] / n_records)
        cap = "capped by the kernel" if found["capped"] else "not capped here"
        detail = f"{found['bytes'] / 1e9:.2f} GB of shards, {found['seconds']:.0f} s, {cap}"
        yield at_most(
            f"{n_records} records: peak of the resident memory, GB",
            found["peak_bytes"] / 1e9,
            MOST_BYTES / 1e9,
            detail,
        )
    yield at_most(
        "cost of a record, the larger cohort over the smaller",
        costs[1] / costs[0],
        MOST_RATIO,
        ", ".join(f"{1e3 * cost:.2f} ms" for cost in costs),
    )
    hours = 1e6 * costs[1] / 3600
    yield beside("a million records, by arithmetic", f"{hours:.1f} hours of one core")
    yield from _against_memory(256 if is_quick() else N_COMPARED)


def _against_memory(n_records: int) -> Iterator[Claim]:
    """Compare with a fit in memory; weigh the states that a fit keeps on disk."""
    found = _fit(n_records, "--memory")
    ratio = found["cpu_seconds"] / found["memory_cpu_seconds"]
    yield beside(f"{n_records} records: cost from shards over that in memory", f"{ratio:.2f}")
    share = found["state_bytes"] / found["bytes"]
    yield beside(f"{n_records} records: states over shards, bytes", f"{share:.2f}")


def _fit(n_records: int, *options: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        say(f"writing {n_records} records")
        cohort = beats_on_disk(Path(folder), n_records)
        size = sum(shard.n_bytes for shard in cohort.shards)
        say(f"fitting {n_records} records")
        command = [sys.executable, "-m", "benchmarks.shard_fit", folder, *options]
        printed, capped = run_capped(command, MOST_BYTES)
    return {**json.loads(printed.splitlines()[-1]), "bytes": size, "capped": capped}
