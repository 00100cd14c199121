"""Uncertainty: the rate of Theorem 1, and the coverage of bands.

*Given A and Z*: the paper's synthetic cohorts (K = 2, N = 500, L = 50, D = 3, W = 10) with noise.
*Whole fits*: cohorts with noise and one pattern with clear ends, since bands take the onsets as
known, ten repetitions each, about as many as a walk or an ECG has. For comparison, the paper's
cohorts, whose patterns begin and end at zero, and fewer repetitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
import numpy as np
import pandas as pd

from benchmarks.claims._claim import Claim, beside, is_quick
from benchmarks.timing import follow
from percdl import Cohort, PerCDL, TimeWarp, make_synthetic
from percdl.analysis import bootstrap_atoms, estimate_uncertainty
from percdl.datasets import SyntheticCohort, atom_distance
from percdl.datasets.synthetic import personalize
from percdl.experiments.growth import error_given_truth

NOISE, PENALTY, N_REPETITIONS = 0.1, 1.0, 3
# S p runs over two decades, from 30 to 3000.
SIZES, N_SEEDS, N_FITTED_SEEDS = (10, 32, 100, 320, 1000), 10, 3
SLOPE, SLOPE_TOLERANCE = -0.5, 0.05
N_COVERED, N_COVERED_SEEDS, LEVEL, LEVEL_TOLERANCE = 100, 100, 0.95, 0.02
LENGTH, BEND, N_EVENTS, FEW_EVENTS, N_DRAWS = 32, 0.3, 10, 4, 50


def claims() -> Iterator[Claim]:
    """Measure slopes and coverage."""
    quick = is_quick()
    yield from _rates(SIZES[:3] if quick else SIZES, 2 if quick else N_SEEDS)
    yield from _coverage(3 if quick else N_COVERED_SEEDS)


def _rates(sizes: Sequence[int], n_seeds: int) -> Iterator[Claim]:
    given, whole, paper = [], [], []
    for n_subjects in follow(sizes, "S ="):
        data = [_paper_cohort(n_subjects, seed) for seed in range(n_seeds)]
        given.append(np.mean([error_given_truth(d) for d in data]))
        few = data[: min(n_seeds, N_FITTED_SEEDS)]
        paper.append(np.mean([d.distance_to_truth(_fit_paper(d).dictionary_) for d in few]))
        whole.append(np.mean([_whole_error(n_subjects, seed) for seed in range(n_seeds)]))
    for name, errors, count in (
        ("A and Z given", given, N_REPETITIONS),
        ("whole fit", whole, N_EVENTS),
    ):
        slope, detail = _slope(sizes, errors, count)
        yield Claim(
            f"slope of the error against S p, {name}",
            f"{SLOPE:g} +- {SLOPE_TOLERANCE:g}",
            f"{slope:.3f} ({detail})",
            abs(slope - SLOPE) <= SLOPE_TOLERANCE,
        )
    slope, detail = _slope(sizes, paper, N_REPETITIONS)
    yield beside("the same, whole fit of the paper's cohorts", f"{slope:.3f} ({detail})")


def _whole_error(n_subjects: int, seed: int) -> float:
    truth = _Cohort(seed, n_subjects)
    return atom_distance(truth.fit().dictionary_, truth.dictionary)


def _slope(sizes: Sequence[int], errors: Sequence[float], count: int) -> tuple[float, str]:
    counts = count * np.asarray(sizes)
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    listed = ", ".join(f"{error:.2g}" for error in errors)
    return float(slope), f"S p = {counts[0]} to {counts[-1]}: {listed}"


def _paper_cohort(n_subjects: int, seed: int) -> SyntheticCohort:
    return make_synthetic(
        n_subjects, n_repetitions=N_REPETITIONS, noise_std=NOISE, random_state=seed
    )


def _fit_paper(data: SyntheticCohort) -> PerCDL:
    start = data.personal_dictionary[0]
    model = PerCDL(2, 50, data.transform, PENALTY, init=start, progress=False)
    return model.fit(data.cohort)


def _coverage(n_seeds: int) -> Iterator[Claim]:
    shares = [_covered(seed) for seed in follow(range(n_seeds), "coverage, seed")]
    table = pd.DataFrame(shares)
    for name in table.columns[:3]:
        share, error = table[name].mean(), table[name].std() / np.sqrt(n_seeds)
        yield Claim(
            f"nominal {LEVEL:.0%} bands of {name} cover",
            f"{LEVEL - LEVEL_TOLERANCE:.2f} to {LEVEL + LEVEL_TOLERANCE:.2f}",
            f"{share:.3f} ({n_seeds} whole fits of {N_COVERED} subjects, +- {error:.3f})",
            bool(abs(share - LEVEL) <= LEVEL_TOLERANCE),
        )
    few = pd.DataFrame([_covered(seed, FEW_EVENTS) for seed in range(-(-n_seeds // 5))])
    yield beside(
        f"the same with {FEW_EVENTS} repetitions: common, personal, warps",
        ", ".join(f"{few[name].mean():.3f}" for name in few.columns[:3]),
    )
    yield beside("noise level found / true", f"{table['sigma'].mean():.3f}")
    yield beside("standard error of the common atom, bootstrap / formula", _second_opinion())
    data = [_paper_cohort(N_COVERED, seed) for seed in range(min(n_seeds, N_FITTED_SEEDS))]
    found = np.mean([_paper_covered(d) for d in data], axis=0)
    yield beside(
        "coverage on the paper's cohorts, onsets ambiguous: common, personal",
        f"{found[0]:.3f}, {found[1]:.3f}",
    )


def _covered(seed: int, n_events: int = N_EVENTS) -> dict[str, float]:
    """Fit a cohort; return the share of samples that the bands cover."""
    truth = _Cohort(seed, N_COVERED, n_events)
    found = estimate_uncertainty(truth.fit(), truth.cohort)
    inner = slice(1, -1)  # the ends of a warp are fixed
    return {
        "common atoms": _share(found.atom_band(LEVEL), truth.dictionary),
        "personal atoms": _share(found.personal_band(LEVEL), truth.personal),
        "warps": _share([x[..., inner] for x in found.warp_band(LEVEL)], truth.warps[..., inner]),
        "sigma": found.sigma / NOISE,
    }


def _share(band: Sequence[np.ndarray], truth: np.ndarray) -> float:
    low, high = band
    return float(np.mean((low <= truth) & (truth <= high)))


def _paper_covered(data: SyntheticCohort) -> tuple[float, float]:
    found = estimate_uncertainty(_fit_paper(data), data.cohort)
    norm = np.linalg.norm(data.dictionary, axis=(1, 2), keepdims=True)
    common = _share(found.atom_band(LEVEL), data.dictionary / norm)
    return common, _share(found.personal_band(LEVEL), data.personal_dictionary / norm)


def _second_opinion() -> str:
    truth = _Cohort(0, N_COVERED)
    model = truth.fit()
    resampled = bootstrap_atoms(model, truth.cohort, N_DRAWS, random_state=0).atom_se
    formula = estimate_uncertainty(model, truth.cohort).atom_se
    ratio = np.sqrt(np.mean(resampled**2) / np.mean(formula**2))
    return f"{ratio:.2f} ({N_DRAWS} draws)"


class _Cohort:
    """Subjects who repeat one pattern, each at their own pace, and their truth."""

    def __init__(self, seed: int, n_subjects: int, n_events: int = N_EVENTS):
        rng = np.random.default_rng(seed)
        time = np.linspace(0, 1, LENGTH)
        pattern = np.cos(3 * np.pi * time) + 0.5 * np.sin(5 * np.pi * time)
        self.dictionary = (pattern / np.linalg.norm(pattern))[None, :, None]
        self.transform = TimeWarp(depth=2, width=3)
        params = rng.uniform(-BEND, BEND, (n_subjects, 1, 6))
        self.personal = personalize(self.transform, params, self.dictionary)
        with jax.enable_x64(True):
            self.warps = np.asarray(jax.jit(self._warp)(params))
        scale = np.linalg.norm(pattern)
        arrays = [_record(scale * atoms[0], n_events, rng) for atoms in self.personal]
        self.cohort = Cohort.from_arrays(arrays)

    def _warp(self, params):
        return self.transform.warp(params, LENGTH, 1)

    def fit(self) -> PerCDL:
        """Fit all of it, from the first subject's atom on."""
        start = self.personal[0]
        model = PerCDL(1, LENGTH, self.transform, PENALTY, init=start, progress=False)
        return model.fit(self.cohort)


def _record(atom: np.ndarray, n_events: int, rng: np.random.Generator) -> np.ndarray:
    """Return a recording of the atom, with gaps, amplitudes and noise."""
    signal, onset = np.zeros((n_events * (LENGTH + 16), 1)), 0
    for _ in range(n_events):
        onset += int(rng.integers(5, 15))
        signal[onset : onset + LENGTH] += rng.uniform(0.8, 1.2) * atom
        onset += LENGTH
    return signal + NOISE * rng.standard_normal(signal.shape)
