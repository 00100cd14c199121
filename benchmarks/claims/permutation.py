"""Group tests: rate of false alarms, and power.

*Null experiments*: people of one population, split into two groups at random. *Power*: two groups
whose paces vary alike, one of which runs faster through a fifth of the cycle. All tests at level
5%, with 100 permutations, of which exactly five may be as extreme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pandas as pd

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_least, beside, between, is_quick, skipped
from benchmarks.claims._speed_up import (
    GROUP_SIZES,
    LEVEL,
    N_FITTED,
    N_PERMUTATIONS,
    N_REPEATS,
    SIZES,
    fit_and_compare,
    measure_power,
    smooth_curves,
)
from benchmarks.cohorts import present
from benchmarks.timing import follow, say
from percdl import PerCDL, TimeWarp, load_gait, make_synthetic
from percdl.analysis import (
    compare_groups,
    compare_parameters,
    regress,
    separate_effects,
)
from percdl.analysis.permutation import critical_value, permute_clusters

LEAST, MOST, N_NULL, N_COMPARED = 0.03, 0.07, 1000, 400
HALVES = ["a"] * 20 + ["b"] * 20
Experiment = Callable[[np.random.Generator], float]


def claims() -> Iterator[Claim]:
    """Count false alarms, then true ones."""
    n_null = 40 if is_quick() else N_NULL
    for name, experiment in NULLS.items():
        yield from _false_alarms(name, experiment, n_null)
    yield from _compare_false_alarms(n_null)
    yield from _power(20 if is_quick() else N_REPEATS)
    yield from _whole_fits(1 if is_quick() else 3)


def _false_alarms(name: str, experiment: Experiment, n_null: int) -> Iterator[Claim]:
    say(f"null: {name}")
    title = f"false-positive rate at nominal 5%, {name}"
    try:
        rate, detail = _rate(experiment, n_null)
    except Absent as reason:
        yield skipped(title, reason)
    else:
        yield between(title, rate, LEAST, MOST, detail)


def _rate(experiment: Experiment, n_null: int) -> tuple[float, str]:
    p_values = [experiment(np.random.default_rng([seed, n_null])) for seed in range(n_null)]
    rate = float(np.mean(np.array(p_values) <= LEVEL))
    error = np.sqrt(LEVEL * (1 - LEVEL) / n_null)
    return rate, f"{n_null} null experiments, +- {error:.3f}"


def null_curves(rng: np.random.Generator) -> float:
    """Compare halves of 40 people with two smooth curves each."""
    curves = smooth_curves(rng, 40, 2).swapaxes(1, 2)
    return compare_groups(curves, HALVES, n_permutations=N_PERMUTATIONS).p_value


def null_three_groups(rng: np.random.Generator) -> float:
    """Compare three groups of different sizes."""
    groups = np.repeat(["a", "b", "c"], [10, 15, 20])
    return compare_groups(smooth_curves(rng, 45), groups, n_permutations=N_PERMUTATIONS).p_value


def null_spreads(rng: np.random.Generator) -> float:
    """Compare few people who vary much with many who vary little, with the same mean."""
    curves, groups = _unequal_spreads(rng)
    return compare_groups(curves, groups, n_permutations=N_PERMUTATIONS).p_value


def null_timing(rng: np.random.Generator) -> float:
    """Compare halves of 40 people of a fitted cohort by their speed."""
    curves = fitted_curves()[0]
    return _split(curves[rng.permutation(len(curves))[:40]])


def null_amplitude(rng: np.random.Generator) -> float:
    """Compare them by their amplitude."""
    curves = fitted_curves()[1]
    return _split(curves[rng.permutation(len(curves))[:40]])


def null_gait(rng: np.random.Generator) -> float:
    """Compare halves of healthy walkers by their speed."""
    curves = walkers()
    return _split(curves[rng.permutation(len(curves))])


def null_parameters(rng: np.random.Generator) -> float:
    """Compare 30 correlated parameters, each by itself, corrected."""
    return _parameters(rng).p_adjusted.min()


def null_omnibus(rng: np.random.Generator) -> float:
    """Compare the same parameters together."""
    return _parameters(rng).omnibus_p


def null_adjusted_parameters(rng: np.random.Generator) -> float:
    """Test groups of different age for what age does not explain of 30 parameters."""
    people, effect = _aged(rng)
    values = smooth_curves(rng, 40)[:, ::2] + effect
    return regress(values, people, n_permutations=N_PERMUTATIONS).tests["group"].p_value


def null_adjusted_curves(rng: np.random.Generator) -> float:
    """Test groups of different age for what age does not explain of their curves."""
    people, effect = _aged(rng)
    found = regress(
        smooth_curves(rng, 40) + effect, people, along_cycle=True, n_permutations=N_PERMUTATIONS
    )
    return found.tests["group"].p_value


NULLS: dict[str, Experiment] = {
    "smooth curves, two channels, 20 + 20": null_curves,
    "smooth curves, three groups of 10, 15 and 20": null_three_groups,
    "speed from fitted warps, synthetic, 20 + 20": null_timing,
    "amplitude from fits, synthetic, 20 + 20": null_amplitude,
    "speed from fitted warps, healthy gait, halves": null_gait,
    "30 parameters, largest statistic": null_parameters,
    "30 parameters, omnibus": null_omnibus,
    "group adjusted for age, 30 parameters": null_adjusted_parameters,
    "group adjusted for age, smooth curves": null_adjusted_curves,
}


def _split(curves: np.ndarray) -> float:
    groups = np.arange(len(curves)) < len(curves) // 2
    return compare_groups(curves, groups, n_permutations=N_PERMUTATIONS).p_value


def _parameters(rng: np.random.Generator):
    return compare_parameters(
        smooth_curves(rng, 40)[:, ::2], HALVES, n_permutations=N_PERMUTATIONS
    )


def _unequal_spreads(rng: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    curves = smooth_curves(rng, 60)
    curves[:15] *= 2
    return curves, ["a"] * 15 + ["b"] * 45


def _aged(rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Return groups that differ in age by two standard deviations, and what age does."""
    people = pd.DataFrame({"group": HALVES, "age": rng.normal(50, 10, 40)})
    people.loc[people["group"] == "b", "age"] += 20
    return people, 0.05 * people[["age"]].to_numpy()


