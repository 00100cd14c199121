"""100,000 records of 12 leads on disk are fitted in 2 GB of memory, each at the same cost.

About 5 GB of samples as float32, two and two rounds, two cores. The fit runs in a process of its
own, whose resident memory includes JAX and what it has compiled.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.cohorts import beats_on_disk
from benchmarks.timing import say

SIZES = (10_000, 100_000)
MOST_BYTES, MOST_RATIO = 2e9, 1.1


def claims() -> Iterator[Claim]:
    """Write cohorts of two sizes to disk and fit them."""
    costs = []
    for n_records in (1100, 2200) if is_quick() else SIZES:
        found = _fit(n_records)
        costs.append(found["seconds"] / n_records)
        detail = f"{found['bytes'] / 1e9:.2f} GB of shards, {found['seconds']:.0f} s"
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
    yield beside("a million records, by arithmetic", f"{1e6 * costs[1] / 3600:.1f} hours")


def _fit(n_records: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        say(f"writing {n_records} records")
        cohort = beats_on_disk(Path(folder), n_records)
        size = sum(shard.n_bytes for shard in cohort.shards)
        say(f"fitting {n_records} records")
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.shard_fit", folder],
            capture_output=True,
            text=True,
            check=True,
        )
    return {**json.loads(done.stdout.splitlines()[-1]), "bytes": size}
