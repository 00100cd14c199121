"""Telling whoever waits how far a long measurement is."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
logger = logging.getLogger("percdl.experiments")


def follow(items: Sequence[Item], what: str) -> Iterator[Item]:
    """Yield the items, logging before each which one it is.

    >>> list(follow([16, 64], "S"))
    [16, 64]
    """
    for i, item in enumerate(items):
        logger.info("%s: %s (%d of %d)", what, item, i + 1, len(items))
        yield item
