"""The objective and the time after each half-step, and why the loop stopped."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from enum import StrEnum

from percdl.exceptions import NumericalError


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
                f'{phase} phase, so the fit cannot go on. Try `dtype="float64"`, or signals '
                "scaled to ordinary size; if that does not help, please report it."
            )
        seconds = time.perf_counter() - self.started
        self.records.append(HalfStep(phase, round_index, step, float(objective), seconds))

    def last(self, step: str) -> float | None:
        """Return the latest objective recorded after ``step``."""
        return next((r.objective for r in reversed(self.records) if r.step == step), None)
