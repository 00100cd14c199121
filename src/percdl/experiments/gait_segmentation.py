"""tab:gait_segmentation: gait cycles found, with one setting for all walkers.

Three things differ from the paper. The atom has 90 samples instead of 100, since atoms do not
overlap and one walker in twenty takes a cycle in less than a second. The first atom is chosen from
the data. And `judge_events` decides which activations to keep, not their amplitude.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from percdl.analysis import (
    Segmentation,
    judge_events,
    relative_amplitude,
    score_segmentation,
    sensitivity_at,
    trace_trade_off,
)
from percdl.estimators import PerCDL
from percdl.estimators.base import BaseCDL
from percdl.experiments.fits import panels
from percdl.experiments.gait import load_walks, n_per_group
from percdl.experiments.study import Line, Result, Study, lines
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
# Alternatives to the defaults of `judge_events`, to see what choosing is worth.
CHOICES = {
    "even_share": (0.04, 0.05, 0.06, 0.07, 0.08, 0.1, 0.12),
    "spread": (0.2, 0.3, 0.4),
    "break_rate": (0.01, 0.02, 0.05),
}
# Sensitivity and false positives per cycle.
PAPER, VOISARD = (0.988, 0.033), (0.959, 0.004)
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


def find_unseen(cohort: Cohort, seed: int = 0) -> pd.DataFrame:
    """Return the activations of every walk under an atom learned from other walks."""
    order = np.random.default_rng(seed).permutation(len(cohort))
    first, second = (cohort[np.sort(half)] for half in np.array_split(order, 2))
    pairs = ((first, second), (second, first))
    return pd.concat([find_cycles(seen).personalize(unseen).events for seen, unseen in pairs])


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
        walk: score_segmentation(events.query("subject == @walk"), {walk: onsets}, TOLERANCE)
        for walk, onsets in cycles.items()
    }
    columns = ["n_found", "n_cycles", "n_detections"]
    rows = [[getattr(score, name) for name in columns] for score in scores.values()]
    return pd.DataFrame(rows, pd.Index(scores, name="walk"), columns)


def rates(counts: pd.DataFrame) -> tuple[float, float]:
    """Return sensitivity, and false positives per true cycle, of all walks together."""
    n_found, n_cycles, n_detections = counts.sum()
    return n_found / n_cycles, (n_detections - n_found) / n_cycles


def resample(counts: pd.DataFrame, n_draws: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Return both rates of cohorts drawn from these walks with replacement."""
    drawn = np.random.default_rng(seed).integers(len(counts), size=(n_draws, len(counts)))
    n_found, n_cycles, n_detections = counts.to_numpy()[drawn].sum(1).T
    false_positives = (n_detections - n_found) / n_cycles
    return pd.DataFrame({"sensitivity": n_found / n_cycles, "false_positives": false_positives})


def choose_on_halves(
    events: pd.DataFrame, cycles: Cycles, seeds: Sequence[int] = range(20)
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


def tab_gait_segmentation(study: Study) -> Result:
    """Fit the walks with two lengths of the atom, and score the cycles found."""
    walks = load_walks(n_per_group(study))
    cycles = {walk: swings[:, 0] for walk, swings in walks.swings.items()}
    events = {
        length: find_cycles(walks.cohort, length).events_ for length in (LENGTH, PAPER_LENGTH)
    }
    curves = {(length, kind): trace(events[length], cycles, kind) for length, kind in LOOKS}
    kept = keep_certain(events[LENGTH])
    score = score_segmentation(kept, cycles, TOLERANCE)
    printed = score_segmentation(events[PAPER_LENGTH], cycles, TOLERANCE, PAPER_SHARE)
    counts, halves = count(kept, cycles), choose_on_halves(events[LENGTH], cycles)
    tables = [table.assign(atom_length=x, certainty=kind) for (x, kind), table in curves.items()]
    return Result(
        _lines(curves, score, printed, counts, halves),
        {
            "": pd.concat(tables, ignore_index=True),
            "_walks": counts.reset_index(),
            "_halves": halves,
        },
        {"": _draw_curves(curves, score)},
        "Halves show that the choice of numbers matters little.",
    )


def _lines(
    curves: Curves,
    score: Segmentation,
    printed: Segmentation,
    counts: pd.DataFrame,
    halves: pd.DataFrame,
) -> list[Line]:
    def at(false_positives: float) -> str:
        ours, plain = (
            sensitivity_at(curves[LENGTH, kind], false_positives) for kind in (RHYTHM, AMPLITUDE)
        )
        return f"{ours:.4f} (by amplitude alone: {plain:.4f})"

    voisard = f"sensitivity at the false positives of Voisard et al. ({VOISARD[1]})"
    timing = (
        f"{score.timing_error:.1f} samples; {score.timing_spread:.1f} once the common lag "
        f"({score.timing_lag:+.1f} samples) is removed"
    )
    found, false = halves["sensitivity"], halves["false_positives"]
    mean = f"{found.mean():.4f} / {false.mean():.4f}"
    worst = f"{found.min():.4f} / {false.max():.4f}"
    low, high = resample(counts).quantile([0.025, 0.975]).to_numpy()
    interval = (
        f"sensitivity {low[0]:.4f} to {high[0]:.4f}, false positives {low[1]:.4f} to {high[1]:.4f}"
    )
    rule = "sensitivity / false positives, the paper's rule"
    both = f"{printed.sensitivity:.4f} / {printed.false_positives:.4f}"
    dropped = f"L = {PAPER_LENGTH}, activations under {PAPER_SHARE:.0%} of the mean dropped"
    chosen = "numbers chosen on half of the walks, measured on the others"
    return [
        *lines(
            f"{len(counts)} walks, {SETTINGS}",
            [
                ("sensitivity", f"{PAPER[0]}", f"{score.sensitivity:.4f}"),
                ("false positives per cycle", f"{PAPER[1]}", f"{score.false_positives:.4f}"),
                (voisard, f"{VOISARD[0]} (Voisard et al.)", at(VOISARD[1])),
                ("sensitivity at 0.012 false positives", "-", at(0.012)),
                ("timing error", "-", timing),
            ],
        ),
        Line(rule, "{} / {}".format(*PAPER), both, dropped),
        Line("95 % interval over walks", "-", interval, "bootstrap, 2000 draws"),
        Line(chosen, "-", f"{mean} (worst {worst})", f"mean of {len(halves)} random halves"),
    ]


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
