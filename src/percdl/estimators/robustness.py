"""Where Huber's loss turns from squared to linear, when the user does not say."""

from __future__ import annotations

from typing import Any

import numpy as np

from percdl.algorithm.settings import Huber
from percdl.signals import AnyCohort

# Of a recording's root mean square. A residual as large as the signal itself is an artefact;
# smaller shares take the misfit of the first rounds for artefacts, too.
SHARE = 1.0


def choose_delta(loss: Any, cohort: AnyCohort) -> float | None:
    """Return the delta of Huber's loss, in signal units; None for the squared loss.

    By default `SHARE` of the median, over the recordings, of their root mean square: a few
    recordings full of artefacts do not change it, and it scales with the signals.
    """
    if not isinstance(loss, Huber):
        return None
    if loss.delta is None:
        return SHARE * float(np.sqrt(np.median(cohort.power)))
    return float(loss.delta)
