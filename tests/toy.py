"""A small synthetic cohort, and one call that runs the algorithm on it."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd

from percdl.algorithm.loop import CLEARLY, Outcome, run_percdl
from percdl.algorithm.settings import Settings
from percdl.algorithm.state import History
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort
from percdl.transforms import TimeWarp

LENGTH = 16
WARP = TimeWarp(depth=1, width=4)


def patterns(n_channels=1, length=LENGTH):
    """Return two atoms (2, L, P): two periods of a sine, and two unequal positive arcs."""
    time = np.linspace(0, 1, length)
    arcs = np.abs(np.sin(2 * np.pi * time)) * np.where(time < 0.5, 1, 0.3)
    scale = 1 + 0.5 * np.arange(n_channels)
    return np.stack([np.sin(4 * np.pi * time), arcs])[..., None] * scale


def recordings(seed, lengths, n_channels=1, noise=0.05):
    """Return arrays (n, P) made of the two atoms in turn, each subject with its own warps."""
    rng = np.random.default_rng(seed)
    atoms = patterns(n_channels)
    time = np.arange(LENGTH) / (LENGTH - 1)
    arrays = []
    for n in lengths:
        x = noise * rng.standard_normal((n, n_channels))
        bend = rng.uniform(-0.8, 0.8, 2)
        warped = time + bend[:, None] * np.sin(np.pi * time) / np.pi
        personal = [
            np.stack([np.interp(w, time, a) for a in atom.T], axis=1)
            for w, atom in zip(warped, atoms, strict=True)
        ]
        onset, turn = int(rng.integers(0, 4)), int(rng.integers(2))
        while onset + LENGTH <= n:
            x[onset : onset + LENGTH] += rng.uniform(0.7, 1.3) * personal[turn % 2]
            onset, turn = onset + LENGTH + int(rng.integers(0, 5)), turn + 1
        arrays.append(x)
    return arrays


def cycles(period, seed=0, n_times=600, n_channels=1, noise=0.1):
    """Return repetitions of a random smooth cycle, with random amplitudes, and noise."""
    rng = np.random.default_rng(seed)
    phase = np.arange(n_times)[:, None] / period
    harmonics = range(1, 4)
    weights = rng.uniform(0.3, 1, (3, n_channels)) * [[1.5], [0.8], [0.6]]
    offsets = rng.uniform(0, 1, (3, n_channels))
    x = sum(
        w * np.sin(2 * np.pi * (h * phase + o))
        for h, w, o in zip(harmonics, weights, offsets, strict=True)
    )
    loudness = rng.uniform(0.8, 1.2, n_times // 20 + 1).repeat(20)[:n_times, None]
    return x * loudness + noise * rng.standard_normal((n_times, n_channels))


def first_guess(seed, n_channels=1):
    """Return the two atoms, far from clean."""
    rng = np.random.default_rng(seed)
    atoms = patterns(n_channels)
    return atoms + 0.3 * rng.standard_normal(atoms.shape)


def settings(transform=WARP, n_channels=1, n_atoms=2, **options):
    """Return settings for the toy cohort, in double precision."""
    defaults = {"penalty": 0.3, "population_rounds": 2, "personal_rounds": 3, "dtype": "float64"}
    return Settings(transform, LENGTH, n_atoms, n_channels, **(defaults | options))


def fit(arrays, chosen, dictionary, chunk_rows=None, rows=()) -> tuple[Outcome, History]:
    """Run both phases in this process; ``rows`` are corrections."""
    cohort = Cohort.from_arrays(arrays).correct(corrections(*rows))
    runtime = InProcess(cohort, chosen, chunk_rows)
    history = History()
    return run_percdl(runtime, chosen, dictionary, history, ignore), history


def corrections(*rows):
    """Return a table of corrections: subject, onset in seconds, action, tolerance."""
    return pd.DataFrame(rows, columns=["subject", "onset", "action", "tolerance"])


def ignore(*_):
    """Report nothing."""


class Counting(InProcess):
    """A site that counts its rounds, and whose last ones report what they are told to.

    They explain more than the round before by ``gain`` times what is clear, for ``crowd`` times
    as many people.
    """

    def __init__(self, arrays, chosen, gain, crowd):
        super().__init__(Cohort.from_arrays(arrays), chosen)
        self.asked, self._gain, self._crowd = Counter(), gain, crowd

    def run_round(self, kind, broadcast):
        self.asked[kind] += 1
        sums = super().run_round(kind, broadcast)
        if kind != "express":
            self._reached = sums.objective
            return sums
        objective = self._reached - self._gain * CLEARLY * sums.signal
        return replace(sums, objective=objective, n_warps=self._crowd * sums.n_warps)
