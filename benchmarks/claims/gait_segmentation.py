"""Gait cycles are found without annotations: more than the paper's, with fewer false ones.

Every trial at hand counts, so that the same script judges trials that nobody has looked at yet.
The curve is the trade-off over the probability of `judge_events`; half-splits and people never
seen stand beside, since the setting was chosen with these 150 trials in view.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick
from benchmarks.cohorts import present
from percdl import load_gait
from percdl.analysis import score_segmentation, sensitivity_at
from percdl.experiments.gait_segmentation import (
    AMPLITUDE,
    PAPER_LENGTH,
    RHYTHM,
    TOLERANCE,
    choose_on_halves,
    count,
    find_cycles,
    find_unseen,
    keep_certain,
    rates,
    resample,
    trace,
)

LEAST_SENSITIVITY, MOST_FALSE = 0.988, 0.012
VOISARD_SENSITIVITY, VOISARD_FALSE = 0.959, 0.004


def claims() -> Iterator[Claim]:
    """Fit all walks, judge their activations and hold them against the annotation."""
    data = present(load_gait)
    cohort = data.cohort[: 20 if is_quick() else None].zscore()
    cycles = {walk: data.cycles[walk] for walk in cohort.subjects}
    events = find_cycles(cohort).events_
    kept = keep_certain(events)
    score = score_segmentation(kept, cycles, TOLERANCE)
    size = f"{len(cohort)} walks, {score.n_cycles} cycles"
    yield at_least("sensitivity", score.sensitivity, LEAST_SENSITIVITY, size)
    yield at_most("false positives per true cycle", score.false_positives, MOST_FALSE)
    curves = {kind: trace(events, cycles, kind) for kind in (RHYTHM, AMPLITUDE)}
    yield at_least(
        f"trade-off curve: sensitivity at {VOISARD_FALSE} false positives",
        sensitivity_at(curves[RHYTHM], VOISARD_FALSE),
        VOISARD_SENSITIVITY,
        "Voisard et al.: 0.959; stretch: 0.990",
    )
    for kind, curve in curves.items():
        yield beside(f"trade-off curve by {kind}", _describe(curve))
    yield beside(
        "timing error of the onsets, samples",
        f"mean {score.timing_error:.1f}; {score.timing_spread:.1f} without the common lag of "
        f"{score.timing_lag:+.1f}",
    )
    yield from _beyond_these_walks(cohort, cycles, events, count(kept, cycles))
    paper_wise = find_cycles(cohort, PAPER_LENGTH).events_
    for kind in (RHYTHM, AMPLITUDE):
        name = f"trade-off curve by {kind}, atom of {PAPER_LENGTH} samples"
        yield beside(name, _describe(trace(paper_wise, cycles, kind)))


def _beyond_these_walks(cohort, cycles, events, counts) -> Iterator[Claim]:
    """Say what to expect of other walks."""
    drawn = resample(counts)
    low, high = drawn.quantile(0.025), drawn.quantile(0.975)
    yield beside(
        "95 % intervals over walks (bootstrap)",
        ", ".join(f"{rate} {low[rate]:.4f} to {high[rate]:.4f}" for rate in drawn),
    )
    halves = choose_on_halves(events, cycles)
    for name, ending in (("numbers chosen on one half", ""), ("this setting", "_of_setting")):
        found, false = (halves[f"{rate}{ending}"] for rate in drawn)
        yield beside(
            f"{name}, measured on the other ({len(halves)} random halves)",
            f"{found.mean():.4f} at {false.mean():.4f}, worst {found.min():.4f} and "
            f"{false.max():.4f}",
        )
    unseen = count(keep_certain(find_unseen(cohort)), cycles)
    yield beside(
        "atom learned from half of the walks, cycles of the other half found with it",
        "{:.4f} at {:.4f}".format(*rates(unseen)),
    )


def _describe(curve: pd.DataFrame) -> str:
    points = (0.004, 0.006, 0.008, 0.012, 0.02)
    return ", ".join(f"{sensitivity_at(curve, most):.4f} at {most:g}" for most in points)
