"""fig:conv and Theorem 1: the common atoms are found down to the gauge floor, as 1/sqrt(S)."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims._claim import Claim, at_most, beside, between, is_quick
from percdl.experiments import Scale, Study, growth
from percdl.experiments.fits import FLOOR, MODELS, confidence, loglog_slope

MOST_RATIO, SLOPES = 1.45, (-0.6, -0.4)
N_SEEDS = 10


def claims() -> Iterator[Claim]:
    """Fit cohorts of every size and seed with every method; then solve with A and Z given."""
    study = Study(Scale.PAPER)
    sizes, seeds = growth.PAPER_SIZES, range(N_SEEDS)
    if is_quick():
        sizes, seeds = (16, 32), range(2)
    rows = growth.measure_distances(study, sizes, seeds)
    means = growth.mean_distances(rows)[1]
    floor, ours = means[FLOOR], means["PerCDL"]
    for size in (s for s in sizes if s >= growth.LEAST_SUBJECTS):
        detail = f"{ours[size]:.4f} / {floor[size]:.4f}, {len(seeds)} seeds"
        name = f"S = {size}: distance to the truth / gauge floor"
        yield at_most(name, ours[size] / floor[size], MOST_RATIO, detail)
    yield between("exponent of the distance in S", growth.slope(ours), *SLOPES)
    for method in list(MODELS)[1:]:
        yield beside(method, ", ".join(f"S = {s}: {d:.3f}" for s, d in means[method].items()))
    given = study.sweep(growth.measure_theorem, S=(10, 32, 100), p=(1, 3, 9), seed=seeds)
    mean = confidence(given, ["S", "p"], "error")
    exponent = loglog_slope((mean["S"] * mean["p"]).tolist(), mean["mean"].tolist())
    yield between("Theorem 1: exponent of the error in S p, A and Z given", exponent, *SLOPES)
