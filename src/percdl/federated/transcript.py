"""The transcript of a run at a site: slots, posts of all members, and the chain of checksums.

A site sends one post per slot. It is on disk before it is sent, and after a crash the same bytes
are sent again. Every post holds the checksum of all that was read before it, so that members with
different histories notice it in the next slot.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from percdl.exceptions import FederationError
from percdl.federated.board import SERVER, Connection
from percdl.federated.identities import Identity
from percdl.federated.manifest import Manifest
from percdl.federated.messages import Head, Post, digest, frame, read_post, write_post
from percdl.signals.files import PRIVATE, append_private, make_private_folder, replace_file


class Place:
    """The place of a site or a server in a run: the slot, and the checksum of all read before."""

    def __init__(self, manifest: Manifest, who: str):
        self.manifest, self.who = manifest, who
        self.slot, self.chain = 0, manifest.digest

    def advance(self, received: dict[str, bytes]) -> None:
        """Go on to the next slot, after what was read of this one."""
        parts = [part for site in sorted(received) for part in (site, received[site])]
        self.chain = digest(frame(self.chain, self.slot, *parts))
        self.slot += 1

    def check(self, kind: str, received: dict[str, bytes]) -> dict[str, Post]:
        """Return the posts of all members if they are of this place; raises otherwise."""
        if received.keys() != self.manifest.members.keys():
            raise FederationError(
                f"The board has posts of {', '.join(sorted(received)) or 'nobody'} in slot "
                f"{self.slot}, and the members are {', '.join(self.manifest.sites)}."
            )
        return {site: self._check(kind, site, received[site]) for site in self.manifest.sites}

    def _check(self, kind: str, site: str, content: bytes) -> Post:
        post = read_post(content, self.manifest.verify)
        head, run = post.head, self.manifest.run
        if head.kind == "refusal":
            why = str(head.facts.get("why"))[:1000]
            raise FederationError(f"Site {site} has left run {run}: {why}")
        if (head.site, head.run, head.slot) != (site, run, self.slot):
            raise FederationError(
                f"The board handed out a post of site {head.site}, run {head.run}, slot "
                f"{head.slot} as that of site {site} in slot {self.slot}. Ask who runs it."
            )
        if (head.chain, head.kind) != (self.chain, kind):
            raise FederationError(
                f"Site {site} has another history of run {run} than {self.who} in slot "
                f"{self.slot} ({head.kind!r}, not {kind!r}): they were told different stories, or "
                "do not run the same manifest. Nothing was revealed. Start a new run, and ask who "
                "runs the board."
            )
        return post


class Transcript(Place):
    """The place of a site in a run; ``folder`` holds its posts and its log."""

    def __init__(
        self, identity: Identity, manifest: Manifest, connection: Connection, folder: Path
    ):
        super().__init__(manifest, f"site {identity.site}")
        self.identity, self.connection, self.folder = identity, connection, folder
        self.answer = b""
        make_private_folder(folder)

    def exchange(
        self, kind: Any, make: Callable[[], np.ndarray] | None = None, **facts: Any
    ) -> dict[str, Post]:
        """Post facts and numbers, made if they were not posted before; return all posts.

        Raises if a member refuses, or has another history than this site. If the server adds the
        posts, none are returned after joining; ``answer`` holds the server's answer.
        """
        began, content = time.perf_counter(), self._own(kind, make, facts)
        self.connection.post(content)
        received = self.connection.read(self.slot)
        posts: dict[str, Post] = {}
        if self.manifest.aggregate == "sites" or self.slot == 0:
            others = {site: post for site, post in received.items() if site != SERVER}
            posts = self.check(kind, others)
            if others[self.identity.site] != content:
                raise FederationError(f"The post of site {self.identity.site} was exchanged.")
        self.answer = received.get(SERVER, b"")
        self.log(
            asked=kind,
            sent=len(content),
            received=sum(map(len, received.values())),
            seconds=round(time.perf_counter() - began, 3),
        )
        self.advance(received)
        return posts

    def say(self, kind: Any, **facts: Any) -> None:
        """Post facts, and do not wait for others."""
        self.connection.post(self._own(kind, None, facts))

    def refuse(self, why: str) -> None:
        """Tell the others that this site leaves the run, and why, in the next slot."""
        if self._path.exists():
            self.slot += 1
        if not self._path.exists():
            self.say("refusal", why=why)

    def log(self, **line: Any) -> None:
        """Add a line to the site's own log of the run."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text = json.dumps({"time": stamp, "slot": self.slot, **line})
        append_private(self.folder / "log.jsonl", (text + "\n").encode())

    @property
    def _path(self) -> Path:
        return self.folder / f"{self.slot:06d}.post"

    def _own(
        self, kind: Any, make: Callable[[], np.ndarray] | None, facts: dict[str, Any]
    ) -> bytes:
        """Return the own post of this slot, the stored one if there is one."""
        if self._path.exists():
            content = self._path.read_bytes()
            head = read_post(content, self.manifest.verify).head
            if (head.kind, head.chain) != (kind, self.chain):
                raise FederationError(
                    f"Site {self.identity.site} has posted {head.kind!r} in slot {self.slot} of "
                    f"run {self.manifest.run} before, with another history. The board has "
                    "changed its story, or the folder is of another run. Start a new run."
                )
            return content
        numbers = b"" if make is None else np.ascontiguousarray(make()).tobytes()
        head = Head(
            run=self.manifest.run,
            slot=self.slot,
            site=self.identity.site,
            kind=kind,
            chain=self.chain,
            facts=facts,
        )
        content = write_post(Post(head, numbers), self.identity.sign)
        replace_file(self._path, content, PRIVATE)
        return content
