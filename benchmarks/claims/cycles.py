"""Every cycle: warps of single cycles, the meaning of the quality flag, and the cost.

Synthetic people repeat a pattern, each with a personal warp, and each cycle has a gain, a shift
and a small warp relative to its person's. The error of a cycle is the root mean square difference
of found and true delay, in samples, each without the mean of the person. The oracle knows the
common atom, the person's warp and the onsets, and has the same second level. All cycles are
ordinary, so every flag is a false alarm.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks import Absent, gpu
from benchmarks.claims._claim import Claim, at_most, between, is_quick, skipped
from percdl import Cohort, PerCDL, TimeWarp
from percdl.datasets.synthetic import common_patterns, draw_warps, personalize
from percdl.estimators.cycles import Cycles, find_cycles
from percdl.steps.cycles import delay_table

MOST, FALSE_ALARMS, SLOWEST = 1.2, 0.01, 1.0
LENGTH, N_REPETITIONS, N_SINES, WARP = 50, 20, 4, TimeWarp(3, 10)
NOISES, SEEDS = (0.02, 0.1, 0.2), (1, 2)
# Standard deviations: of a delay (in durations, falling with the order), and of the log gain.
WITHIN, GAIN = 0.015, 0.15
N_MANY, N_LEADS, MOST_SECONDS = 100_000, 12, 1.0


class Truth(NamedTuple):
    """Recordings, and everything they were made from; delays (E, L) in samples."""

    cohort: Cohort
    atom: np.ndarray
    params: np.ndarray
    events: pd.DataFrame
    delay: np.ndarray


def claims() -> Iterator[Claim]:
    """Claim errors close to the oracle's, false alarms as stated, and at most a warm fit."""
    n_subjects = 8 if is_quick() else 32
    flags = []
    for noise in NOISES:
        found, best = [], []
        for seed in SEEDS:
            truth = make(n_subjects, noise, seed)
            model, seconds = _fit(truth)
            known = find_cycles(model.personalization_, truth.cohort)
            found.append(error(known, truth))
            best.append(error(find_cycles(_oracle(model, truth), truth.cohort), truth))
            flags.append(known.table["flagged"].to_numpy())
        detail = f"{np.mean(found):.3f} samples, oracle {np.mean(best):.3f}"
        ratio = float(np.mean(found) / np.mean(best))
        yield at_most(
            f"cycles, noise {noise:g}: error over that of the oracle", ratio, MOST, detail
        )
    started = time.perf_counter()
    find_cycles(model.personalization_, truth.cohort)
    taken = time.perf_counter() - started
    detail = f"{taken:.2f} s for {len(known.table)} cycles, {seconds:.2f} s for a warm fit"
    yield at_most(
        "cycles: time of the second level over a warm fit", taken / seconds, SLOWEST, detail
    )
    share = float(np.concatenate(flags).mean())
    low, high = 0.5 * FALSE_ALARMS, 1.5 * FALSE_ALARMS
    yield between(f"cycles: false alarms at a stated {FALSE_ALARMS:g}", share, low, high)
    yield on_gpu()


def on_gpu() -> Claim:
    """Time the second level of many cycles of twelve leads on a GPU, the second time."""
    what = f"cycles: seconds for {N_MANY:,} cycles of {N_LEADS} leads on a GPU, warm"
    if not gpu.is_there():
        return skipped(what, Absent(gpu.NO_GPU))
    truth = make(-(-N_MANY // N_REPETITIONS), 0.1, 0)
    leads = np.repeat(np.stack([record.values for record in truth.cohort]), N_LEADS, axis=2)
    cohort = Cohort.from_arrays(leads.astype("float32"), sfreq=100.0)
    model = PerCDL(1, LENGTH, WARP, 0.5, init=truth.atom.repeat(N_LEADS, 2), progress=False)
    found = model.fit(cohort).personalization_
    for _ in range(2):
        started = time.perf_counter()
        cycles = find_cycles(found, cohort)
        taken = time.perf_counter() - started
    return at_most(what, taken, MOST_SECONDS, f"{len(cycles.table):,} cycles")


def make(n_subjects: int, noise: float, seed: int) -> Truth:
    """Make recordings of one pattern, the second of the paper's."""
    rng = np.random.default_rng(seed)
    atom = common_patterns(LENGTH)[1:]
    params = np.stack([0.5 * draw_warps(1, 3, 10, rng) for _ in range(n_subjects)])
    personal = personalize(WARP, params, atom)[:, 0, :, 0]
    table, samples = delay_table(LENGTH, N_SINES), np.arange(LENGTH)
    deviation = WITHIN * LENGTH / np.maximum(np.arange(N_SINES + 1), 1)
    x = noise * rng.standard_normal((n_subjects, N_REPETITIONS * (LENGTH + 15) + 20, 1))
    rows, delays = [], []
    for subject, (own, signal) in enumerate(zip(personal, x, strict=True)):
        onset = 5
        for _ in range(N_REPETITIONS):
            onset += int(rng.integers(3, 12))
            delay = (deviation * rng.standard_normal(N_SINES + 1)) @ table
            gain = np.exp(GAIN * rng.standard_normal())
            signal[onset : onset + LENGTH, 0] += gain * np.interp(samples - delay, samples, own)
            rows.append((str(subject), 0, onset, onset / 100, gain))
            delays.append(delay)
            onset += LENGTH
    names = ["subject", "atom", "onset_sample", "onset_seconds", "amplitude"]
    cohort = Cohort.from_arrays(x, sfreq=100.0, subjects=[str(s) for s in range(n_subjects)])
    return Truth(cohort, atom, params, pd.DataFrame(rows, columns=names), np.stack(delays))


def _fit(truth: Truth) -> tuple[PerCDL, float]:
    """Return a fitted model, and the seconds of a second, warm fit."""
    first = personalize(WARP, truth.params[:1], truth.atom)[0]
    model = PerCDL(1, LENGTH, WARP, 0.5, init=first, progress=False)
    model.fit(truth.cohort)
    started = time.perf_counter()
    model.fit(truth.cohort)
    return model, time.perf_counter() - started


def _oracle(model: PerCDL, truth: Truth):
    counts = np.full((len(truth.params), 1), N_REPETITIONS)
    return replace(
        model.personalization_, params=truth.params, events=truth.events, dictionary=truth.atom,
        n_activations=counts,
    )  # fmt: skip


def error(cycles: Cycles, truth: Truth) -> float:
    """Return the root mean square error of the delays of cycles that were found."""
    found = cycles.table.reset_index(names="row")[["subject", "onset_sample", "row"]]
    true = truth.events.reset_index(names="event")[["subject", "onset_sample", "event"]]
    both = true.merge(found, on="subject", suffixes=("", "_found"))
    late = both["onset_sample_found"] - both["onset_sample"]
    both = both[late.abs() <= LENGTH // 5]
    delay = cycles.own[both["row"], 1:] @ delay_table(LENGTH, cycles.own.shape[1] - 2)
    delay = delay + late[both.index].to_numpy()[:, None]
    missed = pd.DataFrame(delay - truth.delay[both["event"]])
    centred = missed - missed.groupby(both["subject"].to_numpy()).transform("mean")
    return float(np.sqrt((centred.to_numpy() ** 2).mean()))
