"""fig:conv and Theorem 1: the common atoms are found down to the gauge floor, as 1/sqrt(S)."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims._claim import Claim, at_most, beside, between, is_quick
from percdl.experiments import Scale, Study, fig_conv, theorem_convergence
from percdl.experiments.studies.synthetic_fits import MODELS, confidence, loglog_slope

MOST_RATIO, SLOPES = 1.45, (-0.6, -0.4)
N_SEEDS = 10


def claims() -> Iterator[Claim]:
    """Fit cohorts of every size and seed with every method; then solve with A and Z given."""
    study = Study(Scale.PAPER)
    sizes, seeds = fig_conv.PAPER_SIZES, range(N_SEEDS)
    if is_quick():
        sizes, seeds = (16, 32), range(2)
    rows = fig_conv.measure(study, sizes, seeds)
    table = confidence(rows, ["method", "S"], "distance")
    floor, ours = (fig_conv.mean_distances(table, name) for name in (fig_conv.FLOOR, "PerCDL"))
    for size in (s for s in sizes if s >= fig_conv.LEAST_SUBJECTS):
        detail = f"{ours[size]:.4f} / {floor[size]:.4f}, {len(seeds)} seeds"
        name = f"S = {size}: distance to the truth / gauge floor"
        yield at_most(name, ours[size] / floor[size], MOST_RATIO, detail)
    yield between("exponent of the distance in S", fig_conv.slope(table, "PerCDL"), *SLOPES)
    for method in list(MODELS)[1:]:
        found = fig_conv.mean_distances(table, method)
        yield beside(method, ", ".join(f"S = {s}: {d:.3f}" for s, d in found.items()))
    given = theorem_convergence.measure(study, (10, 32, 100), (1, 3, 9), seeds)
    mean = confidence(given, ["S", "p"], "error")
    exponent = loglog_slope((mean["S"] * mean["p"]).tolist(), mean["mean"].tolist())
    yield between("Theorem 1: exponent of the error in S p, A and Z given", exponent, *SLOPES)
