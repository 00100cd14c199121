"""Gait recorded again: warps of one person agree, with an atom learned from other people.

People with three walks or more, the first three each; the atom is that of everyone else, one walk
each. Right foot, sagittal angular velocity, z-scored. Atoms have 100 samples, the paper's length;
all other settings are the defaults of the library. Walks are personalized one by one: the model
does not know which belong together. Components are those of the people of the fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.claims._claim import Claim, at_least, beside, is_quick
from benchmarks.cohorts import present
from percdl import Algorithm, Cohort, PerCDL, PopCDL, TimeWarp, load_gait
from percdl.analysis import compare_distances, describe_recordings, measure_reliability
from percdl.datasets.gait import find_gait
from percdl.estimators.base import BaseCDL

N_PEOPLE, N_WALKS, N_COMPONENTS, LENGTH = 30, 3, 3, 100
LEAST_ICC, LEAST_RATIO = 0.75, 2.0
# The paper's settings for gait.
PAPER: dict[str, Any] = {"transformation": TimeWarp(4, 15), "penalty": 0.01}


def claims() -> Iterator[Claim]:
    """Claim the ICC of the leading components and the distances of warps, at defaults."""
    others, again = _walks()
    groups = Counter(dict(zip(again.persons, again.groups, strict=True)).values())
    size = f"{groups.total()} people {dict(groups)}, {len(again)} walks, {len(others)} others"
    model = PerCDL(1, LENGTH, random_state=0, progress=False).fit(others)
    table, between, within = _measure(model, again)
    for i in range(1, N_COMPONENTS + 1):
        row = table.loc[f"warp {i}"]
        yield at_least(f"gait retest, ICC of warp {i}", row["icc"], LEAST_ICC, _describe(row))
    yield at_least(
        "gait retest, distance of warps between people / within",
        between / within,
        LEAST_RATIO,
        f"{between:.2f} and {within:.2f} samples; {size}",
    )
    for name, row in table.iloc[N_COMPONENTS:].iterrows():
        yield beside(f"gait retest, ICC of {name}", f"{row['icc']:.3f} ({_describe(row)})")
    for label, other in _variants(others):
        table, between, within = _measure(other, again)
        iccs = ", ".join(f"{icc:.3f}" for icc in table["icc"][:N_COMPONENTS])
        yield beside(
            f"gait retest, {label}",
            f"ICC of warps {iccs}; between / within {between / within:.2f}",
        )


def _walks() -> tuple[Cohort, Cohort]:
    """Return one walk of each of the others, and the walks of those recorded again, in order."""
    data, folder = present(load_gait), find_gait().parent.parent / "gait_retest"
    walks = list(data.cohort)
    if folder.is_dir():
        walks += present(load_gait, data_home=folder).cohort
    walks.sort(key=lambda walk: (int(str(walk.person)), int(str(walk.visit))))
    table = pd.DataFrame({"person": [walk.person for walk in walks]})
    counts = table["person"].value_counts(sort=False)
    chosen = counts.index[counts >= N_WALKS][: 5 if is_quick() else N_PEOPLE]
    rank, is_chosen = table.groupby("person").cumcount(), table["person"].isin(chosen)
    again, once = (
        np.flatnonzero(is_chosen & (rank < N_WALKS)),
        np.flatnonzero(~is_chosen & (rank < 1)),
    )
    others = once[:15] if is_quick() else once
    first, second = (Cohort(walks[i] for i in rows).zscore() for rows in (others, again))
    return first, second


def _variants(others: Cohort) -> Iterator[tuple[str, BaseCDL]]:
    """Fit other settings, for comparison."""
    common: dict[str, Any] = {"random_state": 0, "progress": False}
    start, kept = PopCDL(1, LENGTH, **common).fit(others).dictionary_, Algorithm(realign=False)
    variants: dict[str, dict[str, Any]] = {
        "windows kept": {"algorithm": kept},
        "from PopCDL's atom": {"init": start},
        "windows kept, from PopCDL's atom": {"init": start, "algorithm": kept},
        "the paper's D, W and penalty": PAPER,
        "the same, windows kept": {**PAPER, "algorithm": kept},
        "the same, as printed": {
            "transformation": TimeWarp(4, 15, prior=None),
            "penalty": 0.01,
            "algorithm": Algorithm.as_printed(),
        },
    }
    for name, options in variants.items():
        yield name, PerCDL(1, LENGTH, **options, **common).fit(others)


def _measure(model: BaseCDL, again: Cohort) -> tuple[pd.DataFrame, float, float]:
    """Return the reliability of all measurements, and the distances of warps in samples."""
    found = model.personalize(again)
    table = describe_recordings(found, again, reference=model, n_components=N_COMPONENTS)
    return measure_reliability(table, again.persons), *compare_distances(
        found.warps, again.persons
    )


def _describe(row: pd.Series) -> str:
    return f"95% interval {row['icc_low']:.3f} to {row['icc_high']:.3f}; SDC {row['sdc']:.3g}"
