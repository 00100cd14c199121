"""Gait at the size of the paper: reconstruction errors, and atoms nearest to the true cycles.

150 walks, z-scored; all models from one first dictionary, with the same number of rounds. The
claim that PerCDL is near IndCDL covers both first dictionaries (chosen from the data, and the
cycle of a healthy participant as in the paper), and PopCDL's atom with fixed windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick
from benchmarks.cohorts import present
from percdl import Algorithm, load_gait
from percdl.datasets.gait import GROUPS
from percdl.experiments import Study, gait
from percdl.experiments.fits import error_of_fit
from percdl.experiments.gait import (
    FROM_CYCLE,
    FROM_DATA,
    PERSONAL,
    build,
    first_dictionary,
    load_walks,
)

N_MEMBERS = 50
MOST_ERROR, MOST_RATIO = 0.075, 1.12


def claims() -> Iterator[Claim]:
    """Claim the error of PerCDL, its ratio to IndCDL's, and who is nearest to true cycles."""
    present(load_gait)
    n_members = 5 if is_quick() else N_MEMBERS
    study = Study()
    numbers = gait.measure_errors(study, n_members)
    ratios: Any = (numbers["PerCDL"] / numbers["IndCDL"]).to_dict()
    for start in (FROM_DATA, FROM_CYCLE):
        error = numbers.loc[(start, gait.DEFAULT), "PerCDL"]
        detail = f"{3 * n_members} walks, first atom: {start}"
        yield at_most("gait, error of PerCDL", error, MOST_ERROR, detail)
        yield at_most("gait, PerCDL / IndCDL", ratios[start, gait.DEFAULT], MOST_RATIO, detail)
        plain = ratios[start, gait.PRINTED]
        yield beside("gait, PerCDL / IndCDL, as printed", f"{plain:.3f} ({start})")
    yield beside("gait, PerCDL / IndCDL, default rounds", f"{_untuned_ratio(n_members):.3f}")
    kept = ratios[gait.FROM_POPULATION, gait.KEPT]
    yield at_most("gait, PerCDL / IndCDL, windows kept", kept, MOST_RATIO, "from PopCDL's atom")
    people = gait.measure_distances(n_members)
    table, shares = gait.summarize(people), gait.share_nearest(people)
    for group in GROUPS:
        others = table[group].drop(PERSONAL)
        yield at_least(
            f"gait, {group}: distance of the next best atom / of the personalized atom",
            others.min() / table.loc[PERSONAL, group],
            1.0,
            f"{table.loc[PERSONAL, group]:.3f}; {others.idxmin()} {others.min():.3f}; "
            f"own atom nearest for {shares[group]:.0%}",
        )


def _untuned_ratio(n_members: int) -> float:
    """Return PerCDL / IndCDL with the library's default rounds and solver steps."""
    cohort, init = load_walks(n_members).cohort, first_dictionary(n_members, FROM_DATA)
    options = {"algorithm": Algorithm()}
    models = (
        build("PerCDL", init, **options),
        build("IndCDL", init, **options),
    )
    person, free = (error_of_fit(model.fit(cohort), cohort) for model in models)
    return person / free
