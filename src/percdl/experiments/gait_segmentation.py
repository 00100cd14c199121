"""tab:gait_segmentation: gait cycles found, with one setting for all walkers.

Three things differ from the paper. The atom has 90 samples instead of 100, since atoms do not
overlap and one walker in twenty takes a cycle in less than a second. The first atom is chosen from
the data. And `judge_events` decides which activations to keep, not their amplitude.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from percdl.analysis import (
    Segmentation,
    judge_events,
    relative_amplitude,
    score_events,
    sensitivity_at,
    trace_trade_off,
)
from percdl.estimators import PerCDL
from percdl.estimators.base import BaseCDL
from percdl.experiments.fits import panels
from percdl.experiments.gait import load_walks, n_per_group
from percdl.experiments.study import Line, Result, Study, find, lines
from percdl.plotting.style import COLORS, FAINT, SHARED, label
from percdl.signals import Cohort
from percdl.transforms import TimeWarp

Cycles = Mapping[str, ArrayLike]
Curves = Mapping[tuple[int, str], pd.DataFrame]

TOLERANCE = 100
LENGTH, PAPER_LENGTH = 90, 100
PROBABILITY = 0.5
# Certainty of an activation: by amplitude alone, or by amplitude and rhythm.
AMPLITUDE, RHYTHM = "amplitude", "amplitude and rhythm"
# The trade-off is drawn where few cycles are lost: among the least certain activations.
LEAST_CERTAIN, N_THRESHOLDS = 0.12, 150
# Sensitivity and false positives per cycle.
PAPER, VOISARD = find("tab:gait_segmentation").paper.values()
# The paper drops activations below this share of the mean of all.
PAPER_SHARE = 0.02
SETTINGS = (
    f"K = 1, L = {LENGTH}, D = 4, W = 15, lambda = 0.01, RRY z-scored, first atom from the data, "
    f"judge_events: probability > {PROBABILITY}; tolerance {TOLERANCE} samples, one to one"
)
LOOKS = {
    (LENGTH, RHYTHM): {"color": COLORS[0], "lw": 2.2},
    (LENGTH, AMPLITUDE): {"color": COLORS[0], "ls": "--"},
    (PAPER_LENGTH, RHYTHM): {"color": COLORS[1], "lw": 2.2},
    (PAPER_LENGTH, AMPLITUDE): {"color": COLORS[1], "ls": "--"},
}


def find_cycles(cohort: Cohort, length: int = LENGTH) -> BaseCDL:
    """Fit z-scored walks, without annotations."""
    warp = TimeWarp(4, 15)
    return PerCDL(1, length, warp, penalty=0.01, random_state=0, progress=False).fit(cohort)


def keep_certain(events: pd.DataFrame, **options: float) -> pd.DataFrame:
    """Return the activations that are more likely than not to be events."""
    judged = judge_events(events, **options)
    return judged.loc[judged["probability"] > PROBABILITY]


def trace(events: pd.DataFrame, cycles: Cycles, kind: str) -> pd.DataFrame:
    """Return the trade-off of sensitivity and false positives."""
    by_amplitude = kind == AMPLITUDE
    score = relative_amplitude(events) if by_amplitude else judge_events(events)["probability"]
    thresholds = np.quantile(score, np.linspace(0, LEAST_CERTAIN, N_THRESHOLDS))
    return trace_trade_off(
        events, cycles, TOLERANCE, thresholds=thresholds, score=score.to_numpy()
    )


def count(events: pd.DataFrame, cycles: Cycles) -> pd.DataFrame:
    """Return, for each walk, cycles found, cycles annotated and detections."""
    scores = {
        walk: score_events(events.query("subject == @walk"), {walk: onsets}, TOLERANCE)
        for walk, onsets in cycles.items()
    }
    columns = ["n_found", "n_cycles", "n_detections"]
    rows = [[getattr(score, name) for name in columns] for score in scores.values()]
    return pd.DataFrame(rows, pd.Index(scores, name="walk"), columns)


def rates(counts: pd.DataFrame) -> tuple[float, float]:
    """Return sensitivity, and false positives per true cycle, of all walks together."""
    n_found, n_cycles, n_detections = counts.sum()
    return n_found / n_cycles, (n_detections - n_found) / n_cycles


def tab_gait_segmentation(study: Study) -> Result:
    """Fit the walks with two lengths of the atom, and score the cycles found."""
    walks = load_walks(n_per_group(study))
    cycles = {walk: swings[:, 0] for walk, swings in walks.swings.items()}
    events = {
        length: find_cycles(walks.cohort, length).events_ for length in (LENGTH, PAPER_LENGTH)
    }
    curves = {(length, kind): trace(events[length], cycles, kind) for length, kind in LOOKS}
    kept = keep_certain(events[LENGTH])
    score = score_events(kept, cycles, TOLERANCE)
    printed = score_events(events[PAPER_LENGTH], cycles, TOLERANCE, least_amplitude=PAPER_SHARE)
    counts = count(kept, cycles)
    tables = [table.assign(atom_length=x, certainty=kind) for (x, kind), table in curves.items()]
    numbers = {"": pd.concat(tables, ignore_index=True), "_walks": counts.reset_index()}

    def at(false_positives: float) -> str:
        both = (curves[LENGTH, kind] for kind in (RHYTHM, AMPLITUDE))
        ours, plain = (sensitivity_at(curve, false_positives) for curve in both)
        return f"{ours:.4f} (by amplitude alone: {plain:.4f})"

    voisard = f"sensitivity at the false positives of Voisard et al. ({VOISARD[1]})"
    timing = (
        f"{score.timing_error:.1f} samples; {score.timing_spread:.1f} once the common lag "
        f"({score.timing_lag:+.1f} samples) is removed"
    )
    found = [
        ("sensitivity", f"{PAPER[0]}", f"{score.sensitivity:.4f}"),
        ("false positives per cycle", f"{PAPER[1]}", f"{score.false_positives:.4f}"),
        (voisard, f"{VOISARD[0]} (Voisard et al.)", at(VOISARD[1])),
        ("sensitivity at 0.012 false positives", "-", at(0.012)),
        ("timing error", "-", timing),
    ]
    rule = "sensitivity / false positives, the paper's rule"
    both = f"{printed.sensitivity:.4f} / {printed.false_positives:.4f}"
    dropped = f"L = {PAPER_LENGTH}, activations under {PAPER_SHARE:.0%} of the mean dropped"
    plain = Line(rule, "{} / {}".format(*PAPER), both, dropped)
    answers = [*lines(f"{len(counts)} walks, {SETTINGS}", found), plain]
    return Result(answers, numbers, _draw_curves(curves, score))


def _draw_curves(curves: Curves, score: Segmentation) -> Figure:
    """Draw sensitivity against false positives, and the published points."""
    figure, axes = panels((7, 4.8))
    ax = axes[0, 0]
    for (length, kind), curve in curves.items():
        look, name = LOOKS[length, kind], f"PerCDL, L = {length}, by {kind}"
        ax.plot(curve["false_positives"], curve["sensitivity"], label=name, **look)
    ours = score.sensitivity, score.false_positives
    for name, (sensitivity, false_positives), marker, tint in (
        ("PerCDL, setting of this study", ours, "o", COLORS[0]),
        ("PerCDL, as the paper reports", PAPER, "D", SHARED),
        ("Voisard et al.", VOISARD, "s", SHARED),
    ):
        ax.plot(false_positives, sensitivity, marker, color=tint, ms=8, label=name)
    ax.set(xlim=(0, 0.04), ylim=(0.94, 1.001))
    ax.grid(color=FAINT, lw=0.5)
    label(ax, "false positives per true cycle", "sensitivity (share of true cycles found)")
    ax.legend(loc="lower right", fontsize="small", edgecolor="none")
    return figure
