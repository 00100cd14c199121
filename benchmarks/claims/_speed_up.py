"""A speed-up in one phase of the cycle: how often it is found, and how much of it.

``python -m benchmarks.claims._speed_up power.png`` draws the power curve.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.ndimage import gaussian_filter1d

from benchmarks.timing import follow
from percdl import Cohort, PerCDL, TimeWarp
from percdl.analysis import Comparison, compare_groups, separate_effects
from percdl.plotting import style

LEVEL, N_PERMUTATIONS, N_REPEATS = 0.05, 100, 200
LENGTH, SMOOTHNESS = 60, 4.0
# Spread of people's log speed, and where one group is faster.
SPREAD, REGION = 0.25, (0.4, 0.6)
SIZES, GROUP_SIZES = (0.0, 0.1, 0.2, 0.3, 0.4), (10, 25, 50)
N_FITTED = 25


def smooth_curves(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return smooth random curves (..., L) of unit variance."""
    noise = rng.standard_normal((*shape, LENGTH + 40))
    curves = gaussian_filter1d(noise, SMOOTHNESS, axis=-1)[..., 20:-20]
    return curves * np.sqrt(2 * SMOOTHNESS * np.sqrt(np.pi))


def measure_power(n_repeats: int) -> pd.DataFrame:
    """Return how often a speed-up is found, and how much of its region, for all sizes."""
    rows = []
    cells = [(members, size) for members in GROUP_SIZES for size in SIZES]
    for members, size in follow(cells, "power, members and size"):
        # The level needs more experiments than powers do.
        n = n_repeats if size else 3 * n_repeats
        found = [_detect(members, size, seed) for seed in range(n)]
        hits = np.array([hit for hit, _ in found])
        covered = [share for hit, share in found if hit]
        rows.append((members, size, hits.mean(), np.mean(covered or [np.nan]), n))
    return pd.DataFrame(rows, columns=["members", "size", "power", "covered", "n"])


def _detect(members: int, size: float, seed: int) -> tuple[bool, float]:
    """Return whether the region is found, and the share of it in clusters of the right sign.

    At size 0, whether anything is found.
    """
    rng = np.random.default_rng([members, round(100 * size), seed])
    timing, region = paces(rng, members, size)
    groups = ["fast"] * members + ["others"] * members
    found = compare_groups(timing, groups, "fast", "others", n_permutations=N_PERMUTATIONS)
    share = _covered(found, region)
    return (bool(found.significant(LEVEL)) if size == 0 else share > 0), share


def _covered(found: Comparison, region: np.ndarray) -> float:
    """Return the share of a region in significant clusters of the right sign."""
    inside = np.zeros(LENGTH, bool)
    for cluster in found.significant(LEVEL):
        inside[cluster.start : cluster.stop] |= cluster.mass > 0
    return float(inside[region].mean())


def paces(rng: np.random.Generator, members: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the log speed (2 members, L) of warps, the first half faster in a region of phases.

    A cycle lasts as long as before, so people faster in one phase are slower in the others.
    """
    phase = np.linspace(0, 1, LENGTH)
    region = (phase >= REGION[0]) & (phase <= REGION[1])
    log_speed = SPREAD * smooth_curves(rng, 2 * members)
    log_speed[:members] += size * gaussian_filter1d(region.astype(float), 1)
    steps = np.exp(-(log_speed[:, 1:] + log_speed[:, :-1]) / 2)
    own_time = np.pad(np.cumsum(steps, axis=1), ((0, 0), (1, 0)))
    own_time *= (LENGTH - 1) / own_time[:, -1:]
    return -np.log(np.gradient(own_time, axis=1)), region


def fit_and_compare(seed: int) -> tuple[float, float, float]:
    """Plant the largest speed-up in recordings, fit them, and compare the groups.

    Returns p of the timing, share of the region covered, p of the amplitude (where nothing
    differs).
    """
    rng = np.random.default_rng(seed)
    timing, region = paces(rng, N_FITTED, SIZES[-1])
    phase = np.linspace(0, 1, LENGTH)
    own_time = np.pad(np.cumsum(np.exp(-timing[:, 1:]), axis=1), ((0, 0), (1, 0)))
    own_time /= own_time[:, -1:]
    warps = np.stack([np.interp(phase, times, phase) for times in own_time])
    pattern = np.cos(3 * np.pi * warps) + 0.5 * np.sin(5 * np.pi * warps)
    cohort = Cohort.from_arrays([_record(cycle, rng) for cycle in pattern])
    start = pattern.mean(0)[None, :, None]
    model = PerCDL(1, LENGTH, TimeWarp(3, 8), 1.0, init=start, progress=False).fit(cohort)
    effects = separate_effects(model, cohort)
    groups = ["fast"] * N_FITTED + ["others"] * N_FITTED
    found = compare_groups(effects.timing[:, 0, 0], groups, "fast", "others")
    other = compare_groups(effects.amplitude[:, 0], groups, "fast", "others")
    return found.p_value, _covered(found, region), other.p_value


def _record(cycle: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return ten repetitions with gaps, amplitudes and noise."""
    pieces = []
    for _ in range(10):
        pieces += [np.zeros(int(rng.integers(5, 15))), rng.uniform(0.8, 1.2) * cycle]
    signal = np.concatenate([*pieces, np.zeros(10)])
    return (signal + 0.1 * rng.standard_normal(len(signal)))[:, None]


def draw_power(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw how often a speed-up is found, for each size of the groups."""
    ax = style.make_axes(ax)
    for index, (members, part) in enumerate(table.groupby("members")):
        percent = 100 * np.expm1(part["size"])
        error = 2 * np.sqrt(part["power"] * (1 - part["power"]) / part["n"])
        ax.errorbar(
            percent, part["power"], error, color=style.color(index), marker="os^"[index],
            capsize=2, label=f"{members} + {members} people",
        )  # fmt: skip
    ax.axhline(LEVEL, color=style.OBSERVED, lw=1, ls="--", label="level, 5%")
    ax.set_ylim(0, 1.02)
    style.label(ax, "faster in a fifth of the cycle by (%)", "share of experiments that find it")
    style.add_legend(ax)
    return ax


if __name__ == "__main__":
    table = measure_power(N_REPEATS)
    print(table.to_string())
    draw_power(table).figure.savefig(sys.argv[1], dpi=120)
