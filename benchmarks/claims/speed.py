"""Speed and memory: the table of ``make bench`` against its targets."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import QUICK, Missing, Sizes, figures
from benchmarks.claims._claim import Claim, at_most, beside, is_quick, skipped


def claims() -> Iterator[Claim]:
    """Measure every figure of the table."""
    for figure in figures(QUICK if is_quick() else Sizes()):
        if isinstance(figure, Missing):
            yield skipped(figure.name, figure.reason)
        elif figure.most is None:
            yield beside(figure.name, f"{figure.value:.2f} ({figure.detail})")
        else:
            yield at_most(figure.name, figure.value, figure.most, figure.detail)
