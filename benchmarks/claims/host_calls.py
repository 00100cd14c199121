"""The host makes few Python calls per recording: the work is done by compiled programs."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

from benchmarks.claims._claim import Claim, at_most

COUNTS = Path(__file__).resolve().parents[2] / "tests" / "host_calls.py"


def claims() -> Iterator[Claim]:
    """Count the calls of warm methods, with few and with many short recordings."""
    counts = runpy.run_path(str(COUNTS))
    few, many = counts["SIZES"]
    for method in counts["METHODS"]:
        python, builtin = counts["count_per_recording"](method)
        detail = f"{few} to {many} recordings; {builtin:.1f} calls of C functions"
        name = f"{method}: Python calls per recording"
        yield at_most(name, python, counts["MOST_CALLS"], detail)