@cache
def fitted_curves() -> tuple[np.ndarray, np.ndarray]:
    """Return speed and amplitude (S, L) of the first atom in a fitted synthetic cohort."""
    truth = make_synthetic(120, noise_std=0.1, random_state=0)
    start = truth.personal_dictionary[0]
    model = PerCDL(2, 50, truth.transform, 1.0, init=start, progress=False).fit(truth.cohort)
    effects = separate_effects(model, truth.cohort)
    return effects.timing[:, 0, 0], effects.amplitude[:, 0, :, 0]


@cache
def walkers() -> np.ndarray:
    """Return the speed (S, L) of healthy walkers, one trial each."""
    data = present(load_gait)
    people = data.metadata.drop_duplicates("Subject")
    codes = [str(code) for code in people.index[people["PathologyGroup"] == "Healthy"]]
    cohort = data.cohort.select(codes).zscore()
    onset = data.cycles[codes[0]][3]
    start = cohort[0].values[None, onset : onset + 100]
    model = PerCDL(1, 100, TimeWarp(3, 8), 0.01, init=start, progress=False).fit(cohort)
    return separate_effects(model, cohort).timing[:, 0, 0]


def _compare_false_alarms(n_null: int) -> Iterator[Claim]:
    """Measure what is not exact, and what is avoided."""
    n = min(n_null, N_COMPARED)
    spreads = "15 people who vary twice as much as the other 45"
    for name, experiment in {
        f"{spreads}: not exchangeable, though the means are alike": null_spreads,
        f"{spreads}, Student's t instead of Welch's": _null_student,
        "rough curves, both tails as MNE offers them": _null_both_tails,
    }.items():
        say(f"for comparison: {name}")
        rate, detail = _rate(experiment, n)
        yield beside(f"false-positive rate, {name}", f"{rate:.3f} ({detail})")


