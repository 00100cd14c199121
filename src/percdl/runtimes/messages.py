"""Messages between a coordinator and its sites, for any transport."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from percdl.exceptions import PerCDLError

Kind = Literal["join", "keys", "first", "population", "personal", "recenter", "release", "finish"]


@dataclass(frozen=True)
class Request:
    """What a coordinator asks of a site.

    Attributes
    ----------
    kind : str
        What to do.
    run : str
        Which run of the federation this belongs to.
    round, attempt : int
        Rounds are counted over the whole run; one that is repeated has a new attempt.
    facts : dict
        Small things, as JSON knows them.
    arrays : dict of arrays
        Of float64, int64 or uint64.
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
    """What carries requests to sites and replies back."""

    def sites(self) -> tuple[str, ...]:
        """Return who can be reached now, sorted."""
        ...

    def ask(self, requests: Mapping[str, Request], timeout: float) -> dict[str, Reply | Failure]:
        """Ask several sites at once; return the answers that arrive in time."""
        ...


@dataclass(frozen=True)
class InProcessWire:
    """Sites that are functions of this process, asked one after the other.

    Parameters
    ----------
    answers : dict of functions
        By site, what answers its requests; an error of ours becomes a `Failure`.
    """

    answers: Mapping[str, Answer]

    def sites(self) -> tuple[str, ...]:
        """Return all sites, sorted."""
        return tuple(sorted(self.answers))

    def ask(self, requests: Mapping[str, Request], timeout: float) -> dict[str, Reply | Failure]:
        """Ask several sites; all answer at once."""
        return {site: self._ask(site, requests[site]) for site in sorted(requests)}

    def _ask(self, site: str, request: Request) -> Reply | Failure:
        try:
            return self.answers[site](request)
        except PerCDLError as error:
            return Failure(site, str(error))


def n_bytes(message: Request | Reply) -> int:
    """Return what a message weighs: its facts as JSON, and its arrays."""
    facts = len(json.dumps(message.facts).encode())
    return facts + sum(array.nbytes for array in message.arrays.values())
