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
from percdl.experiments.gait_fits import SFREQ, Walks, load_walks, n_per_group
from percdl.experiments.study import Line, Result, Study, lines
from percdl.plotting.style import COLORS, FAINT, SHARED, add_legend, label
from percdl.signals import Cohort
from percdl.signals.reconstruction import match_onsets
from percdl.transforms import TimeWarp

Cycles = Mapping[str, ArrayLike]

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
SMALL = {"textcoords": "offset points", "fontsize": 7}
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


def find_missed(kept: pd.DataFrame, cycles: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return for every cycle whether it is missed, and whether it is at an edge of the walking.

    Edges are the first and the last cycle, and the two next to the longest interval.
    """
    frames = []
    for walk, onsets in cycles.items():
        mine = kept.loc[kept["subject"] == walk, "onset_sample"]
        found = match_onsets(mine, onsets, TOLERANCE)[:, 1]
        order, edges = np.arange(len(onsets)), [0, len(onsets) - 1]
        if len(onsets) > 1:
            longest = int(np.diff(onsets).argmax())
            edges += [longest, longest + 1]
        columns = {"missed": ~np.isin(order, found), "at_edge": np.isin(order, edges)}
        frames.append(pd.DataFrame({"walk": walk, **columns}))
    return pd.concat(frames, ignore_index=True)


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
    settings = f"{len(walks.cohort)} walks, {SETTINGS}"
    rule = f"L = {PAPER_LENGTH}, activations under {PAPER_SHARE:.0%} of the mean dropped"
    tables = [table.assign(atom_length=x, certainty=kind) for (x, kind), table in curves.items()]
    return Result(
        [
            *lines(settings, _describe(curves, score, find_missed(kept, cycles))),
            Line(
                "sensitivity / false positives, the paper's rule",
                "{} / {}".format(*PAPER),
                f"{printed.sensitivity:.4f} / {printed.false_positives:.4f}",
                rule,
            ),
            *_describe_others(counts, halves),
        ],
        {
            "tab_gait_segmentation": pd.concat(tables, ignore_index=True),
            "tab_gait_segmentation_walks": counts.reset_index(),
            "tab_gait_segmentation_halves": halves,
        },
        {
            "tab_gait_segmentation": _draw_curves(curves, score),
            "tab_gait_segmentation_walk": _draw_turn(walks, events[LENGTH]),
        },
        "Edges of the walking are the first and the last cycle and the two next to the longest "
        "interval. Halves show that the choice of numbers matters little.",
    )


def _describe(
    curves: Mapping[tuple[int, str], pd.DataFrame], score: Segmentation, cycles: pd.DataFrame
) -> list[tuple[str, str, str]]:
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
    missed = cycles[cycles["missed"]]
    where = (
        f"{len(missed)} of {len(cycles)}, {missed['at_edge'].sum()} of them at an edge of the "
        f"walking, where {cycles['at_edge'].mean():.0%} of all cycles are"
    )
    return [
        ("sensitivity", f"{PAPER[0]}", f"{score.sensitivity:.4f}"),
        ("false positives per cycle", f"{PAPER[1]}", f"{score.false_positives:.4f}"),
        (voisard, f"{VOISARD[0]} (Voisard et al.)", at(VOISARD[1])),
        ("sensitivity at 0.012 false positives", "-", at(0.012)),
        ("timing error", "-", timing),
        ("cycles missed", "-", where),
    ]


def _describe_others(counts: pd.DataFrame, halves: pd.DataFrame) -> list[Line]:
    """Return what to expect of other walks."""
    low, high = resample(counts).quantile([0.025, 0.975]).to_numpy()
    interval = (
        f"sensitivity {low[0]:.4f} to {high[0]:.4f}, false positives {low[1]:.4f} to {high[1]:.4f}"
    )
    chosen = (
        f"{halves['sensitivity'].mean():.4f} / {halves['false_positives'].mean():.4f} "
        f"(worst {halves['sensitivity'].min():.4f} / {halves['false_positives'].max():.4f})"
    )
    quantity = "numbers chosen on half of the walks, measured on the others"
    return [
        Line("95 % interval over walks", "-", interval, "bootstrap, 2000 draws"),
        Line(quantity, "-", chosen, f"mean of {len(halves)} random halves"),
    ]


def _draw_curves(curves: Mapping[tuple[int, str], pd.DataFrame], score: Segmentation) -> Figure:
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


def _draw_turn(walks: Walks, events: pd.DataFrame) -> Figure:
    """Draw the walk around the weakest annotated step that was kept, and all that was judged."""
    judged = judge_events(events)
    walk, onset = _weakest_step(judged.assign(share=relative_amplitude(events)), walks)
    start, stop = max(onset - 500, 0), onset + 500
    figure, axes = panels((9, 3.6))
    ax = axes[0, 0]
    values = walks.cohort[walk].values[start:stop, 0]
    time = (start + np.arange(len(values))) / SFREQ
    ax.plot(time, values, color=SHARED, lw=1, label=f"walk {walk}")
    swings = walks.swings[walk] / SFREQ
    inside = swings[(swings[:, 0] >= time[0]) & (swings[:, 1] <= time[-1])]
    spans = np.column_stack([inside[:, 0], inside[:, 1] - inside[:, 0]])
    low, high = ax.dataLim.intervaly
    look = {"color": COLORS[5], "alpha": 0.25, "lw": 0, "label": "annotated swing"}
    ax.broken_barh(spans, (low, high - low), **look)
    judged = judged.query("subject == @walk and @start <= onset_sample <= @stop - @LENGTH")
    certain = judged["probability"] > PROBABILITY
    for part, name, tint, height in (
        (judged[certain], "kept, with its probability", COLORS[0], 1.1 * high),
        (judged[~certain], "dropped", COLORS[1], 1.25 * high),
    ):
        at = np.asarray(part["onset_sample"]) / SFREQ
        ax.hlines(np.full(len(at), height), at, at + LENGTH / SFREQ, color=tint, lw=3, label=name)
        for x, probability in zip(at, part["probability"], strict=True):
            ax.annotate(f"{probability:.2f}", (x, height), (0, 3), **SMALL)
    ax.set_xlim(time[0], time[-1])
    label(ax, "time (s)", "angular velocity (z-scored)")
    add_legend(ax, headroom=0.3, n_columns=4)
    return figure


def _weakest_step(judged: pd.DataFrame, walks: Walks) -> tuple[str, int]:
    """Return the walk and the onset of the weakest annotated step that was kept."""
    steps = []
    for walk, part in judged[judged["probability"] > PROBABILITY].groupby("subject"):
        true = walks.swings[str(walk)][:, 0]
        steps.append(part.iloc[match_onsets(part["onset_sample"], true, TOLERANCE)[:, 0]])
    weakest = pd.concat(steps).sort_values(["share", "subject", "onset_sample"]).iloc[0]
    return str(weakest["subject"]), int(weakest["onset_sample"])
