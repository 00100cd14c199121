"""Claims: a name, a target, the measured figure, and whether it holds."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from benchmarks.history import Figure

HEADING = "claim | target | figure | holds"


@dataclass(frozen=True)
class Claim:
    """One line of the report.

    Attributes
    ----------
    name : str
        What is claimed.
    target : str or None
        What the figure has to be; None for a figure that only stands beside the others.
    figure : str
        What was measured, or why nothing was.
    holds : bool or None
        Whether the target is met; None where nothing was measured.
    """

    name: str
    target: str | None
    figure: str
    holds: bool | None = None

    @property
    def verdict(self) -> str:
        """The last column."""
        if self.holds is None:
            return "for comparison" if self.target is None else "skipped"
        return "yes" if self.holds else "NO"

    def __str__(self) -> str:
        return f"{self.name} | {self.target or '-'} | {self.figure} | {self.verdict}"

    def to_json(self) -> str:
        """Return the claim as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Claim:
        """Read a claim back."""
        return cls(**json.loads(line))


def at_most(name: str, value: float, most: float, detail: str = "") -> Claim:
    """Claim that a figure is at most so much; one that is not a number falls short."""
    return Claim(name, f"<= {most:g}", _figure(value, detail), bool(value <= most))


def at_least(name: str, value: float, least: float, detail: str = "") -> Claim:
    """Claim that a figure is at least so much."""
    return Claim(name, f">= {least:g}", _figure(value, detail), bool(value >= least))


def between(name: str, value: float, least: float, most: float, detail: str = "") -> Claim:
    """Claim that a figure lies between two others."""
    target = f"{least:g} to {most:g}"
    return Claim(name, target, _figure(value, detail), bool(least <= value <= most))


def skipped(name: str, reason: object) -> Claim:
    """Say that a claim could not be looked at here, and why."""
    return Claim(name, "as documented", str(reason))


def beside(name: str, figure: str) -> Claim:
    """Report a figure without target, for comparison."""
    return Claim(name, None, figure)


def of_figure(figure: Figure) -> Claim:
    """Hold a figure of ``make bench`` against its target."""
    name = figure.name if figure.unit == "ratio" else f"{figure.name}, {figure.unit}"
    if figure.most is None:
        return beside(name, _figure(figure.value, figure.detail))
    return at_most(name, figure.value, figure.most, figure.detail)


def is_quick() -> bool:
    """Whether to try the scripts out at small sizes (``--quick``), which settles no claim."""
    return os.environ.get("PERCDL_CLAIMS_QUICK") == "1"


def _figure(value: float, detail: str) -> str:
    return f"{value:.4g} ({detail})" if detail else f"{value:.4g}"
