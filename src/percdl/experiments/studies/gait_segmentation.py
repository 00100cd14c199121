"""How the gait cycles are found: one setting for all walkers, no annotation in the fit.

Three numbers differ from the paper's. The atom has 90 samples instead of 100, since atoms do not
overlap and one walker in twenty takes a cycle in less than a second. The first atom is chosen
from the data. And activations are not kept by amplitude but by `judge_events`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from percdl.analysis import judge_events, relative_amplitude, score_segmentation, trace_trade_off
from percdl.estimators import PerCDL
from percdl.signals import Cohort
from percdl.transforms import TimeWarp

Cycles = Mapping[str, ArrayLike]

TOLERANCE = 100
LENGTH, PAPER_LENGTH = 90, 100
PROBABILITY = 0.5
# How certain an activation is: by amplitude alone, or by amplitude and rhythm.
AMPLITUDE, RHYTHM = "amplitude", "amplitude and rhythm"
# The trade-off is drawn where few cycles are lost: among the least certain activations.
LEAST_CERTAIN, N_THRESHOLDS = 0.12, 150
# What could have been chosen instead of the setting, to see what choosing is worth.
CHOICES = {
    "even_share": (0.04, 0.05, 0.06, 0.07, 0.08, 0.1, 0.12),
    "spread": (0.2, 0.3, 0.4),
    "break_rate": (0.01, 0.02, 0.05),
}


def find_cycles(cohort: Cohort, length: int = LENGTH) -> PerCDL:
    """Fit the walks, which are z-scored, without annotations."""
    transform = TimeWarp(4, 15)
    model = PerCDL(1, length, transform, penalty=0.01, random_state=0, progress=False)
    model.fit(cohort)
    return model


def certainty(events: pd.DataFrame, kind: str) -> np.ndarray:
    """Return how certain each activation is."""
    if kind == AMPLITUDE:
        return relative_amplitude(events).to_numpy()
    return judge_events(events)["probability"].to_numpy()


def keep_certain(events: pd.DataFrame, **options: float) -> pd.DataFrame:
    """Return the activations that are events, more likely than not."""
    judged = judge_events(events, **options)
    return judged.loc[judged["probability"] > PROBABILITY]


def trace(events: pd.DataFrame, cycles: Cycles, kind: str) -> pd.DataFrame:
    """Return the trade-off of sensitivity and false positives."""
    score = certainty(events, kind)
    thresholds = np.quantile(score, np.linspace(0, LEAST_CERTAIN, N_THRESHOLDS))
    return trace_trade_off(events, cycles, TOLERANCE, thresholds=thresholds, score=score)


def count(events: pd.DataFrame, cycles: Cycles) -> pd.DataFrame:
    """Return, for each walk, cycles found, cycles annotated and detections."""
    detections = {str(walk): part for walk, part in events.groupby("subject")}
    rows = {}
    for walk, onsets in cycles.items():
        score = score_segmentation(detections.get(walk, events.head(0)), {walk: onsets}, TOLERANCE)
        rows[walk] = score.n_found, score.n_cycles, score.n_detections
    columns = ["n_found", "n_cycles", "n_detections"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("walk")


def rates(counts: pd.DataFrame) -> tuple[float, float]:
    """Return sensitivity, and false positives per true cycle, of all walks together."""
    n_found, n_cycles, n_detections = counts.sum()
    return n_found / n_cycles, (n_detections - n_found) / n_cycles


def resample(counts: pd.DataFrame, n_draws: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Return the two rates of cohorts drawn from these walks with replacement."""
    drawn = np.random.default_rng(seed).integers(len(counts), size=(n_draws, len(counts)))
    n_found, n_cycles, n_detections = counts.to_numpy()[drawn].sum(1).T
    return pd.DataFrame(
        {
            "sensitivity": n_found / n_cycles,
            "false_positives": (n_detections - n_found) / n_cycles,
        }
    )


def choose_on_halves(
    events: pd.DataFrame, cycles: Cycles, seeds: Sequence[int] = range(20)
) -> pd.DataFrame:
    """Choose the numbers of `judge_events` on half of the walks, and measure on the others.

    The choice is what loses and invents fewest cycles. One row per random half; beside it, what
    the setting itself reaches on the walks measured.
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
        chosen, kept = (rates(counts.iloc[unseen]) for counts in (counted[best], fixed))
        rows.append(
            {
                "seed": seed,
                **choices[best],
                "sensitivity": chosen[0],
                "false_positives": chosen[1],
                "sensitivity_of_setting": kept[0],
                "false_positives_of_setting": kept[1],
            }
        )
    return pd.DataFrame(rows)


def find_unseen(cohort: Cohort, seed: int = 0) -> pd.DataFrame:
    """Return the activations of every walk under an atom learned from other walks."""
    order = np.random.default_rng(seed).permutation(len(cohort))
    first, second = (cohort[np.sort(half)] for half in np.array_split(order, 2))
    pairs = ((first, second), (second, first))
    return pd.concat([find_cycles(seen).personalize(unseen).events for seen, unseen in pairs])
