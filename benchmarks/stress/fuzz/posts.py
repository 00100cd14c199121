"""Messages to a site of a federation: posts of members that are broken or malicious."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stress.fuzz import junk
from benchmarks.stress.fuzz.choices import happens
from benchmarks.stress.fuzz.engine import WrongResultError
from percdl import Cohort, PerCDL, TimeWarp
from percdl.exceptions import FederationError
from percdl.federated.board import Board, Transcript
from percdl.federated.identities import Identity, RunKeys
from percdl.federated.manifest import Invitation, Manifest, agree, propose
from percdl.federated.messages import SIGNED, Holdings, Joining, read_post
from percdl.federated.site import describe

NAMES, LENGTH = ("lyon", "nice", "paris"), 8


def make_model() -> PerCDL:
    """Return a small model with a first dictionary."""
    first = np.sin(np.linspace(0, np.pi, LENGTH))[None, :, None]
    return PerCDL(1, LENGTH, TimeWarp(1, 1), 0.3, init=first)


def make_cohort() -> Cohort:
    """Return recordings of a site."""
    values = np.random.default_rng(0).normal(size=(3, 40))
    return Cohort.from_arrays(values, sfreq=50, subjects=["Ada", "Bo", "Cy"])


class _Deaf:
    """A connection that hands out what a test says."""

    def __init__(self) -> None:
        self.posts: dict[str, bytes] = {}

    def post(self, content: bytes) -> None:
        """Take a post."""

    def read(self, slot: int) -> dict[str, bytes]:
        """Return the posts."""
        return self.posts


class Posts:
    """The first slot of a run at a site, with posts of the others that were changed."""

    name = "posts of other sites"
    documented = (FederationError,)

    def __init__(self, folder: Path) -> None:
        self._identities = {name: Identity.generate(name) for name in NAMES}
        keys = {name: identity.public for name, identity in self._identities.items()}
        self._manifest = propose(make_model(), "run", keys)
        self._way, self._folder = _Deaf(), folder
        holdings = describe(make_cohort(), self._manifest)
        self._facts = {}
        for name in NAMES:
            public = RunKeys.at(folder / f"{name}.key").public
            own = Joining(holdings=holdings, public=public, dataset="0" * 64)
            self._facts[name] = own.model_dump(mode="json")
        self._posts = {name: self._write(name, self._facts[name], b"") for name in NAMES}

    def case(self, draws: random.Random) -> None:
        """Read a slot, some post of which was changed, and board it."""
        posts, name = dict(self._posts), draws.choice(NAMES[1:])
        if happens(draws, 0.5):
            facts = change_facts(self._facts[name], draws)
            posts[name] = self._write(name, facts, draws.randbytes(draws.randrange(20)))
        else:
            raw = bytearray(posts[name])
            raw[draws.randrange(len(raw))] ^= 1 << draws.randrange(8)
            posts[name] = bytes(
                raw[: draws.randrange(len(raw) + 1)] if happens(draws, 0.3) else raw
            )
        Board(self._manifest).post(posts[name])
        self._way.posts = posts
        here = self._transcript(NAMES[0])
        found = here.exchange("join", **self._facts[NAMES[0]])
        common = agree(self._manifest, found).common
        if not isinstance(common, Holdings) or found.keys() != set(NAMES):
            raise WrongResultError(repr(found))

    def _transcript(self, name: str) -> Transcript:
        place = self._folder / name
        return Transcript(self._identities[name], self._manifest, self._way, place)

    def _write(self, name: str, facts: dict[str, Any], numbers: bytes) -> bytes:
        """Return a post as a member would sign it, whatever it holds."""
        head = {
            "run": "run", "slot": 0, "site": name, "kind": "join",
            "chain": self._manifest.digest, "facts": facts,
        }  # fmt: skip
        from percdl.federated.messages import POST, frame

        content = json.dumps(head).encode() + b"\n" + numbers
        if name == NAMES[0]:
            here = self._transcript(name)
            content = here._own("join", None, facts)[SIGNED:]
        return self._identities[name].sign(frame(POST, content)) + content


class Invitations:
    """Invitations that were changed."""

    name = "invitations"
    documented = (FederationError,)

    def __init__(self, folder: Path) -> None:
        keys = {name: Identity.generate(name).public for name in NAMES}
        manifest = propose(make_model(), "run", keys)
        self._content = manifest.model_dump()
        self._path = folder / "invitation.toml"

    def case(self, draws: random.Random) -> None:
        """Read an invitation, some part of which was changed."""
        content = json.dumps(change_facts(self._content, draws))
        file: dict[str, Any] = {"server": "a:1", "authority": "PEM", "manifest": content}
        if happens(draws, 0.2):
            file = change_facts(file, draws)
        found = Invitation.read(file, self._path).manifest
        if not isinstance(found, Manifest) or len(found.digest) != 64:
            raise WrongResultError(repr(found))
        read_post_of(found)


def read_post_of(manifest: Manifest) -> None:
    """Raise where a manifest lets anyone post."""
    try:
        read_post(bytes(100), manifest.verify)
    except FederationError:
        return
    raise WrongResultError("a post without a signature is read")


def change_facts(facts: dict[str, Any], draws: random.Random) -> dict[str, Any]:
    """Return facts with one of them, at any depth, changed, left out or added."""
    facts = copy.deepcopy(facts)
    place: Any = facts
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys or happens(draws, 0.05):
            if isinstance(place, dict):
                place[junk.text(draws)] = junk.json_value(draws)
            else:
                place.append(junk.json_value(draws))
            return facts
        key = draws.choice(keys)
        if not isinstance(place[key], (dict, list)) or happens(draws, 0.3):
            break
        place = place[key]
    if happens(draws, 0.2):
        del place[key]
    else:
        place[key] = junk.json_value(draws)
    return facts
