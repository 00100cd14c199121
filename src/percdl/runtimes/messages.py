"""Messages between a coordinator and its sites, for any transport."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from percdl.exceptions import PerCDLError

Kind = Literal["join", "keys", "first", "population", "personal", "express", "release", "finish"]


@dataclass(frozen=True)
class Request:
    """Question of a coordinator to a site.

    Rounds are counted over the whole run; a repeated one has a new attempt. ``facts`` are JSON
    data, ``arrays`` hold float64, int64 or uint64.
    """

    kind: Kind
    run: str
    round: int
    attempt: int
    facts: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """The answer of a site; it repeats the question, so that late replies are recognized."""

    site: str
    kind: Kind
    run: str
    round: int
    attempt: int
    facts: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A site that did not answer, and why, as a sentence."""

    site: str
    why: str


Answer = Callable[[Request], Reply]


@runtime_checkable
class Wire(Protocol):
    """Transport of requests to sites and of replies back."""

    def sites(self) -> tuple[str, ...]:
        """Return the sites that can be reached now, sorted."""
        ...

    def ask(self, requests: Mapping[str, Request], timeout: float) -> dict[str, Reply | Failure]:
        """Ask several sites at once; return the answers that arrive in time."""
        ...


@dataclass(frozen=True)
class InProcessWire:
    """Sites that are functions of this process, by name, asked one after the other."""

    answers: Mapping[str, Answer]

    def sites(self) -> tuple[str, ...]:
        """Return all sites, sorted."""
        return tuple(sorted(self.answers))

    def ask(self, requests: Mapping[str, Request], timeout: float) -> dict[str, Reply | Failure]:
        """Ask several sites; an error of PerCDL becomes a `Failure`."""
        answers: dict[str, Reply | Failure] = {}
        for site in sorted(requests):
            try:
                answers[site] = self.answers[site](requests[site])
            except PerCDLError as error:
                answers[site] = Failure(site, str(error))
        return answers


def n_bytes(message: Request | Reply) -> int:
    """Return the size of a message: its facts as JSON, and its arrays."""
    facts = len(json.dumps(message.facts).encode())
    return facts + sum(array.nbytes for array in message.arrays.values())
