"""The board of a run, where each member posts one message per slot, and the members' place at it.

A board only carries messages. If the manifest lets a server add the posts, the board also holds
its answer to the posts of each slot (`percdl.federated.server`).

A site writes its post to disk before it sends it, and sends the same bytes again after a crash.
Every post holds the checksum of all that was read before it, so that members with different
histories notice it in the next slot.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from percdl.exceptions import FederationError
from percdl.federated.identities import Identity
from percdl.federated.manifest import Manifest
from percdl.federated.messages import SHORT, Head, Post, digest, frame, pack, read_post, write_post
from percdl.signals.files import PRIVATE, append_private, make_private_folder, replace_file

Make = Callable[[], np.ndarray]  # makes the numbers of a post
# Name under which the server's answer is listed among the posts; no site can have it.
SERVER = ""


class WaitedError(FederationError):
    """Raised when a site stops without leaving the run; it may join again."""


@runtime_checkable
class Connection(Protocol):
    """Connection of a site to the board of its run."""

    def post(self, content: bytes) -> None:
        """Post a message; the same one may be posted again."""
        ...

    def read(self, slot: int) -> dict[str, bytes]:
        """Wait until a slot is complete; return its messages by site, see `Board.look`."""
        ...


class Board:
    """Posts of the members of a run, by slot, in memory and, with a folder, on disk.

    The first post of a member in a slot counts; another one is refused. Sites that are threads of
    one process hold ``turn`` while they work, one at a time, and release it while they wait.
    """

    def __init__(self, manifest: Manifest, folder: Path | None = None):
        self.manifest, self._folder, self.turn = manifest, folder, threading.Condition()
        self._posts: dict[int, dict[str, bytes]] = {}
        self._left: dict[str, str] = {}
        self._over: str | None = None
        for path in [] if folder is None else sorted(folder.glob("*-*.post")):
            self._take(path.read_bytes())

    def post(self, content: bytes) -> None:
        """Take a post; raises if it is not signed by a member, or not the first one."""
        with self.turn:
            head = self._take(content)
            if self._folder is not None:
                make_private_folder(self._folder)
                path = self._folder / f"{head.slot:06d}-{head.site}.post"
                replace_file(path, content, PRIVATE)
            self.turn.notify_all()

    def _take(self, content: bytes) -> Head:
        head = read_post(content, self.manifest.verify).head
        if head.run != self.manifest.run:
            raise FederationError(f"This is the board of run {self.manifest.run}.")
        if head.slot > 1 and self.missing(head.slot - 2):  # a site may refuse one slot ahead
            raise FederationError(f"Slot {head.slot} of run {head.run} is not open yet.")
        if self._posts.setdefault(head.slot, {}).setdefault(head.site, content) != content:
            what = f"has posted another message in slot {head.slot} before"
            raise FederationError(f"Site {head.site} {what}. Another process may use its key.")
        if head.kind in ("finish", "refusal"):
            self._left[head.site] = head.kind
        return head

    def look(self, slot: int) -> dict[str, bytes] | None:
        """Return what members read of a slot; None while something is missing.

        Members read the posts of all. If the server adds the posts, they read its answer instead,
        and the posts of the first slot only, in which sites join.
        """
        if self.manifest.aggregate == "sites":
            return self.posts(slot)
        joined, answer = self.posts(0) if slot == 0 else {}, self._posts.get(slot, {}).get(SERVER)
        return None if joined is None or answer is None else {SERVER: answer, **joined}

    def posts(self, slot: int) -> dict[str, bytes] | None:
        """Return the posts of all members in a slot; None while some are missing."""
        sites = self.manifest.sites
        return None if self.missing(slot) else {site: self._posts[slot][site] for site in sites}

    def read(self, slot: int) -> dict[str, bytes]:
        """Wait until a slot is complete; return what members read of it."""
        return self.wait(self.look, slot)

    def answer(self, slot: int, content: bytes) -> None:
        """Take the server's answer to the posts of a slot."""
        with self.turn:
            self._posts.setdefault(slot, {})[SERVER] = content
            self.turn.notify_all()

    def wait(self, look: Callable[[int], dict[str, bytes] | None], slot: int) -> dict[str, bytes]:
        """Wait until `look` or `posts` finds something in a slot; return it."""
        with self.turn:
            self.turn.wait_for(lambda: self._over is not None or look(slot) is not None)
            found = look(slot)
        if self._over is not None or found is None:
            raise WaitedError(self._over)
        return found

    def missing(self, slot: int) -> list[str]:
        """Return the members that have not posted in a slot."""
        return [site for site in self.manifest.sites if site not in self._posts.get(slot, {})]

    @property
    def latest(self) -> int:
        """The last slot with a post."""
        return max(self._posts, default=0)

    @property
    def is_over(self) -> bool:
        """Whether all members have finished, or one has left for good."""
        return "refusal" in self._left.values() or len(self._left) == len(self.manifest.members)

    def end(self, why: str) -> None:
        """Raise `WaitedError` in all threads that wait."""
        with self.turn:
            self._over = why
            self.turn.notify_all()


