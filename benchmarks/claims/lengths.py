"""Cycles of different lengths: within a recording, and from person to person.

Within a recording: the generator and the scorer of the package `tsmd` (PVLDB 2025), with the
settings of its study of varying lengths: one pattern of about 100 samples, twenty times, noise
0.1. Of the eleven methods in that study the best reaches 0.69 over the same range. As they do,
the model is given the number of patterns and the range of lengths; `judge_events` says which
activations are events.

From person to person: simulated heartbeats between 40 and 180 per minute in one cohort.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick, skipped
from percdl import Cohort, L0Coder, PerCDL, PopCDL
from percdl.analysis import judge_events, measure_regularity

LEAST_F1, MOST_OFF = 0.90, 0.02
FLUCTUATIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
LENGTH, OVERLAP = 100, 0.5
RATES, SFREQ, SECONDS = np.linspace(40, 180, 15), 100, 30


def claims() -> Iterator[Claim]:
    """Find cycles whose length varies."""
    seeds = range(2 if is_quick() else 10)
    try:
        from tsmd.tools.metric import EventScore
        from tsmd.tools.synthetic_signal import Motif, SignalGenerator
    except ImportError:
        yield skipped("cycles of varying length", "tsmd is not installed: pip install tsmd")
    else:
        setattr(Motif, "_occurence_length", _draw_length)  # noqa: B010  (of another type)
        for share in FLUCTUATIONS:
            scores = [find_cycles(SignalGenerator, EventScore, share, seed) for seed in seeds]
            yield at_least(
                f"event F1 at overlap 0.5, lengths vary by {share:.0%}", float(np.mean(scores)),
                LEAST_F1, f"{len(scores)} seeds, worst {min(scores):.3f}",
            )  # fmt: skip
    cohort = simulate_hearts(0)
    model = PerCDL(1, "0.6s", coder=L0Coder(stretch=2.5), random_state=0).fit(cohort)
    found = measure_regularity(model.events_, cohort)["cadence"].to_numpy()
    off = np.abs(found / RATES - 1)
    yield at_most("rates of 40 to 180 per minute, largest error", float(off.max()), MOST_OFF)
    lasted = model.events_.groupby("subject", sort=False)["duration_samples"].median()
    share = lasted.to_numpy() / SFREQ * RATES / 60
    yield beside("activation over cycle, least and most", f"{share.min():.2f}, {share.max():.2f}")


def find_cycles(generator: type, scorer: type, share: float, seed: int) -> float:
    """Return the F1 of the events that are found in one simulated recording."""
    np.random.seed(seed)  # the generator draws from it
    made = generator(
        1, motif_length=LENGTH, motif_amplitude=4, motif_fundamental=4, sparsity=0.8,
        sparsity_fluctuation=0.5, length_fluctuation=share, exact_occurences=[20],
    )  # fmt: skip
    values, truth = made.generate()
    model = PopCDL(
        1, round(LENGTH * np.sqrt(1 - share**2)), random_state=seed,
        coder=L0Coder(stretch=float(np.sqrt((1 + share) / (1 - share)))),
    )  # fmt: skip
    events = judge_events(model.fit(Cohort.from_arrays([values[:, None]])).events_)
    events = events[events["probability"] > 0.5]
    mask = np.zeros((1, len(values)))
    for onset, duration in zip(events["onset_sample"], events["duration_samples"], strict=True):
        # Events that touch would be one to the scorer.
        mask[0, onset : onset + duration - 1] = 1
    return float(scorer().score(truth, mask, OVERLAP)[2]) if len(events) else 0.0


def _draw_length(_: object, fluctuation: float = 0.0) -> float:
    """Draw as tsmd does; its own array of one number is refused by NumPy 2.4."""
    return (2 * np.random.rand() - 1) * fluctuation


def simulate_hearts(seed: int) -> Cohort:
    """Return recordings of hearts that beat at different rates; beats scale with the rate."""
    rng, recordings = np.random.default_rng(seed), []
    for rate in RATES:
        lengths = SFREQ * 60 / rate * (1 + 0.03 * rng.standard_normal(6 * SECONDS))
        beats = np.concatenate([_beat(round(n)) for n in lengths])
        first = rng.integers(round(lengths[0]))
        values = beats[first : first + SFREQ * SECONDS]
        recordings.append(values[:, None] + 0.03 * rng.standard_normal((len(values), 1)))
    return Cohort.from_arrays(recordings, sfreq=SFREQ)


def _beat(n_samples: int) -> np.ndarray:
    """Return P wave, QRS complex and T wave."""
    time = np.linspace(0, 1, n_samples)
    waves = ((0.2, 0.04, 0.2), (0.38, 0.012, -0.15), (0.4, 0.012, 1.0), (0.42, 0.012, -0.25),
             (0.7, 0.06, 0.35))  # fmt: skip
    return sum(
        (height * np.exp(-(((time - at) / width) ** 2)) for at, width, height in waves),
        np.zeros(n_samples),
    )
