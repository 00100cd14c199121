"""Fits and writers are killed (-9), at random moments and at disk operations, and resumed.

A file is the old one or the new one, a resumed fit gives the result of an uninterrupted one, bit
for bit, and no leftovers remain.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims._claim import Claim, at_least, at_most, is_quick
from benchmarks.stress.kill_tasks import make_short_tasks, make_tasks
from benchmarks.stress.kills import Tally, kill_all

N_KILLS = 210


def claims() -> Iterator[Claim]:
    """Kill, go on, compare."""
    n_kills = 6 if is_quick() else N_KILLS
    tallies = kill_all(make_short_tasks() if is_quick() else make_tasks(), n_kills)
    fits = [tally for tally in tallies if tally.is_fit]
    by_step, by_clock = sum(t.by_step for t in fits), sum(t.by_clock for t in fits)
    yield at_least(
        "fits killed (-9)",
        by_step + by_clock,
        n_kills if is_quick() else 200,
        f"{by_clock} at random moments, {by_step} at steps on disk; up to "
        f"{max(t.longest for t in fits)} kills of one fit",
    )
    for tally in tallies:
        yield _faults(tally)
        if not tally.is_fit:
            share = tally.n_cut / tally.n_steps
            detail = f"of {tally.n_steps}"
            yield at_least(
                f"{tally.name}: share of steps on disk it was killed at", share, 1, detail
            )


def _faults(tally: Tally) -> Claim:
    detail = (
        f"{tally.kills} kills, {tally.ends} runs to their end; one has {tally.n_steps} steps on "
        f"disk and takes {tally.seconds:.2g} s"
    )
    name = f"{tally.name}: files torn, results that differ in a bit, leftovers"
    return at_most(name, len(tally.faults), 0, "; ".join([detail, *tally.faults[:3]]))
