"""Rates from 40 to 180 per minute in one cohort: all are right, or the person is flagged.

Simulated ECGs of one minute, 250 Hz, noise 5 % of the R wave, intervals that vary by 3 %. The
waves get closer as the rate rises: P and T by the square root of the interval, the QRS complex
stays. All settings are ``"auto"``. A rate is right if 60 over the median interval of a person's
events is within 2 % of the true one. Two cohorts: rates spread evenly, and one person at 125 among
15 at 55 to 75. The rules of the flags were written with these cohorts in view.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from percdl import Cohort, PerCDL
from percdl.analysis import measure_regularity
from percdl.exceptions import SuspectRecordingWarning

SFREQ, SECONDS, NOISE, VARIATION = 250, 60, 0.05, 0.03
SLOWEST, FASTEST, STEP = 40, 180, 4
CLOSE = 0.02
# P, Q, R, S, T: seconds from the R peak at 60 per minute, width and height.
WAVES = (
    (-0.16, 0.025, 0.12),
    (-0.025, 0.008, -0.12),
    (0.0, 0.010, 1.0),
    (0.025, 0.009, -0.2),
    (0.28, 0.045, 0.3),
)


def claims() -> Iterator[Claim]:
    """Claim that no wrong rate goes unmentioned."""
    cohorts = {
        "40 to 180 per minute": np.arange(SLOWEST, FASTEST + 1, 20 if is_quick() else STEP),
        "one at 125 among 15 at 55 to 75": np.append(np.linspace(55, 75, 15), 125),
    }
    for seed, (name, rates) in product(range(3), cohorts.items()):
        cohort, true = simulate(rates, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuspectRecordingWarning)
            model: Any = PerCDL(random_state=0, progress=False).fit(cohort)
        found = measure_regularity(model.events_, cohort, n_atoms=model.n_atoms_)
        cadence = found.groupby("subject", sort=False)["cadence"].max().to_numpy()
        wrong = ~(np.abs(cadence / true - 1) <= CLOSE)
        table = model.suspects_
        flagged = np.isin(cohort.subjects, table.loc[table["kind"] == "rate", "subject"])
        length, title = model.atom_length_ / SFREQ, f"rates, {name}, seed {seed}"
        detail = (
            f"{wrong.sum()} of {len(true)} wrong, {flagged.sum()} flagged; atom {length:.2f} s"
        )
        yield at_most(f"{title}: wrong and not flagged", (wrong & ~flagged).sum(), 0, detail)
        pairs = ", ".join(f"{true[i]:.0f}: {cadence[i]:.0f}" for i in np.flatnonzero(wrong))
        yield beside(f"{title}: true and found, where wrong", pairs or "none")


def simulate(rates: np.ndarray, seed: int = 0) -> tuple[Cohort, np.ndarray]:
    """Return ECGs at these rates, and 60 over the median of each one's intervals."""
    rng, time = np.random.default_rng(seed), np.arange(SECONDS * SFREQ) / SFREQ
    recordings, true = [], []
    for rate in rates:
        n_beats = int(SECONDS * rate / 60) + 3
        intervals = 60 / rate * (1 + VARIATION * rng.standard_normal(n_beats))
        peaks = np.cumsum(intervals) - 60 / rate
        values = NOISE * rng.standard_normal(len(time))
        for at, width, height in WAVES:
            shrink = np.sqrt(60 / rate) if abs(at) > 0.1 else 1.0
            centres = peaks + at * shrink
            values += height * np.exp(-((time[:, None] - centres) ** 2) / (2 * width**2)).sum(1)
        recordings.append(values)
        inside = (peaks[1:] < SECONDS) & (peaks[:-1] > 0)
        true.append(60 / np.median(np.diff(peaks)[inside]))
    subjects = [f"P{i}-{rate:.0f}" for i, rate in enumerate(rates)]
    return Cohort.from_arrays(recordings, sfreq=SFREQ, subjects=subjects), np.array(true)
