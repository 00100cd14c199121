"""Bands that cover: common and personal atoms, one sample at a time and whole curves.

Cohorts are the paper's (two patterns of 50 samples, three repetitions each) with noise of standard
deviation 0.1, and three departures from the model: each cycle has its own pace, each person has
a personal shape, the noise is correlated. Library defaults with the true number and length of
atoms.

*Which truth.* An atom is known up to its scale and to a whole number of samples by which all its
onsets may be off. So a true curve is moved by the whole shift, and multiplied by the factor, that
brings it closest to the estimate. Nothing else is aligned:

- a common atom must cover the pattern that the population was drawn from, not that of the subjects
  at hand; the gauge's sampling error counts;
- a personal atom must cover the mean cycle of that person: its pace, its own shape, and the mean
  over the jitter of its cycles.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd

from benchmarks.claims._claim import Claim, between, is_quick
from benchmarks.timing import follow
from percdl import Cohort, PerCDL, make_synthetic
from percdl.analysis import Uncertainty, estimate_uncertainty
from percdl.datasets import SyntheticCohort, match_atoms

SIZES, N_SEEDS, LENGTH, NOISE, LEVEL = (30, 100), 30, 50, 0.1, 0.95
LIMITS = {"pointwise": (0.92, 0.98), "simultaneous": (0.90, 0.99)}
# Standard deviations of the sines of a cycle's own displacement, in durations: about a sample.
JITTER = np.array([0.02, 0.01, 0.005])
# Norm of a person's own shape, relative to the pattern, and the number of its sines.
OWN_SHAPE, N_SHAPE_SINES = 0.1, 6
CORRELATION = 0.7
MOST_SHIFT, N_MEAN = 5, 400
KINDS = ("noise", "cycle jitter", "own shape", "AR(1) noise")


def claims() -> Iterator[Claim]:
    """Fit all cohorts; count covered samples and curves."""
    seeds = range(200, 202 if is_quick() else 200 + N_SEEDS)
    for kind, n_subjects in product(KINDS, SIZES[:1] if is_quick() else SIZES):
        label = f"{kind}, S = {n_subjects}"
        found = pd.DataFrame([_coverage(kind, n_subjects, x) for x in follow(seeds, label)])
        for name, shares in found.items():
            error = shares.std() / np.sqrt(len(shares))
            _, band = name = str(name).split(", ")
            detail = f"{len(shares)} fits, +- {error:.3f}"
            yield between(f"{label}: {', '.join(name)}", shares.mean(), *LIMITS[band], detail)


def _coverage(kind: str, n_subjects: int, seed: int) -> dict[str, float]:
    """Fit one cohort; return the covered shares of samples and of curves."""
    cohort, common, personal = make_cohort(kind, n_subjects, seed)
    model = PerCDL(2, LENGTH, progress=False).fit(cohort)
    return measure(estimate_uncertainty(model, cohort), common, personal)


def measure(found: Uncertainty, common: np.ndarray, personal: np.ndarray) -> dict[str, float]:
    """Return the shares of samples and of curves that the bands cover."""
    order = match_atoms(found.dictionary, common)
    shares = {}
    for band in LIMITS:
        options = {"simultaneous": True} if band == "simultaneous" else {}
        for name, curves, (low, high) in (
            ("common", common, found.atom_band(LEVEL, **options)),
            ("personal", personal, found.personal_band(LEVEL, **options)),
        ):
            low, high = low[..., order, :, :], high[..., order, :, :]
            flat = (x.reshape(-1, LENGTH) for x in (curves, low, high))
            inside = np.array([_inside(*x) for x in zip(*flat, strict=True)])
            share = inside.mean() if band == "pointwise" else inside.all(1).mean()
            shares[f"{name}, {band}"] = float(share)
    return shares


def _inside(truth: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return which samples of a curve its band covers; none if there is no band."""
    estimate = (low + high) / 2
    if np.isnan(estimate).any():
        return np.zeros(len(truth), bool)
    padded = np.pad(truth, MOST_SHIFT)
    moved = np.stack([padded[i : i + len(truth)] for i in range(2 * MOST_SHIFT + 1)])
    moved *= (moved @ estimate / (moved**2).sum(1))[:, None]
    closest = moved[((moved - estimate) ** 2).sum(1).argmin()]
    return (low <= closest) & (closest <= high)


def make_cohort(kind: str, n_subjects: int, seed: int) -> tuple[Cohort, np.ndarray, np.ndarray]:
    """Return a cohort, the atoms of the population (K, L, P), and everyone's mean cycles."""
    data = make_synthetic(n_subjects, random_state=seed)
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    personal = np.array(data.personal_dictionary)
    if kind == "own shape":
        personal += _own_shapes(personal.shape, data.dictionary, rng)
    noise = rng.standard_normal((n_subjects, len(data.cohort[0].values)))
    if kind == "AR(1) noise":
        noise = _correlate(noise)
    mean = _jitter(personal, N_MEAN, rng).mean(0) if kind == "cycle jitter" else personal
    cycles = _place(data, personal, rng if kind == "cycle jitter" else None)
    return Cohort.from_arrays((cycles + NOISE * noise)[..., None]), data.dictionary, mean


def _place(data: SyntheticCohort, personal: np.ndarray, rng) -> np.ndarray:
    """Return recordings (S, N) of everyone's cycles, each with its own pace if ``rng``."""
    recordings = np.zeros((len(personal), len(data.cohort[0].values)))
    rows = {subject: s for s, subject in enumerate(data.cohort.subjects)}
    for event in data.events.itertuples():
        cycle = personal[rows[event.subject], event.atom]
        if rng is not None:
            cycle = _jitter(cycle, 1, rng)[0]
        recordings[rows[event.subject], event.onset_sample :][:LENGTH] += cycle[:, 0]
    return recordings


def _jitter(cycles: np.ndarray, n_draws: int, rng) -> np.ndarray:
    """Return cycles (..., L, 1) at paces drawn around their own, array (n, ..., L, 1)."""
    time = np.linspace(0, 1, LENGTH)
    sines = np.sin(np.pi * np.arange(1, len(JITTER) + 1)[:, None] * time)
    paces = time + (JITTER * rng.standard_normal((n_draws, len(JITTER)))) @ sines
    flat = cycles.reshape(-1, LENGTH)
    read = [[np.interp(pace, time, cycle) for cycle in flat] for pace in paces]
    return np.reshape(read, (n_draws, *cycles.shape))


def _own_shapes(shape: tuple[int, ...], dictionary: np.ndarray, rng) -> np.ndarray:
    """Return one smooth curve for each person and atom, of a tenth of the pattern's norm."""
    time = np.linspace(0, 1, LENGTH)
    sines = np.sin(np.pi * np.arange(1, N_SHAPE_SINES + 1)[:, None] * time)
    curves = (rng.standard_normal((*shape[:2], N_SHAPE_SINES)) @ sines)[..., None]
    curves /= np.linalg.norm(curves, axis=2, keepdims=True)
    return OWN_SHAPE * np.linalg.norm(dictionary, axis=1, keepdims=True) * curves


def _correlate(noise: np.ndarray) -> np.ndarray:
    """Return stationary AR(1) noise of unit variance from white noise (S, N)."""
    found = noise.copy()
    for i in range(1, noise.shape[1]):
        fresh = np.sqrt(1 - CORRELATION**2) * noise[:, i]
        found[:, i] = CORRELATION * found[:, i - 1] + fresh
    return found
