"""Bad input of all kinds, a million cases: a valid result or a documented error."""

from __future__ import annotations

import os
from collections.abc import Iterator

from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick, skipped
from benchmarks.stress.fuzz.engine import Findings
from benchmarks.stress.fuzz.suite import DOORS, run_all
from benchmarks.timing import say

ENOUGH = 1_000_000


def claims() -> Iterator[Claim]:
    """Run all targets and look at what came of every case."""
    share = 1e-3 if is_quick() else 1.0
    here = tuple(door for door in DOORS if door.is_open)
    for door in DOORS:
        if door not in here:
            yield skipped(f"{door.module}.{door.kind}", f"{door.needs} is not installed")
    total, wrong, seconds = 0, 0, 0.0
    for found in run_all(here, share, n_processes=os.cpu_count() or 1):
        yield _claim(found)
        total += found.cases
        wrong += len(found.wrong)
        seconds += found.seconds
    yield at_most("undocumented outcomes in all", wrong, 0)
    yield at_least("cases in all", total, share * ENOUGH)
    yield beside("processor time in all", f"{seconds / 60:.1f} minutes")


def _claim(found: Findings) -> Claim:
    for what, content in found.wrong.items():
        say(f"{found.name}: {what}; the case is Choices(bytes.fromhex({content.hex()!r}))")
    detail = (
        f"{found.cases} cases, {found.cases / max(found.seconds, 1e-9):.0f} per second; "
        f"{found.accepted} accepted, refused at {len(found.refusals)} places; "
        f"{found.branches} branches seen, {found.kept} cases kept"
    )
    return at_most(f"{found.name}: undocumented outcomes", len(found.wrong), 0, detail)
