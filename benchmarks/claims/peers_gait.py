"""Other convolutional dictionary learning on gait: alphacsc, sporco and dicodile.

150 walks, right foot, sagittal angular velocity, z-scored; K = 1, L = 100. The others learn their
atom from the middle of every fifth walk, cut to the length of the shortest, with the settings of
their examples. All atoms are then found by the same exact coder (`PopCDL.find`, penalty 0.01) in
all walks: cycles within 100 samples (`judge_events`), and the error of the reconstruction with
amplitudes refitted. PerCDL and PopCDL learn from all walks. The sign of an atom is arbitrary: the
better one counts.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import Absent, dictionaries
from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick, skipped
from benchmarks.claims.detectors import PYTHON
from benchmarks.cohorts import present
from percdl import Cohort, PopCDL, load_gait
from percdl.analysis import score_events
from percdl.estimators.base import BaseCDL
from percdl.experiments.gait_segmentation import (
    PAPER_LENGTH,
    TOLERANCE,
    Cycles,
    find_cycles,
    keep_certain,
)

PEERS, EVERY, PENALTY = ("alphacsc", "sporco", "dicodile"), 5, 0.01


def claims() -> Iterator[Claim]:
    """Compare cycles and errors; times are ratios to a warm fit of PerCDL."""
    data = present(load_gait)
    walks = data.cohort[: 12 if is_quick() else None].zscore()
    cycles = {walk: data.cycles[walk] for walk in walks.subjects}
    find_cycles(walks, PAPER_LENGTH)
    began = time.perf_counter()
    model = find_cycles(walks, PAPER_LENGTH)
    seconds = time.perf_counter() - began
    f1, error = measure(model, walks, cycles)
    yield beside("PerCDL", f"cycles, F1 {f1:.4f}; error {error:.3f}; {seconds:.1f} s")
    common = PopCDL(1, PAPER_LENGTH, PENALTY, random_state=0, progress=False).fit(walks)
    own, error = measure(common, walks, cycles)
    yield beside("PopCDL, one atom for all as theirs", f"cycles, F1 {own:.4f}; error {error:.3f}")
    for name in PEERS:
        try:
            atom, took = learn(name, walks)
        except Absent as reason:
            yield skipped(name, reason)
            continue
        found = max(
            (measure(_find(sign * atom, walks), walks, cycles) for sign in (1, -1)),
            key=lambda pair: -pair[1],
        )
        detail = f"{found[0]:.4f}; its time {took / seconds:.2g} times ours"
        yield at_least(f"F1 of cycles, PerCDL less {name}", f1 - found[0], 0, detail)
        yield at_most(f"error, PopCDL over {name}", error / found[1], 1, f"{found[1]:.3f}")


def _find(atom: np.ndarray, walks: Cohort) -> BaseCDL:
    return PopCDL(penalty=PENALTY, init=atom[None, :, None], progress=False).find(walks)


def measure(model: BaseCDL, walks: Cohort, cycles: Cycles) -> tuple[float, float]:
    """Return the F1 of the cycles, and the normalized error of the reconstruction."""
    score = score_events(keep_certain(model.events_), cycles, TOLERANCE)
    return score.f1, 1 - model.score(walks)


def learn(name: str, walks: Cohort) -> tuple[np.ndarray, float]:
    """Return the atom of another package, and the seconds it took."""
    python = os.environ.get(PYTHON)
    if python is None:
        raise Absent(f"install {name} in an environment and set {PYTHON} to its python")
    some = [walk.values[:, 0] for walk in walks][::EVERY]
    shortest = min(map(len, some))
    middle = np.stack([x[(len(x) - shortest) // 2 :][:shortest] for x in some])
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, x=middle)
        command = [python, dictionaries.__file__, name, str(source), str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Absent(f"{name} did not run: {(done.stderr.splitlines() or ['?'])[-1]}")
        with np.load(target) as found:
            return found["atom"], float(found["seconds"])
