"""Contents of all messages between a coordinator and its sites, as pydantic models.

Neither side trusts the other: each checks types, ranges and sizes before it uses a message.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from percdl.algorithm.state import StopReason
from percdl.exceptions import FederationError
from percdl.runtimes.messages import Reply, Request

# Names of runs and sites become names of folders and files at the sites.
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
# Round numbers become file names, so they are bounded.
MOST_ROUNDS = 10**6
MOST_SITES, MOST_CHANNELS = 1000, 10_000
# Largest power of two of a bound: the scales computed from it stay finite.
MOST_EXPONENT = 960

Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
# 32 bytes as hexadecimal digits: a checksum, a public key or the seed of a mask.
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, lt=MOST_ROUNDS)]
Exponent = Annotated[int, Field(ge=-MOST_EXPONENT, le=MOST_EXPONENT)]
Label = Annotated[str, StringConstraints(max_length=1000)]
Labels = Annotated[tuple[Label, ...], Field(max_length=MOST_CHANNELS)]
# A value for each of some sites.
BySite = Annotated[dict[Name, Digest], Field(max_length=MOST_SITES)]


class Strict(BaseModel):
    """Base of all models: no conversions, no unknown fields, finite numbers, immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


Model = TypeVar("Model", bound=Strict)


class Signals(NamedTuple):
    """The signal properties that all sites have in common: a `Source` without subjects."""

    channels: Annotated[Labels, Field(min_length=1)]
    units: Labels
    sfreq: Annotated[float, Field(gt=0)]
    processing: Labels

    @property
    def subjects(self) -> tuple[str, ...]:
        """Return an empty tuple: only the sites know their subjects."""
        return ()

    @property
    def n_channels(self) -> int:
        """P, the number of channels."""
        return len(self.channels)


class Bounds(NamedTuple):
    """Exponents of the powers of two above the energy and above the number of samples."""

    energy: Exponent
    samples: Exponent


class Holdings(Strict):
    """Description of the recordings that a site sends when it joins."""

    signals: Signals
    n_masks: Annotated[int, Field(ge=0)]
    bounds: Bounds

    @model_validator(mode="after")
    def _fits_channels(self) -> Holdings:
        if self.n_masks not in (0, 1, self.signals.n_channels):
            raise ValueError(f"n_masks is {self.n_masks} for {self.signals.n_channels} channels")
        if len(self.signals.units) != self.signals.n_channels:
            raise ValueError(f"{len(self.signals.units)} units")
        return self


class TermsContent(Holdings):
    """Terms of a run as they cross; the agreement is named by its checksum."""

    agreement: Digest
    members: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_SITES)]
    secure: bool


class Announcement(Strict):
    """Public key of a site for one run, signed with the registered key of the site."""

    site: Name
    run: Name
    public: Digest
    signature: Annotated[str, StringConstraints(pattern="^[0-9a-f]{128}$")]


Phase = Literal["population", "personal", "final"]
Step = Literal["CSC", "CDU", "IPU", "PerCDU", "express"]
HistoryLine = tuple[Phase, Count, Step, float, Annotated[float, Field(ge=0)]]


class EndContent(Strict):
    """Result of a fit besides its dictionary: objective, stop reason, history."""

    objective: float
    reason: StopReason
    history: Annotated[tuple[HistoryLine, ...], Field(min_length=1, max_length=MOST_ROUNDS)]


class Join(Strict):
    """Request to join a run; the site checks the agreement."""

    agreement: dict[str, Any]


class Empty(Strict):
    """Message without content."""


class InRun(Strict):
    """Request within a run, for a sum over the sites of a roster."""

    terms: TermsContent
    roster: Annotated[tuple[Name, ...], Field(max_length=MOST_SITES)]
    announcements: Annotated[tuple[Announcement, ...], Field(max_length=MOST_SITES)] = ()


class InRound(InRun):
    """Request for a round; ``follows`` is the round that it continues from."""

    follows: Count | None


class Release(InRun):
    """Request for the seed of a site's own mask, and for the seeds of lost sites."""

    question: Digest
    lost: BySite


class Finish(InRound, EndContent):
    """Result of the run, sent to all sites at the end."""


class Summed(Strict):
    """Reply with sums; ``afresh``: the site had no state of the round before."""

    afresh: bool
    backups: BySite = {}


class Announced(Strict):
    """Reply to ``keys``."""

    announcement: Announcement


class Released(Strict):
    """Reply to ``release``: seeds by site."""

    seeds: BySite


# The contents of a request and of its reply, by kind.
KINDS: dict[str, tuple[type[Strict], type[Strict]]] = {
    "join": (Join, Holdings),
    "keys": (Empty, Announced),
    "first": (InRun, Summed),
    "population": (InRound, Summed),
    "personal": (InRound, Summed),
    "express": (InRound, Summed),
    "release": (Release, Released),
    "finish": (Finish, Empty),
}


class _Numbers(Strict):
    round: Count
    attempt: Count


def parse(model: type[Model], facts: Any) -> Model:
    """Read JSON data as a model; raises `ValueError` for anything else."""
    try:
        return model.model_validate_json(json.dumps(facts))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def explain(error: ValueError) -> str:
    """Name the fields that a model refused, and why."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    found = [(".".join(map(str, e["loc"])), e["msg"]) for e in errors(include_url=False)]
    return "; ".join(f"{place}: {why}" if place else why for place, why in found[:3])


def read_request(site: str, request: Request) -> Any:
    """Return the content of a request; raises if it does not fit its kind."""
    try:
        _Numbers(round=request.round, attempt=request.attempt)
        if request.kind not in KINDS:
            raise ValueError("kind: unknown")
        return parse(KINDS[request.kind][0], request.facts)
    except ValueError as error:
        raise FederationError(
            f"Site {site} cannot read a request of kind {request.kind!r} ({explain(error)}). "
            "Coordinator and sites must run the same version of percdl."
        ) from error


def read_reply(reply: Reply) -> Any:
    """Return the content of a reply; raises `ValueError` if it does not fit its kind."""
    return parse(KINDS[reply.kind][1], reply.facts)


def are_finite(array: np.ndarray, dtype: str) -> bool:
    """Return whether an array holds real numbers that are finite in the precision of the fit."""
    if array.dtype.kind not in "iuf":
        return False
    with np.errstate(over="ignore"):
        return bool(np.isfinite(array.astype(dtype)).all())


def check_name(kind: str, name: str) -> str:
    """Return a name of a run or of a site if it can be a file name."""
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        raise FederationError(
            f"{name!r} is not a valid name for a {kind}. Use up to 64 letters, digits, dots, "
            "dashes and underscores, starting with a letter or a digit."
        )
    return name


def frame(*parts: bytes | str | int) -> bytes:
    """Join parts, each with its length in front: different lists give different bytes."""
    raw = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"".join(len(part).to_bytes(8, "big") + part for part in raw)


def digest(content: bytes) -> str:
    """Return the SHA-256 checksum of some bytes."""
    return hashlib.sha256(content).hexdigest()


def checksum(facts: Any, arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 checksum of JSON data and named arrays, in any order of names."""
    parts: list[bytes | str] = [json.dumps(facts, sort_keys=True)]
    for name in sorted(arrays):
        array = arrays[name]
        parts += [name, array.dtype.str, str(array.shape), np.ascontiguousarray(array).tobytes()]
    return digest(frame(*parts))


def question_of(request: Request) -> str:
    """Return the checksum of a question; it does not depend on attempt or roster."""
    asked = {name: request.facts.get(name) for name in ("terms", "follows")}
    return checksum([request.kind, asked], request.arrays)
