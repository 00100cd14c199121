"""ECG at the size of the paper: the diagnosis from personalization parameters.

2,650 records of PTB-XL, five superclasses; the paper's support vector machine, five splits.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims._claim import Claim, at_least, beside, is_quick
from percdl.experiments import Study
from percdl.experiments.ecg import (
    FREE,
    PAPER_AUC,
    RICH,
    SIZED,
    WARPS,
    measure_auc,
)

N_MEMBERS = 530
LEAST_AUC = {WARPS: PAPER_AUC, RICH: 0.880}


def claims() -> Iterator[Claim]:
    """Claim the AUC of warps and of richer transforms; show the others beside them."""
    n_members = 20 if is_quick() else N_MEMBERS
    names = (*LEAST_AUC, SIZED, FREE)
    table = Study().sweep(measure_auc, n_members=[n_members], features=names)
    for name in names:
        mean, spread, official = table.set_index("features").loc[
            name, ["auc", "spread", "official"]
        ]
        detail = f"+- {spread:.3f}; official folds {official:.3f}"
        if name in LEAST_AUC:
            yield at_least(f"ECG, AUC, {name}", mean, LEAST_AUC[name], detail)
        else:
            yield beside(f"ECG, AUC, {name}", f"{mean:.3f} ({detail})")
