"""The log of a run at the coordinator: who was asked what, who answered, what it weighed."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from percdl.signals.files import append_private


@dataclass(frozen=True)
class Attempt:
    """One line of the log.

    Attributes
    ----------
    run : str
    round, attempt : int
    kind : str
        What was asked.
    roster : list of str
        Who was asked.
    dropped : dict of str
        Who was not counted, and why.
    unlifted : dict of str
        Who was lost after it had answered with a masked sum, and why; others stood in for it.
    afresh : list of str
        Who had no state from the round before, and began with the present dictionary.
    bytes_down, bytes_up : dict of int
        Weight of requests and replies, by site.
    seconds : float
        Until the last answer.
    objective : float or None
        Of all sites together, where the sums tell it.
    """

    run: str
    round: int
    attempt: int
    kind: str
    roster: list[str]
    dropped: dict[str, str]
    unlifted: dict[str, str]
    afresh: list[str]
    bytes_down: dict[str, int]
    bytes_up: dict[str, int]
    seconds: float
    objective: float | None = None


@dataclass
class Audit:
    """The log in memory and, with a path, in a file of JSON lines that only grows.

    Parameters
    ----------
    path : Path, optional
        The file.
    """

    path: Path | None = None
    attempts: list[Attempt] = field(default_factory=list)

    def add(self, attempt: Attempt) -> None:
        """Write a line; it is on disk before the next request goes out."""
        self.attempts.append(attempt)
        if self.path is not None:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            line = json.dumps({"time": stamp, **asdict(attempt)}) + "\n"
            append_private(self.path, line.encode())

    def to_records(self) -> list[dict[str, Any]]:
        """Return all lines as dicts, ready for a DataFrame."""
        return [asdict(attempt) for attempt in self.attempts]
