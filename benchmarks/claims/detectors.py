"""PerCDL finds gait cycles at least as well as a published step detector and as alphacsc.

150 walks, right foot, angular velocity in the sagittal plane; the annotation serves for scoring
only. PerCDL has the paper's settings (an atom of 100 samples) and `judge_events`, whose options
were chosen with these walks in view. gaitmap's BarthDtw has its defaults and one axis of its
template; for comparison, a curve over its largest cost.
alphacsc learns one atom of 100 samples from every fifth walk with its defaults; its activations
are judged by amplitude, by amplitude within the walk, and by `judge_events`, at thresholds over
their whole range, with several minimum distances. The best of all settings counts, selected with
the annotation: the choice of the distance alone moves its sensitivity from 0.5 to 0.97.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import Absent, detectors
from benchmarks.claims._claim import Claim, at_least, beside, is_quick, skipped
from benchmarks.cohorts import present
from percdl import Cohort, load_gait
from percdl.analysis import (
    judge_events,
    score_events,
    sensitivity_at,
    trace_trade_off,
)
from percdl.experiments.gait_segmentation import (
    LENGTH,
    PAPER_LENGTH,
    RHYTHM,
    TOLERANCE,
    Cycles,
    find_cycles,
    trace,
)

PYTHON = "PERCDL_DETECTORS"
DETECTOR, ANY_COST, ALPHACSC = "barth_dtw", "barth_dtw_any_cost", "alphacsc"
N_THRESHOLDS = 150
# Least distances between two activations of alphacsc, in samples.
DISTANCES = (50, 60, 70, 80, 90, 100)
ALLOWED = (0.004, 0.012, 0.033)


def claims() -> Iterator[Claim]:
    """Claim that PerCDL finds at least as many cycles with as many false positives."""
    data = present(load_gait)
    walks = data.cohort[: 12 if is_quick() else None]
    cycles = {walk: data.cycles[walk] for walk in walks.subjects}
    others = {}
    for kind in (DETECTOR, ANY_COST, ALPHACSC):
        try:
            others[kind] = detect(kind, walks.zscore() if kind == ALPHACSC else walks)
        except Absent as reason:
            yield skipped(f"gait cycles, PerCDL and {kind}", reason)
    if not others:
        return
    curves = {
        length: trace(find_cycles(walks.zscore(), length).events_, cycles, RHYTHM)
        for length in (PAPER_LENGTH, LENGTH)
    }
    if DETECTOR in others:
        yield from _compare_with_detector(others[DETECTOR], cycles, curves)
    if ANY_COST in others:
        theirs = _trace_all(others[ANY_COST], cycles)
        points = (f"{_best(theirs, most)[0]:.4f} at {most:g}" for most in ALLOWED)
        yield beside("BarthDtw, best threshold on its cost", ", ".join(points))
    if ALPHACSC in others:
        yield from _compare_with_alphacsc(others[ALPHACSC], cycles, curves)


def _compare_with_detector(
    events: pd.DataFrame, cycles: Cycles, curves: dict[int, pd.DataFrame]
) -> Iterator[Claim]:
    """Compare at the one point that a detector with a fixed decision has."""
    score = score_events(events, cycles, TOLERANCE)
    point = f"BarthDtw: {score.sensitivity:.4f} at {score.false_positives:.4f}"
    ours = {n: sensitivity_at(curve, score.false_positives) for n, curve in curves.items()}
    name = "sensitivity of PerCDL at the false positives of gaitmap's BarthDtw, less its own"
    detail = f"{ours[PAPER_LENGTH]:.4f}; {point}"
    yield at_least(name, ours[PAPER_LENGTH] - score.sensitivity, 0, detail)
    yield beside(f"PerCDL with an atom of {LENGTH} samples there", f"{ours[LENGTH]:.4f}")
    spread = f"{score.timing_spread:.1f} samples without the common lag"
    yield beside("timing error of BarthDtw", spread)


def _compare_with_alphacsc(
    events: pd.DataFrame, cycles: Cycles, curves: dict[int, pd.DataFrame]
) -> Iterator[Claim]:
    """Compare at several numbers of false positives."""
    theirs = {
        f"{how}, {distance} samples apart": curve
        for distance in DISTANCES
        for how, curve in _trace_all(_thin(events, distance), cycles).items()
    }
    for most in ALLOWED:
        best, how = _best(theirs, most)
        mine = sensitivity_at(curves[PAPER_LENGTH], most)
        yield at_least(
            f"sensitivity at {most:g} false positives, PerCDL less alphacsc",
            mine - best,
            0,
            f"{mine:.4f}; alphacsc {best:.4f}, {how}",
        )
        tuned = sensitivity_at(curves[LENGTH], most)
        yield beside(f"PerCDL with an atom of {LENGTH} samples there", f"{tuned:.4f}")


def _thin(events: pd.DataFrame, distance: int) -> pd.DataFrame:
    """Keep the strongest activations of each walk that are not too close to a stronger one."""
    kept: list[int] = []
    for rows in events.groupby("subject").indices.values():
        onsets, heights = (events[name].to_numpy()[rows] for name in ("onset_sample", "amplitude"))
        own: list[int] = []
        for i in np.argsort(-heights, kind="stable"):
            if all(abs(onsets[i] - onsets[j]) >= distance for j in own):
                own.append(i)
        kept += rows[own].tolist()
    return events.iloc[sorted(kept)].reset_index(drop=True)


def _trace_all(events: pd.DataFrame, cycles: Cycles) -> dict[str, pd.DataFrame]:
    """Return the trade-off by each kind of certainty, at thresholds over its whole range."""
    largest = events.groupby("subject")["amplitude"].transform("max")
    certainty = {
        "by amplitude": events["amplitude"],
        "by amplitude within the walk": events["amplitude"] / largest,
        "by judge_events": judge_events(events)["probability"],
    }
    shares = np.linspace(0, 1, N_THRESHOLDS)
    return {
        how: trace_trade_off(
            events, cycles, TOLERANCE, thresholds=np.quantile(score, shares), score=score
        )
        for how, score in certainty.items()
    }


def _best(curves: dict[str, pd.DataFrame], most: float) -> tuple[float, str]:
    """Return the best sensitivity with few false positives, and which curve has it."""
    return max((sensitivity_at(curve, most), how) for how, curve in curves.items())


def detect(kind: str, walks: Cohort) -> pd.DataFrame:
    """Run a detector in its own environment; return its events."""
    python = os.environ.get(PYTHON)
    if python is None:
        raise Absent(
            f"install alphacsc, gaitmap, gaitmap_mad and neurokit2 in an environment and set "
            f"{PYTHON} to its python"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "walks.npz"), Path(folder, "found.npz")
        np.savez(source, **{str(walk.subject): walk.values[:, 0] for walk in walks})
        command = [python, detectors.__file__, kind, str(source), str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Absent(f"{kind} did not run: {(done.stderr.splitlines() or ['?'])[-1]}")
        with np.load(target) as found:
            parts = [
                pd.DataFrame(
                    {"subject": s, "onset_sample": onset.astype(int), "amplitude": height}
                )
                for s, (onset, height) in found.items()
            ]
    return pd.concat(parts, ignore_index=True).assign(atom=0)
