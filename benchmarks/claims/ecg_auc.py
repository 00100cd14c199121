"""ECG at the size of the paper: the diagnosis from personalization parameters.

2,650 records of PTB-XL, five superclasses; the paper's support vector machine, five splits. First
the paper's warps (4 x 7 per lead) at the defaults of the library, then the settings chosen here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.claims._claim import Claim, at_least, beside, is_quick
from percdl import PerCDL
from percdl.analysis import feature_auc
from percdl.experiments import Study
from percdl.experiments.ecg import (
    FREE,
    LENGTH,
    N_SPLITS,
    PAPER_AUC,
    PAPER_K,
    PAPER_NEIGHBOURS,
    RAW,
    RICH,
    SIZED,
    WARP,
    WARPS,
    load_records,
    measure_auc,
    neighbour_auc,
    prepare,
)

N_MEMBERS = 530
LEAST_NEIGHBOURS = PAPER_NEIGHBOURS["euclidean"]
LEAST_AUC = {WARPS: PAPER_AUC, RICH: 0.880}


def claims() -> Iterator[Claim]:
    """Claim the AUC of warps and of richer transforms; show the others beside them."""
    n_members = 20 if is_quick() else N_MEMBERS
    yield from _at_defaults(n_members)
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


def _at_defaults(n_members: int) -> Iterator[Claim]:
    """Claim the AUC of the paper's warps, at unit power, everything else as it comes."""
    cohort, data = prepare(n_members, RAW), load_records(n_members)
    model = PerCDL(1, LENGTH, WARP, random_state=0, progress=False).fit(cohort)
    labels, split = data.superclass.to_numpy(), data.split.to_numpy()
    values = np.nan_to_num(model.params_.reshape(len(labels), -1))
    found = feature_auc(values, labels, n_splits=N_SPLITS)
    name = "ECG, AUC, warps 4 x 7 at defaults"
    yield at_least(name, found.mean(), PAPER_AUC, f"+- {found.std(ddof=1):.3f}")
    folds = [(np.flatnonzero(split == "train"), np.flatnonzero(split == "test"))]
    official = feature_auc(values, labels, splits=folds).mean()
    yield at_least(f"{name}, official folds", official, PAPER_AUC)
    near = neighbour_auc(model.personal_dictionary_[:, 0], labels, "euclidean")[PAPER_K]
    yield at_least(f"ECG, AUC, {PAPER_K} nearest atoms at defaults", near, LEAST_NEIGHBOURS)
