"""Whole gait cycles: both ends of each swing as landmarks, of people who were not fitted.

Every other walk is fitted, with activations of several lengths, and its annotations place the
landmarks. The limits hold for the other walks, of which nothing but the recordings is used.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick
from benchmarks.cohorts import present
from percdl import Cohort, L0Coder, PerCDL, TimeWarp, load_gait
from percdl.analysis import score_events
from percdl.datasets.gait import GaitData
from percdl.experiments.gait_segmentation import TOLERANCE, keep_certain

LARGEST_SPREAD, LEAST_SENSITIVITY, MOST_FALSE = 4.0, 0.988, 0.012
# Cycles of these walks last 0.94 to 1.94 s.
LENGTH, STRETCH, PENALTY = "1.1s", 1.6, 0.01
# Every swing has both ends, so next to no evidence of one is needed. Chosen on the fitted half.
LEVEL = 0.9
# A landmark within this many samples of an annotated end is that end.
NEAR = 50


def claims() -> Iterator[Claim]:
    """Carry the ends of swings to unseen people."""
    data = present(load_gait)
    cohort = data.cohort[: 20 if is_quick() else None].zscore()
    fitted, unseen = cohort[::2], cohort[1::2]
    model = PerCDL(
        1, LENGTH, TimeWarp(4, 15), PENALTY, coder=L0Coder(stretch=STRETCH), random_state=0,
        progress=False,
    ).fit(fitted)  # fmt: skip
    model.mark(None, 0, annotate(data, fitted), X=fitted)
    kept = keep_certain(model.personalize(unseen).events)
    cycles = {walk: data.cycles[walk] for walk in unseen.subjects}
    score = score_events(kept, cycles, TOLERANCE)
    size = f"{len(unseen)} walks, {score.n_cycles} cycles"
    yield at_least("sensitivity, unseen walks", score.sensitivity, LEAST_SENSITIVITY, size)
    yield at_most("false positives per true cycle", score.false_positives, MOST_FALSE)
    found = model.landmarks(unseen, events=kept, level=LEVEL).dropna(subset="sample")
    truth = annotate(data, unseen)
    for name in ("start", "end"):
        own, true = (x[x[column] == name] for x, column in ((found, "landmark"), (truth, "label")))
        result = score_events(own[["subject", "sample"]], true, NEAR)
        detail = f"mean {result.timing_bias:+.1f}; {result.timing_spread:.1f} mean distance "
        detail += f"without the lag; {result.sensitivity:.3f} within {NEAR}; s.d. within people "
        detail += f"{np.sqrt((result.table['timing_sd'] ** 2).median()):.1f} (median)"
        yield at_most(
            f"{name} of a swing, s.d. in samples", result.timing_sd, LARGEST_SPREAD, detail
        )
    lasted = kept.groupby("subject")["duration_samples"].median()
    period = pd.Series({walk: np.median(np.diff(x)) for walk, x in cycles.items() if len(x) > 1})
    share = (lasted / period).dropna()
    yield beside(
        "activation over cycle, deciles", f"{share.quantile(0.1):.2f}, {share.quantile(0.9):.2f}"
    )


def annotate(data: GaitData, walks: Cohort) -> pd.DataFrame:
    """Return the first and last sample of each swing of the right foot."""
    swings = {walk: data.swings[walk]["right"] for walk in walks.subjects}
    return pd.DataFrame(
        [
            (walk, int(sample), name)
            for walk, ends in swings.items()
            for pair in ends
            for sample, name in zip(pair, ("start", "end"), strict=True)
        ],
        columns=["subject", "sample", "label"],
    )
