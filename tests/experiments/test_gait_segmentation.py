"""Gait segmentation: counting and choosing, on walks whose steps are known."""

from types import SimpleNamespace

import pytest

pytest.importorskip("matplotlib")

import numpy as np
import pandas as pd

from percdl.analysis import score_events
from percdl.experiments import Study, gait, gait_segmentation
from percdl.experiments.gait_segmentation import (
    AMPLITUDE,
    RHYTHM,
    TOLERANCE,
    count,
    keep_certain,
    rates,
    trace,
)
from percdl.signals import Cohort

N_WALKS, N_STEPS, LAG = 4, 30, -15


def a_walk(seed):
    """Return the onsets of steps, of which some are weak, and activations, of which some are not
    steps.
    """
    rng = np.random.default_rng(seed)
    onsets = np.cumsum(rng.integers(110, 130, N_STEPS))
    strength = rng.uniform(0.8, 1.2, N_STEPS)
    strength[[9, 10, -1]] = 0.08
    bumps = np.array([onsets[4] + 60, onsets[14] + 55, onsets[-1] + 900])
    found = pd.DataFrame(
        {
            "subject": f"{seed}-1",
            "atom": 0,
            "onset_sample": np.concatenate([onsets + LAG, bumps]),
            "amplitude": np.concatenate([strength, [0.12, 0.1, 0.15]]),
        }
    )
    return onsets, found.sort_values("onset_sample")


@pytest.fixture(autouse=True)
def few_tries(monkeypatch):
    """Draw short curves."""
    monkeypatch.setattr(gait_segmentation, "N_THRESHOLDS", 25)


@pytest.fixture
def walks():
    """A handful of walks: the annotation, the activations, and the recordings."""
    onsets, found = zip(*map(a_walk, range(N_WALKS)), strict=True)
    names = [f"{seed}-1" for seed in range(N_WALKS)]
    swings = {n: np.column_stack([o, o + 50]) for n, o in zip(names, onsets, strict=True)}
    signals = [np.random.default_rng(0).standard_normal(o[-1] + 1200) for o in onsets]
    cohort = Cohort.from_arrays(signals, sfreq=100, subjects=names)
    return gait.Walks(cohort, swings), pd.concat(found, ignore_index=True)


@pytest.fixture
def cycles(walks):
    return {name: swings[:, 0] for name, swings in walks[0].swings.items()}


def test_counts_of_walks_add_up(walks, cycles):
    counts = count(walks[1], cycles)
    score = score_events(walks[1], cycles, TOLERANCE)
    assert counts.sum().tolist() == [score.n_found, score.n_cycles, score.n_detections]
    assert rates(counts) == (score.sensitivity, score.false_positives)


def test_a_walk_without_detections_counts(walks, cycles):
    events = walks[1]
    counts = count(events[events["subject"] != "2-1"], cycles)
    assert counts.loc["2-1"].tolist() == [0, N_STEPS, 0]


def test_rhythm_tells_weak_steps_from_stronger_bumps_and_amplitude_cannot(walks, cycles):
    assert rates(count(keep_certain(walks[1]), cycles)) == (1.0, 0.0)
    by_rhythm, by_amplitude = (trace(walks[1], cycles, kind) for kind in (RHYTHM, AMPLITUDE))
    flawless = [
        ((c["sensitivity"] == 1) & (c["false_positives"] == 0)).any()
        for c in (by_rhythm, by_amplitude)
    ]
    assert flawless == [True, False]


def test_the_label_says_what_was_found(walks, monkeypatch):
    monkeypatch.setattr(gait_segmentation, "load_walks", lambda n_members: walks[0])
    model = SimpleNamespace(events_=walks[1])
    monkeypatch.setattr(gait_segmentation, "find_cycles", lambda cohort, length: model)
    result = gait_segmentation.tab_gait_segmentation(Study())
    ours = {line.quantity: line.ours for line in result.lines}
    assert ours["sensitivity"] == "1.0000"
    assert ours["false positives per cycle"] == "0.0000"
    assert ours["timing error"].startswith(f"{-LAG:.1f} samples; 0.0")
    assert all(ax.get_legend_handles_labels()[1] for ax in result.figure.axes)