class Place:
    """Progress of a site or a server in a run: the slot, and the checksum of all read before."""

    def __init__(self, manifest: Manifest, who: str):
        self.manifest, self.who = manifest, who
        self.slot, self.chain = 0, manifest.digest
        self.heard: dict[str, str] = {}  # the beginnings of the checksums of the last slot

    def advance(self, received: dict[str, bytes]) -> None:
        """Go on to the next slot, given what was read of this one."""
        self.chain = digest(frame(self.chain, self.slot) + pack(received))
        self.heard = {site: digest(received[site])[:SHORT] for site in sorted(received)}
        self.slot += 1

    def check(self, kind: str, received: dict[str, bytes]) -> dict[str, Post]:
        """Return the posts of all members in this slot; raises if one does not belong here."""
        if received.keys() != self.manifest.members.keys():
            there = f"posts of {sorted(received)!r:.500} in slot {self.slot}"
            members = ", ".join(self.manifest.sites)
            raise FederationError(f"The board has {there}, and the members are {members}.")
        posts, run = {}, self.manifest.run
        for site in self.manifest.sites:
            posts[site] = read_post(received[site], self.manifest.verify)
            head = posts[site].head
            if head.kind == "refusal":
                why = str(head.facts.get("why"))[:1000]
                raise FederationError(f"Site {site} has left run {run}: {why}")
            if (head.site, head.run, head.slot) != (site, run, self.slot):
                what = f"a post of site {head.site}, run {head.run}, slot {head.slot}"
                place = f"that of site {site} in slot {self.slot}"
                raise FederationError(f"The board handed out {what} as {place}. Ask who runs it.")
            if (head.chain, head.kind) != (self.chain, kind):
                other = [head.heard[i : i + SHORT] for i in range(0, len(head.heard), SHORT)]
                pairs = zip(self.heard.items(), other, strict=False)
                twice = [who or "the server" for (who, own), its in pairs if own != its]
                raise FederationError(
                    f"Site {site} has another history of run {run} than {self.who} in slot "
                    f"{self.slot} ({head.kind!r}, not {kind!r}): they read different messages of "
                    f"{', '.join(twice) or 'members'}, signed twice, or do not run the same "
                    "manifest. Nothing was revealed. Start a new run, and ask who signed two."
                )
        return posts


class Transcript(Place):
    """Progress of a site in a run; ``folder`` holds its posts and its log."""

    def __init__(self, identity: Identity, manifest: Manifest, way: Connection, folder: Path):
        super().__init__(manifest, f"site {identity.site}")
        self.identity, self._way, self.folder, self.answer = identity, way, folder, b""
        make_private_folder(folder)

    def exchange(self, kind: Any, make: Make | None = None, **facts: Any) -> dict[str, Post]:
        """Post facts and numbers; return the posts of all. After a crash, the stored post counts.

        Raises if a member refuses, or has another history than this site. If the server adds the
        posts, none are returned after joining; ``answer`` holds the server's answer.
        """
        began, content = time.perf_counter(), self._own(kind, make, facts)
        self._way.post(content)
        received, posts = self._way.read(self.slot), {}
        if self.manifest.aggregate == "sites" or self.slot == 0:
            others = {site: post for site, post in received.items() if site != SERVER}
            posts = self.check(kind, others)
            if others[self.identity.site] != content:
                raise FederationError(f"The board has changed the post of {self.who}.")
        self.answer = received.get(SERVER, b"")
        size, seconds = sum(map(len, received.values())), round(time.perf_counter() - began, 3)
        self.log(asked=kind, sent=len(content), received=size, seconds=seconds)
        self.advance(received)
        return posts

    def say(self, kind: Any, **facts: Any) -> None:
        """Post facts, and do not wait for others."""
        self._way.post(self._own(kind, None, facts))

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

    def _own(self, kind: Any, make: Make | None, facts: dict[str, Any]) -> bytes:
        """Return the own post of this slot, the stored one if there is one."""
        run, site, slot = self.manifest.run, self.identity.site, self.slot
        if self._path.exists():
            content = self._path.read_bytes()
            head = read_post(content, self.manifest.verify).head
            if (head.kind, head.chain) != (kind, self.chain):
                what = f"{head.kind!r} in slot {slot} of run {run} before, with another history"
                raise FederationError(f"Site {site} has posted {what}. Start a new run.")
            return content
        numbers = b"" if make is None else make().tobytes()
        story = {"chain": self.chain, "heard": "".join(self.heard.values()), "facts": facts}
        head = Head(run=run, slot=slot, site=site, kind=kind, **story)
        content = write_post(Post(head, numbers), self.identity.sign)
        replace_file(self._path, content, PRIVATE)
        return content
