"""The state of a fit between two rounds, and the record of its objective."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from percdl.algorithm.exchange import Broadcast
from percdl.exceptions import NumericalError
from percdl.steps.dictionary import normalize


class StopReason(StrEnum):
    """Why a fit ended, as a full sentence."""

    ROUNDS_DONE = "All rounds were run."
    CONVERGED = "The objective changed by less than `tol` in the last round."
    NO_ACTIVATIONS = (
        "Every activation is zero: the penalty exceeds what any atom explains. Lower `penalty`."
    )


@dataclass(frozen=True)
class HalfStep:
    """One line of the history."""

    phase: str
    round: int
    step: str
    objective: float
    seconds: float


@dataclass
class History:
    """Objective and seconds since the start, after each half-step."""

    records: list[HalfStep] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def record(self, phase: str, round_index: int, step: str, objective: float) -> None:
        """Append a half-step; an objective that is not a number ends the fit here."""
        if not math.isfinite(objective):
            raise NumericalError(
                f"The objective is {objective} after {step} in round {round_index} of the "
                f'{phase} phase, so the fit cannot continue. Try `dtype="float64"`, or signals '
                "scaled to ordinary size; if that does not help, please report it."
            )
        seconds = time.perf_counter() - self.started
        self.records.append(HalfStep(phase, round_index, step, float(objective), seconds))


@dataclass(frozen=True)
class FitState:
    """The state from which the server continues a fit; checkpoints store it unchanged.

    Attributes
    ----------
    broadcast : Broadcast
        The input of the next round.
    population, personal : int
        Rounds of each phase that are done or skipped.
    reason : StopReason
        Why the fit would end here.
    coded : float or None
        Objective after CSC in the last round.
    updated : float or None
        Objective after CDU in the last round of the first phase.
    is_fixed : bool
        Whether windows are fixed, because a move was undone.
    """

    broadcast: Broadcast
    population: int = 0
    personal: int = 0
    reason: StopReason = StopReason.ROUNDS_DONE
    coded: float | None = None
    updated: float | None = None
    is_fixed: bool = False


def begin(dictionary: np.ndarray) -> FitState:
    """Return the state before the first round, given a first dictionary (K, L, P)."""
    return FitState(Broadcast(normalize(dictionary), move=np.zeros(len(dictionary), int)))
