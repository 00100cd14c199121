"""Two ways from the subjects to the common atoms: in closed form, or robustly (Appendix B).

S = 32 and K = 2 as in the paper's synthetic cohorts, with few cycles a subject and much noise, so
that parameters are badly estimated; started from the clean atoms of subject 0, penalty 12 times
the noise's variance, at least 0.01. Both variants fit the same cohorts.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.timing import follow
from percdl import Cohort, PerCDL, TimeWarp, make_synthetic
from percdl.algorithm import settings
from percdl.exceptions import NoActivationWarning
from percdl.experiments.fits import error_of_fit
from percdl.experiments.study import as_printed

N_SUBJECTS, CYCLES, NOISES = 32, (1, 2, 4, 8), (0.0, 0.1, 0.3)
# Not those on which the number of joint steps was chosen, 0 to 2 and 10 to 14.
SEEDS = range(20, 26)
ALGORITHMS: dict[str, dict[str, Any]] = {"default": {}, "as printed": as_printed()}
LOUD, STEPS = 0.3, (1, 2, 3, 5, 10, 40)
CLOSED, ROBUST = "closed-form", "robust"
# How much closer the robust variant has to be with most noise and few cycles, how much farther
# it may be without noise.
FEW, MOST_RATIO, MOST_LOSS = 2, 0.9, 1.1


def claims() -> Iterator[Claim]:
    """Compare the variants for every number of cycles and level of noise."""
    if is_quick():
        yield from judge(measure((1,), (0.0, 0.3), SEEDS[:1]))
        return
    yield from judge(measure())
    yield from _other_cases()


def judge(rows: pd.DataFrame) -> Iterator[Claim]:
    """Say what the rows of `measure` show."""
    by = ["algorithm", "noise", "cycles"]
    tables = {
        value: rows.pivot_table(index=by, columns="update", values=value, sort=False)
        for value in ("distance", "error", "objective")
    }
    for at, distance in tables["distance"].iterrows():
        algorithm, noise, n_cycles = at  # type: ignore[misc]
        error = tables["error"].loc[at]  # type: ignore[index]
        yield beside(
            f"{algorithm}, noise {noise:g}, {n_cycles} cycle(s): distance to the true atoms",
            f"closed form {distance[CLOSED]:.3f}, robust {distance[ROBUST]:.3f}; error of the "
            f"clean signals {error[CLOSED]:.3g}, {error[ROBUST]:.3g}",
        )
    for algorithm in ALGORITHMS:
        yield from _compare(algorithm, tables["distance"].loc[algorithm])
    lower = tables["objective"][CLOSED] < tables["objective"][ROBUST]
    yield beside("closed form reaches the lower objective", f"{lower.sum()} of {len(lower)} cases")


def measure(
    cycles: Sequence[int] = CYCLES,
    noises: Sequence[float] = NOISES,
    seeds: Sequence[int] = SEEDS,
) -> pd.DataFrame:
    """Return distance, error and objective, one row per cohort, algorithm and variant."""
    return pd.DataFrame(
        [
            {
                "algorithm": algorithm, "noise": noise, "cycles": n_cycles, "seed": seed,
                "update": update,
                **_score(n_cycles, noise, seed, **options, algorithm__update=update),
            }
            for n_cycles in follow(cycles, "cycles a subject")
            for noise in noises
            for seed in seeds
            for algorithm, options in ALGORITHMS.items()
            for update in (CLOSED, ROBUST)
        ]
    )  # fmt: skip


def _compare(algorithm: str, distance: pd.DataFrame) -> Iterator[Claim]:
    """Claim that robust is closer with much noise and few cycles, and hardly farther without."""
    ratio = (distance[ROBUST] / distance[CLOSED]).reset_index(name="ratio")
    name = "largest ratio of the distances, robust / closed form"
    loud = ratio[(ratio["noise"] == ratio["noise"].max()) & (ratio["cycles"] <= FEW)]
    label = f"{algorithm}, noise {ratio['noise'].max():g}, at most {FEW} cycles: {name}"
    yield at_most(label, float(loud["ratio"].max()), MOST_RATIO)
    calm = ratio[ratio["noise"] == 0]
    yield at_most(f"{algorithm}, no noise: {name}", float(calm["ratio"].max()), MOST_LOSS)


def _other_cases() -> Iterator[Claim]:
    """Report what more steps, more rounds and unequal recordings do, with one cycle and noise."""
    for n_steps in follow(STEPS, "joint steps"):
        with mock.patch.object(settings, "N_COPY_STEPS", n_steps):
            yield beside(f"one cycle, noise {LOUD}: robust, {n_steps} joint steps", _means(ROBUST))
    for update in (CLOSED, ROBUST):
        figure = _means(update, algorithm__personal_rounds=20)
        yield beside(f"one cycle, noise {LOUD}: {update}, 20 rounds in place of 5", figure)
    for update in (CLOSED, ROBUST):
        distances = [_unequal_distance(seed, update) for seed in SEEDS]
        yield beside(
            f"half with 8 cycles, half with one, noise {LOUD}: {update}",
            f"distance {np.mean(distances):.3f}",
        )


def _means(update: str, **options: Any) -> str:
    scores = pd.DataFrame(
        [_score(1, LOUD, seed, **options, algorithm__update=update) for seed in SEEDS]
    )
    return f"distance {scores['distance'].mean():.3f}, error {scores['error'].mean():.3g}"


def _unequal_distance(seed: int, update: str) -> float:
    half = N_SUBJECTS // 2
    parts = [
        make_synthetic(half, 60 + 120 * n, n_repetitions=n, noise_std=LOUD, random_state=rng)
        for n, rng in ((8, seed), (1, seed + 100))
    ]
    cohort = Cohort.from_arrays([record.values for part in parts for record in part.cohort])
    start = make_synthetic(1, random_state=seed).personal_dictionary[0]
    model = _fit(parts[0].transform, cohort, start, LOUD, algorithm__update=update)
    return parts[0].distance_to_truth(model.dictionary_)


def _score(n_cycles: int, noise: float, seed: int, **options: Any) -> dict[str, float]:
    shape = {"n_times": 60 + 120 * n_cycles, "n_repetitions": n_cycles, "random_state": seed}
    clean = make_synthetic(N_SUBJECTS, **shape)
    data = make_synthetic(N_SUBJECTS, noise_std=noise, **shape)
    start = clean.personal_dictionary[0]
    model = _fit(data.transform, data.cohort, start, noise, **options)
    return {
        "distance": data.distance_to_truth(model.dictionary_),
        "error": error_of_fit(model, data.cohort, clean.cohort),
        "objective": model.objective_,
    }


def _fit(
    transform: TimeWarp, cohort: Cohort, start: np.ndarray, noise: float, **options: Any
) -> PerCDL:
    model = PerCDL(
        2, 50, transform, max(0.01, 12 * noise**2), init=start, progress=False
    ).set_params(**options)
    with warnings.catch_warnings():
        # A subject that loses an atom in the noise is part of what is measured.
        warnings.simplefilter("ignore", NoActivationWarning)
        return model.fit(cohort)
