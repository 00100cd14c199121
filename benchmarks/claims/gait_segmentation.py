"""Gait cycles are found without annotations: more than the paper's, with fewer false ones.

Every available trial counts, so that the same script can judge new trials. The curve is the
trade-off over the probability of `judge_events`. Half-splits and new people are measured for
comparison, since the setting was chosen with these 150 trials in view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick
from benchmarks.cohorts import present
from percdl import load_gait
from percdl.analysis import score_events, sensitivity_at
from percdl.experiments.gait_segmentation import (
    AMPLITUDE,
    PAPER_LENGTH,
    RHYTHM,
    TOLERANCE,
    count,
    find_cycles,
    keep_certain,
    rates,
    trace,
)
from percdl.signals import Cohort

# Alternatives to the defaults of `judge_events`, to see what choosing is worth.
CHOICES = {
    "even_share": (0.04, 0.05, 0.06, 0.07, 0.08, 0.1, 0.12),
    "spread": (0.2, 0.3, 0.4),
    "break_rate": (0.01, 0.02, 0.05),
}
LEAST_SENSITIVITY, MOST_FALSE = 0.988, 0.012
VOISARD_SENSITIVITY, VOISARD_FALSE = 0.959, 0.004


def claims() -> Iterator[Claim]:
    """Fit all walks, judge their activations and hold them against the annotation."""
    data = present(load_gait)
    cohort = data.cohort[: 20 if is_quick() else None].zscore()
    cycles = {walk: data.cycles[walk] for walk in cohort.subjects}
    events = find_cycles(cohort).events_
    kept = keep_certain(events)
    score = score_events(kept, cycles, TOLERANCE)
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


def find_unseen(cohort: Cohort, seed: int = 0) -> pd.DataFrame:
    """Return the activations of every walk under an atom learned from other walks."""
    order = np.random.default_rng(seed).permutation(len(cohort))
    first, second = (cohort[np.sort(half)] for half in np.array_split(order, 2))
    pairs = ((first, second), (second, first))
    return pd.concat([find_cycles(seen).personalize(unseen).events for seen, unseen in pairs])


def resample(counts: pd.DataFrame, n_draws: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Return both rates of cohorts drawn from these walks with replacement."""
    drawn = np.random.default_rng(seed).integers(len(counts), size=(n_draws, len(counts)))
    n_found, n_cycles, n_detections = counts.to_numpy()[drawn].sum(1).T
    false_positives = (n_detections - n_found) / n_cycles
    return pd.DataFrame({"sensitivity": n_found / n_cycles, "false_positives": false_positives})


def choose_on_halves(
    events: pd.DataFrame, cycles: Mapping[str, ArrayLike], seeds: Sequence[int] = range(20)
) -> pd.DataFrame:
    """Choose the options of `judge_events` on half of the walks, and measure on the others.

    The best choice loses and invents fewest cycles. One row per random half, with the rates of the
    choice and those of the defaults on the walks measured.
    """
    choices = [dict(zip(CHOICES, values, strict=True)) for values in product(*CHOICES.values())]
    counted = [count(keep_certain(events, **choice), cycles) for choice in choices]
    fixed = count(keep_certain(events), cycles)
    rows = []
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(len(fixed))
        seen, unseen = np.array_split(order, 2)
        quality = [np.subtract(*rates(counts.iloc[seen])) for counts in counted]
        best = int(np.argmax(quality))
        row = {"seed": seed, **choices[best]}
        for counts, ending in ((counted[best], ""), (fixed, "_of_setting")):
            found = rates(counts.iloc[unseen])
            row |= {f"sensitivity{ending}": found[0], f"false_positives{ending}": found[1]}
        rows.append(row)
    return pd.DataFrame(rows)
