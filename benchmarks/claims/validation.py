"""Two of common atoms, warps and activations are known: the third is recovered.

The paper's fig:app:validation_common, fig:app:perso and fig:app:activations: S = 3, N = 500.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.claims._claim import Claim, at_least, at_most, is_quick
from percdl.experiments import Study, known_truth

N_SEEDS = 20
MOST_DISTANCE, MOST_ERROR, LEAST_WARPS = 1e-6, 5e-4, 0.99


def claims() -> Iterator[Claim]:
    """Run the three steps on cohorts whose truth is known."""
    seeds = range(2 if is_quick() else N_SEEDS)
    codes = Study().sweep(known_truth.score_activations, seed=seeds)
    detail = f"{len(seeds)} cohorts"
    exact = float(np.mean(codes["onsets_exact"]))
    yield at_least("CSC: onsets found to the sample", exact, 1, detail)
    yield at_most("CSC: activations that are not there", np.sum(codes["n_extra"]), 0, detail)
    yield at_most("CSC: largest error of an amplitude", np.max(codes["amplitude_error"]), 1e-9)
    atoms = Study().sweep(known_truth.score_atoms, seed=seeds)
    name = "PerCDU: largest distance to the true common atoms"
    yield at_most(name, np.max(atoms["distance"]), MOST_DISTANCE, detail)
    warps = Study().sweep(known_truth.score_warps, seed=seeds)
    name = f"IPU: warps nowhere off by more than {known_truth.TOLERANCE:g} samples"
    yield at_least(name, float(np.mean(warps["warps_recovered"])), LEAST_WARPS, detail)
    name = "IPU: largest normalized reconstruction error"
    yield at_most(name, np.max(warps["error"]), MOST_ERROR, detail)
