"""Where Huber's loss turns from squared to linear, when the user does not say."""

from __future__ import annotations

from numbers import Real

import numpy as np

from percdl.exceptions import InvalidParameterError
from percdl.signals import AnyCohort

# Of a recording's root mean square. A residual as large as the signal itself is an artefact;
# smaller shares take the misfit of the first rounds for artefacts, too.
SHARE = 1.0


def choose_delta(loss: str, delta: float | None, cohort: AnyCohort) -> float | None:
    """Return the delta of Huber's loss, in signal units; None for the squared loss.

    By default `SHARE` of the median, over the recordings, of their root mean square: a few
    recordings full of artefacts do not change it, and it scales with the signals.
    """
    if loss != "huber":
        if delta is not None:
            raise InvalidParameterError(
                f"`huber_delta={delta!r}` was given, but the loss is {loss!r}. "
                "Pass `loss='huber'` as well."
            )
        return None
    if delta is None:
        return SHARE * float(np.sqrt(np.median(cohort.power)))
    if not isinstance(delta, Real) or not 0 < float(delta) < np.inf:
        raise InvalidParameterError(
            f"`huber_delta={delta!r}` must be a finite number above 0, in signal units."
        )
    return float(delta)
