"""Contents of all messages between the sites of a federation, as pydantic models.

No site trusts another: types, ranges, sizes and signatures are checked before a message is used.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from percdl.exceptions import FederationError
from percdl.signals.headers import Strict, explain, read_json

# Names of runs and sites become names of folders and files at the sites.
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
# Slot numbers become file names, so they are bounded.
MOST_ROUNDS = 10**6
MOST_SITES, MOST_CHANNELS = 1000, 10_000
# Bytes of a post, of its header and of its signature (Ed25519).
MOST_BYTES, MOST_HEAD, SIGNED = 2**28, 2**24, 64
POST, SHORT = "percdl post, version 3", 8
# Largest power of two of a bound: the scales computed from it stay finite.
MOST_EXPONENT = 960

Name = Annotated[str, Field(pattern=f"^{NAME}$")]
# 32 bytes as hexadecimal digits: a checksum or a public key.
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, lt=MOST_ROUNDS)]
Exponent = Annotated[int, Field(ge=-MOST_EXPONENT, le=MOST_EXPONENT)]
Label = Annotated[str, Field(max_length=1000)]
Labels = Annotated[tuple[Label, ...], Field(max_length=MOST_CHANNELS)]


def _finite(values: Any) -> np.ndarray:
    array = np.array(values, float)
    if not np.isfinite(array).all():
        raise ValueError("numbers that are not finite")
    return array


Array = Annotated[np.ndarray, PlainValidator(_finite), PlainSerializer(np.ndarray.tolist)]
Model = TypeVar("Model", bound=Strict)


class Signals(NamedTuple):
    """Signal properties that all sites must share: a `Source` without subjects."""

    channels: Annotated[Labels, Field(min_length=1)]
    units: Labels
    sfreq: Annotated[float, Field(gt=0)]
    processing: Labels
    subjects = ()  # only the sites know them

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


class Joining(Strict):
    """Contents of the first post of a site."""

    holdings: Holdings
    public: Digest  # its public key for this run
    dataset: Digest  # commits the site to its recordings without revealing anything about them


Kind = Literal["join", "first", "population", "personal", "express", "shares", "finish", "refusal"]


class Head(Strict):
    """Header of a post. ``chain`` is the checksum of all posts of the slots before."""

    run: Name
    slot: Count
    site: Name
    kind: Kind
    chain: Digest
    # Digits of the checksum of each message of the last slot, to name a member that signed two.
    heard: Annotated[str, Field(pattern="^[0-9a-f]*$", max_length=SHORT * MOST_SITES)] = ""
    facts: dict[str, Any]


class Post(NamedTuple):
    """Message of a site to all members of a run: a header, and numbers (8 bytes each)."""

    head: Head
    numbers: bytes

    def vector(self, dtype: Any, size: int) -> np.ndarray:
        """Return the numbers as a vector (n,); raises `FederationError` for another size."""
        if len(self.numbers) != 8 * size:
            sent = f"{len(self.numbers)} bytes of numbers in a {self.head.kind} round"
            raise FederationError(f"Site {self.head.site} sent {sent}, not {8 * size}.")
        return np.frombuffer(self.numbers, np.dtype(dtype).newbyteorder("<")).astype(dtype)


class Question(Strict):
    """Answer of a server that adds the posts, to all sites: the next round, or the end."""

    run: Name
    slot: Count
    kind: Kind
    arrays: dict[Label, Array] = Field(default_factory=dict)
    why: Label = ""


def write_post(post: Post, sign: Callable[[bytes], bytes]) -> bytes:
    """Return a post as bytes: a signature, the header as a line of JSON, the numbers."""
    content = post.head.model_dump_json().encode() + b"\n" + post.numbers
    return sign(frame(POST, content)) + content


def read_post(content: bytes, verify: Callable[[str, bytes, bytes], None]) -> Post:
    """Read a post; raises `FederationError` if it is malformed or not signed by its site.

    ``verify(site, signature, text)`` raises if the site has not signed a text.
    """
    signature, signed = content[:SIGNED], content[SIGNED:]
    line, _, numbers = signed.partition(b"\n")
    if len(content) > MOST_BYTES or len(line) > MOST_HEAD:
        raise FederationError("A post cannot be read (too long).")
    head = parse(Head, line, "A post cannot be read")
    verify(head.site, signature, frame(POST, signed))
    return Post(head, numbers)


def parse(model: type[Model], facts: Any, what: str) -> Model:
    """Read JSON, as text or as data, as a model; raises `FederationError` for anything else."""
    try:
        facts = read_json(facts.decode()) if isinstance(facts, bytes) else facts
        return model.model_validate_json(json.dumps(facts))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise FederationError(f"{what} ({explain(error)}).") from error


def check_name(kind: str, name: str) -> str:
    """Return a name of a run or of a site if it can be a file name."""
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        known = "up to 64 letters, digits, '.', '-' and '_', starting with a letter or a digit"
        raise FederationError(f"{name!r} is not a valid name for a {kind}. Use {known}.")
    return name


def frame(*parts: bytes | str | int) -> bytes:
    """Join parts, each after its length, so that different lists give different bytes."""
    raw = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"".join(len(part).to_bytes(8, "big") + part for part in raw)


def pack(posts: dict[str, bytes]) -> bytes:
    """Return posts as one message, in the order of their sites."""
    return frame(*(part for site in sorted(posts) for part in (site, posts[site])))


def unpack(content: bytes) -> dict[str, bytes]:
    """Return the posts of a message by site; `Place.check` verifies them."""
    parts, start = [], 0
    while start < len(content):
        size = int.from_bytes(content[start : start + 8], "big")
        parts.append(content[start + 8 : start + 8 + size])
        start += 8 + size
    names = (name.decode(errors="replace") for name in parts[::2])
    return dict(zip(names, parts[1::2], strict=False))


def digest(content: bytes) -> str:
    """Return the SHA-256 checksum of some bytes."""
    return hashlib.sha256(content).hexdigest()
