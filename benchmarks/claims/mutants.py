"""The fast tests notice nearly every small change of the mathematics.

All outcomes, with the changes and the tests that detected them, go to ``build/mutants.jsonl``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from benchmarks.claims._claim import Claim, at_least, beside, is_quick
from benchmarks.stress.mutants import ROOT, SURVIVED, TIMED_OUT, draw_mutants, hunt
from benchmarks.timing import say

N_MUTANTS, LEAST_NOTICED, SEED = 200, 85, 0
# Small files, whose own tests are quick.
SMALL = ("steps/ridge.py", "steps/windows.py")


def claims() -> Iterator[Claim]:
    """Draw mutants of the whole heart, or a few of small files; run the tests on each."""
    quick = is_quick()
    mutants = draw_mutants(2 if quick else N_MUTANTS, SEED, SMALL if quick else None)
    log = ROOT / "build" / "mutants.jsonl"
    ends: Counter[str] = Counter()
    for fate in hunt(mutants, os.cpu_count() or 1, log, own_tests_only=quick):
        ends[fate.how] += 1
        say(f"{fate.how}: {fate.mutant.file}, line {fate.mutant.line}\n{fate.change}")
    n_noticed = len(mutants) - ends[SURVIVED]
    yield at_least("mutants drawn at random from the heart", len(mutants), N_MUTANTS)
    yield at_least(
        "mutants that the fast tests notice, %",
        100 * n_noticed / len(mutants),
        LEAST_NOTICED,
        f"{n_noticed} of {len(mutants)}",
    )
    yield beside("of these by never coming to an end", str(ends[TIMED_OUT]))