def _null_student(rng: np.random.Generator) -> float:
    curves, _ = _unequal_spreads(rng)
    found = permute_clusters(
        [curves[:15, :, None], curves[15:, :, None]],
        _student,
        critical_value(LEVEL, 1, 58),
        two_sided=True,
        n_permutations=N_PERMUTATIONS,
        random_state=0,
    )
    return min((cluster.p_value for cluster in found), default=1.0)


def _null_both_tails(rng: np.random.Generator) -> float:
    import mne

    curves = rng.standard_normal((40, 120))
    with mne.use_log_level("ERROR"):
        p_values = mne.stats.permutation_cluster_test(
            [curves[:20], curves[20:]], critical_value(LEVEL, 1, 38), N_PERMUTATIONS, 0,
            lambda *parts: _student(*(part.T for part in parts)), buffer_size=None, seed=0,
        )[2]  # fmt: skip
    return min(p_values, default=1.0)


def _student(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    n, m = first.shape[-1], second.shape[-1]
    pooled = (n - 1) * first.var(-1, ddof=1) + (m - 1) * second.var(-1, ddof=1)
    error = np.sqrt(pooled / (n + m - 2) * (1 / n + 1 / m))
    return (first.mean(-1) - second.mean(-1)) / np.where(error > 0, error, 1)


def _power(n_repeats: int) -> Iterator[Claim]:
    table = measure_power(n_repeats)
    still = table[table["size"] == 0]
    n_still = int(still["n"].sum())
    yield between(
        "power for a speed-up of size 0 is the level",
        float(np.average(still["power"], weights=still["n"])),
        LEAST,
        MOST,
        f"{n_still} experiments, +- {np.sqrt(LEVEL * (1 - LEVEL) / n_still):.3f}",
    )
    for members, part in table.groupby("members"):
        powers = part.sort_values("size")["power"].to_numpy()
        covered = ", ".join(f"{x:.2f}" for x in part["covered"].iloc[1:])
        figures = ", ".join(f"{x:.2f}" for x in powers)
        faster = ", ".join(f"{np.expm1(x):.0%}" for x in SIZES)
        yield beside(
            f"power, {members} + {members} people, faster by {faster}",
            f"{figures}; share of the region covered: {covered}",
        )
        yield at_least(
            f"least growth of the power from size to size, {members} + {members} people",
            float(np.diff(powers).min()),
            -0.05,
        )
    largest = table[(table["size"] == SIZES[-1]) & (table["members"] == GROUP_SIZES[-1])].iloc[0]
    setting = f"{GROUP_SIZES[-1]} + {GROUP_SIZES[-1]} people, {np.expm1(SIZES[-1]):.0%} faster"
    yield at_least(f"power, {setting}", float(largest["power"]), 0.95)
    yield at_least(
        f"share of the region that significant clusters cover, {setting}",
        float(largest["covered"]),
        0.8,
    )


def _whole_fits(n_seeds: int) -> Iterator[Claim]:
    """Plant a speed-up in recordings, fit them, and look for it."""
    outcomes = [fit_and_compare(seed) for seed in follow(range(n_seeds), "whole fit, seed")]
    timing, share, amplitude = zip(*outcomes, strict=True)
    faster = f"{np.expm1(SIZES[-1]):.0%} faster"
    setting = f"recordings of {N_FITTED} + {N_FITTED} people, {faster}, whole fit"
    listed = ", ".join(f"{x:.2f}" for x in share)
    yield at_least(
        f"smallest share of the region covered by significant clusters of timing, {setting}",
        min(share),
        0.5,
        f"p {', '.join(f'{p:.2f}' for p in timing)}; shares {listed}",
    )
    yield beside(
        f"p values of amplitude, where nothing differs, {setting}",
        ", ".join(f"{p:.2f}" for p in amplitude),
    )
