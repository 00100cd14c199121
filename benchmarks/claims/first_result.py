"""A first result takes a few warm fits: in a first process, in a second, and for new people."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import first_result
from benchmarks.claims._claim import Claim, of_figure


def claims() -> Iterator[Claim]:
    """Run the README example in new processes, with an empty and with a filled cache."""
    yield from map(of_figure, first_result())
