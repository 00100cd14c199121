"""No exact half-step raises the objective, on synthetic and on real recordings.

Warps have no prior here. With one, PerCDU minimizes the expected objective over the warps that are
still possible, and the objective at the warps themselves may rise; the rise is beside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import pandas as pd

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_most, beside, is_quick, skipped
from benchmarks.cohorts import Problem, gait, synthetic
from percdl import Algorithm

# Codes are refused where they are worse by more than this share of a recording's energy.
MOST_RISE = 1e-6
# The plain algorithm descends at every half-step, without centering, which changes the gauge;
# the cures look ahead instead, but the two dictionary updates stay exact.
PLAIN = {"algorithm": Algorithm(realign=False, multistart=False, centering="off")}
EVERY_STEP, UPDATES = ("CSC", "CDU", "IPU", "PerCDU"), ("CDU", "PerCDU")


def claims() -> Iterator[Claim]:
    """Look for rises in the history of fits in double precision."""
    yield from _descends(synthetic(8 if is_quick() else 64))
    try:
        yield from _descends(gait(4 if is_quick() else 150))
    except Absent as reason:
        yield skipped("gait", reason)


def _descends(problem: Problem) -> Iterator[Claim]:
    for name, changes, steps in (
        ("plain, every half-step", PLAIN, EVERY_STEP),
        ("default, dictionary updates", {}, UPDATES),
    ):
        what = f"{problem.name}, {name}: largest relative change of the objective"
        free = {"transformation": replace(problem.options["transformation"], prior=None)}
        model = problem.model(dtype="float64", **changes, **free).fit(problem.cohort)
        change, n_steps = _largest_change(model.history_, steps)
        size = f"{n_steps} half-steps, {len(problem.cohort)} recordings"
        yield at_most(what, change, MOST_RISE, size)
        model = problem.model(dtype="float64", **changes).fit(problem.cohort)
        yield beside(f"{what}, with a prior", f"{_largest_change(model.history_, steps)[0]:.2g}")


def _largest_change(history: pd.DataFrame, steps: Collection[str]) -> tuple[float, int]:
    """Return the largest relative change (below 0: a fall) made by the steps, and their number.

    The first step of a phase follows the last of the one before, whose codes it builds on.
    """
    change = history["objective"].diff() / history["objective"].shift()
    taken = history["step"].isin(steps) & change.notna()
    return float(change[taken].max()), int(taken.sum())
