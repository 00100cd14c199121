"""A federated fit equals the fit in one place; size and number of messages; first dictionaries.

Sites run in this process. Cohorts are split over sites of unequal size, some with one subject.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import Absent, cohorts
from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.timing import say, seconds
from percdl import Cohort, FederatedPerCDL, PerCDL, TimeWarp, make_synthetic

# Largest difference of two dictionaries of unit norm, and of two objectives, relative.
MOST_DISTANCE = 1e-9
# How much more of the signals' energy a fit from sums may leave than one from segments.
MOST_LEFT = 0.002
N_SEEDS = 5


def claims() -> Iterator[Claim]:
    """Compare dictionaries, weigh messages, then compare first dictionaries."""
    truth = make_synthetic(12 if is_quick() else 60, random_state=0)
    options = {"n_atoms": 2, "atom_length": 50, "transformation": TimeWarp(3, 10), "penalty": 1e-2}
    start = truth.personal_dictionary[0]
    for n_sites in (3, 5) if is_quick() else (3, 30):
        yield from _equal(truth.cohort, n_sites, {**options, "init": start})
    yield from _starts()


def deal(cohort: Cohort, n_sites: int) -> dict[str, Cohort]:
    """Deal recordings out; the first sites have one each, the last has the rest."""
    sizes = [1 + i % 3 for i in range(n_sites - 1)]
    ends = np.cumsum([0, *sizes, len(cohort) - sum(sizes)])
    return {f"site{i:02d}": cohort[int(ends[i]) : int(ends[i + 1])] for i in range(n_sites)}


def _equal(cohort: Cohort, n_sites: int, options: dict[str, Any]) -> Iterator[Claim]:
    """Fit in one place and over sites, with the default searches, plain and masked."""
    say(f"{n_sites} sites")
    central = PerCDL(dtype="float64", progress=False, **options).fit(cohort)
    for secure in (False, True):
        federation = FederatedPerCDL(
            PerCDL(dtype="float64", progress=False, **options), secure=secure
        )
        spent = seconds(lambda run=federation: run.fit(deal(cohort, n_sites)))
        model, way = federation.model_, "masked" if secure else "plain"
        distance = float(np.abs(model.dictionary_ - central.dictionary_).max())
        name = f"{n_sites} sites, {way}"
        yield at_most(f"{name}: difference of the dictionaries", distance, MOST_DISTANCE)
        gap = abs(model.objective_ / central.objective_ - 1)
        yield at_most(f"{name}: difference of the objectives", gap, MOST_DISTANCE)
        yield from _weigh(name, federation, options)
        n_posts = federation.audit_["slot"].nunique()
        yield beside(f"{name}: posts of each site, seconds", f"{n_posts}, {spent:.1f} s")


def _weigh(name: str, federation: FederatedPerCDL, options: dict[str, Any]) -> Iterator[Claim]:
    """Compare what sites send with the formula of `percdl.federated.layout`."""
    n_atoms, length = options["n_atoms"], options["atom_length"]
    windows = 2 * n_atoms * (length + 2 * max(1, round(8 * length / 50)))
    system = n_atoms * length * (length + 1) // 2 + 4 * n_atoms * length
    gauge_and_prior = n_atoms * (20 * length + 20 + 16**2)
    expected = {
        "population": 4 + n_atoms + windows,
        "personal": 4 + 4 * n_atoms + system + windows + gauge_and_prior,
    }
    for kind, n_numbers in expected.items():
        sizes = federation.audit_[federation.audit_["asked"] == kind]["sent"]
        beyond = float(sizes.max()) - 8 * n_numbers
        most = 512.0  # a signature, and the header
        detail = f"{sizes.max()} bytes from a site, {8 * n_numbers} of them numbers"
        yield at_most(f"{name}: bytes of a {kind} round beyond the formula", beyond, most, detail)


def _starts() -> Iterator[Claim]:
    """Compare fits whose first dictionary is found by sums, and from segments in one place."""
    for seed in range(1 if is_quick() else N_SEEDS):
        truth = make_synthetic(8 if is_quick() else 20, random_state=seed)
        options = {"n_atoms": 2, "atom_length": 50, "penalty": 1e-2}
        yield _start(f"synthetic, seed {seed}", truth.cohort, options)
    beats = cohorts.beats(6 if is_quick() else 60)
    yield _start("beats", beats.cohort, beats.options)
    try:
        gait = cohorts.gait(6 if is_quick() else 150)
    except Absent as error:
        say(str(error))
        return
    yield _start("gait", gait.cohort, gait.options)


def _start(name: str, cohort: Cohort, options: dict[str, Any]) -> Claim:
    say(f"first dictionary, {name}")
    model = PerCDL(**{**options, "init": "auto", "random_state": 0, "progress": False})
    objective = FederatedPerCDL(model).fit(deal(cohort, 3)).model_.objective_
    central = model.fit(cohort).objective_
    energy = sum(float(np.nansum(np.square(r.values, dtype=float))) for r in cohort)
    return at_most(
        f"{name}: energy left unexplained, from sums less from segments",
        (objective - central) / energy,
        MOST_LEFT,
        f"objective {100 * (objective / central - 1):+.2f} %",
    )
