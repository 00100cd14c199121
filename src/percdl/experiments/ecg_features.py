"""What is known of each ECG, from the crudest warps to richer transforms, step by step.

Each set of features changes one thing about the one before: how records are processed, whether
windows may move, the transform. Except where the name says so, features are personalization
parameters alone: the A of the paper, never its Z.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from percdl.estimators import IndCDL
from percdl.estimators.base import BaseCDL
from percdl.experiments.ecg_fits import (
    COMPRESSED,
    FILTERED,
    KEPT,
    RAW,
    REALIGNED,
    fit,
    fit_other,
    mean_amplitudes,
    prepare,
)
from percdl.transforms import Modulation, TimeWarp

Features = Float[np.ndarray, "S F"]
# Sines of 0.65 s / 14: as short as the waves of a QRS complex; the paper's 7 are longer.
FINE = TimeWarp(4, 14, per_channel=True)
WAVES = Modulation(13)
CRUDE = f"warps; {RAW}; {REALIGNED}"
WARPS = f"finer warps; {COMPRESSED}; {KEPT}"
MODULATED = f"modulation; {COMPRESSED}; {KEPT}"
RICH = f"finer warps and modulation; {COMPRESSED}; {KEPT}"
WITH_AMPLITUDE = f"{RICH}; with mean activation (Z)"
FREE = f"IndCDL, whole atoms; {COMPRESSED}; {KEPT}"


def warps(processing: str, alignment: str = KEPT) -> Callable[[int], Features]:
    """Return the parameters of the paper's warps, one per lead: P D W numbers."""
    return lambda n_members: _params(fit(n_members, processing, alignment=alignment))


def fine_warps(n_members: int) -> Features:
    """Return the parameters of finer warps per lead."""
    return _params(fit(n_members, COMPRESSED, FINE))


def modulation(n_members: int) -> Features:
    """Return the gains along the beat: P J numbers."""
    return _params(fit(n_members, COMPRESSED, WAVES))


def rich(n_members: int) -> Features:
    """Return the parameters of both transforms, each fitted by itself."""
    return np.hstack([fine_warps(n_members), modulation(n_members)])


def with_amplitude(n_members: int) -> Features:
    """Return the parameters, and gains in signal units: times the mean activation."""
    model = fit(n_members, COMPRESSED, WAVES)
    amplitude = mean_amplitudes(model, prepare(n_members, COMPRESSED))[:, None]
    return np.hstack([fine_warps(n_members), _params(model) * amplitude])


def free(n_members: int) -> Features:
    """Return the atoms of IndCDL: nothing is shared, so these are no parameters of a transform."""
    return _params(fit_other(IndCDL, n_members, COMPRESSED))


#: Name, and what computes the features of the records, in the order in which they are told.
FEATURE_SETS: dict[str, Callable[[int], Features]] = {
    CRUDE: warps(RAW, REALIGNED),
    f"warps; {RAW}; {KEPT}": warps(RAW),
    f"warps; {FILTERED}; {KEPT}": warps(FILTERED),
    f"warps; {COMPRESSED}; {KEPT}": warps(COMPRESSED),
    WARPS: fine_warps,
    MODULATED: modulation,
    RICH: rich,
    WITH_AMPLITUDE: with_amplitude,
    FREE: free,
}


def _params(model: BaseCDL) -> Features:
    return model.params_.reshape(len(model.params_), -1)
