"""PopCDL and IndCDL are PerCDL with two particular transforms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.claims._claim import Claim, at_most, is_quick
from percdl import Free, Identity, IndCDL, PerCDL, PopCDL, make_synthetic

MOST_DIFFERENCE = 1e-9
OPTIONS = {"n_atoms": 2, "atom_length": 50, "penalty": 1e-2, "dtype": "float64", "progress": False}


def claims() -> Iterator[Claim]:
    """Fit each pair to the same noisy cohort and compare everything they learn."""
    data = make_synthetic(8 if is_quick() else 64, noise_std=0.05, random_state=0)
    options = {**OPTIONS, "init": data.personal_dictionary[0]}
    for twin, transform in ((PopCDL, Identity()), (IndCDL, Free())):
        personalized = PerCDL(transformation=transform, **options).fit(data.cohort)
        plain = twin(**options).fit(data.cohort)
        yield at_most(
            f"PerCDL({transform!r}) against {twin.__name__}: largest difference",
            _difference(personalized, plain),
            MOST_DIFFERENCE,
            "atoms, personal atoms, onsets, amplitudes, objective",
        )
    whole = IndCDL(**options).fit(data.cohort)
    alone = [IndCDL(**options).fit(data.cohort[s : s + 1]) for s in range(len(data.cohort))]
    yield at_most(
        "IndCDL of a cohort against each subject alone: largest difference",
        _gap(whole.personal_dictionary_, np.concatenate([m.personal_dictionary_ for m in alone])),
        MOST_DIFFERENCE,
        "personal atoms",
    )


def _difference(one: PerCDL, other: PopCDL | IndCDL) -> float:
    """Return the largest difference of anything learned; infinite where shapes differ."""
    columns = ["atom", "onset_sample", "amplitude"]
    return max(
        _gap(one.dictionary_, other.dictionary_),
        _gap(one.personal_dictionary_, other.personal_dictionary_),
        _gap(one.events_[columns].to_numpy(float), other.events_[columns].to_numpy(float)),
        abs(one.objective_ - other.objective_) / abs(other.objective_),
    )


def _gap(a: np.ndarray, b: np.ndarray) -> float:
    if a.shape != b.shape or (np.isnan(a) != np.isnan(b)).any():
        return np.inf
    return float(np.nanmax(np.abs(a - b), initial=0))
