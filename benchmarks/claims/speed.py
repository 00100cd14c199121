"""Speed and memory: the table of ``make bench`` against its targets."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import GROUPS, QUICK, SPEED, Missing, Sizes
from benchmarks.claims._claim import Claim, is_quick, of_figure, skipped


def claims() -> Iterator[Claim]:
    """Measure the figures that a CPU has, the README example aside."""
    for group in SPEED:
        for figure in GROUPS[group](QUICK if is_quick() else Sizes()):
            if isinstance(figure, Missing):
                yield skipped(figure.name, figure.reason)
            else:
                yield of_figure(figure)
