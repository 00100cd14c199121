"""What is known of each ECG, from the crudest warps to richer transforms, step by step.

Each set of features changes one thing about the one before: the search for windows, starts and
gauge is left out; a filter is put in; compression takes the place of scaling to unit power; the
transform changes. Features are personalization parameters; the size of the
beats is one in the gauge that leaves it to the gains, and part of the activations in the other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from percdl.estimators import IndCDL
from percdl.estimators.base import BaseCDL
from percdl.experiments.studies.ecg_fits import (
    COMPRESSED,
    FILTERED,
    KEPT,
    RAW,
    SEARCHED,
    fit,
    fit_other,
    mean_amplitudes,
    prepare,
)
from percdl.transforms import Modulation, TimeWarp

Features = Float[np.ndarray, "S F"]
# Sines of 0.65 s / 14: as short as the waves of a QRS complex; the paper's 7 are longer.
FINE = TimeWarp(4, 14, per_channel=True)
# A knot every 30 ms; on splits of the training folds alone it does better than 13 knots.
WAVES = Modulation(21)
CRUDE = f"warps 4 x 7; {RAW}; {SEARCHED}"
WARPS = f"warps 4 x 14; {COMPRESSED}; {KEPT}"
MODULATED = f"modulation, {WAVES.knots} knots; {COMPRESSED}; {KEPT}"
RICH = f"warps 4 x 14 and modulation; {COMPRESSED}; {KEPT}"
# Gains and activations are free up to a factor: gains of root mean square one, or activations of
# mean one, which leaves the size of the beats to the gains.
SIZED = "the same in the gauge of mean activation one"
FREE = f"IndCDL, whole atoms; {COMPRESSED}; {KEPT}"


def warps(processing: str, alignment: str = KEPT) -> Callable[[int], Features]:
    """Return the parameters of the paper's warps, one per lead: P D W numbers."""
    return lambda n_members: _params(fit(n_members, processing, alignment=alignment))


def fine_warps(n_members: int) -> Features:
    """Return the parameters of finer warps per lead."""
    return _params(fit(n_members, COMPRESSED, FINE))


def modulation(n_members: int) -> Features:
    """Return the gains along the beat, of root mean square one: P J numbers."""
    return _params(fit(n_members, COMPRESSED, WAVES))


def sized_modulation(n_members: int) -> Features:
    """Return the gains along the beat in the gauge where the mean activation is one."""
    model = fit(n_members, COMPRESSED, WAVES)
    return _params(model) * mean_amplitudes(model, prepare(n_members, COMPRESSED))[:, None]


def both(gains: Callable[[int], Features]) -> Callable[[int], Features]:
    """Return the parameters of both transforms, each fitted by itself."""
    return lambda n_members: np.hstack([fine_warps(n_members), gains(n_members)])


def free(n_members: int) -> Features:
    """Return the atoms of IndCDL: nothing is shared, so these are no parameters of a transform."""
    return _params(fit_other(IndCDL, n_members, COMPRESSED))


#: Name, and what computes the features of the records, in the order in which they are told.
FEATURE_SETS: dict[str, Callable[[int], Features]] = {
    CRUDE: warps(RAW, SEARCHED),
    f"warps 4 x 7; {RAW}; {KEPT}": warps(RAW),
    f"warps 4 x 7; {FILTERED}; {KEPT}": warps(FILTERED),
    f"warps 4 x 7; {COMPRESSED}; {KEPT}": warps(COMPRESSED),
    WARPS: fine_warps,
    MODULATED: modulation,
    RICH: both(modulation),
    SIZED: both(sized_modulation),
    FREE: free,
}


def _params(model: BaseCDL) -> Features:
    return model.params_.reshape(len(model.params_), -1)
