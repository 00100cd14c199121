"""The board of a run: members post one message per slot, and read the messages of all.

A board only carries messages. It adds nothing up, computes nothing and decides nothing; where a
server is to do that (`percdl.federated.server`), it answers the posts of each slot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

from percdl.exceptions import FederationError
from percdl.federated.manifest import Manifest
from percdl.federated.messages import Head, read_post
from percdl.signals.files import PRIVATE, make_private_folder, replace_file

# Name of the server among the sites, where it adds their posts; no site can have it.
SERVER = ""


class WaitedError(FederationError):
    """Others did not answer in time: the site leaves, and may join again."""


@runtime_checkable
class Connection(Protocol):
    """The way of a site to the board of its run."""

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
        self.manifest, self._folder = manifest, folder
        self._posts: dict[int, dict[str, bytes]] = {}
        self._answers: dict[int, bytes] = {}
        self._left: dict[str, str] = {}
        self.turn = threading.Condition()
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
            raise FederationError(
                f"Site {head.site} has posted another message in slot {head.slot} before."
            )
        if head.kind in ("finish", "refusal"):
            self._left[head.site] = head.kind
        return head

    def look(self, slot: int) -> dict[str, bytes] | None:
        """Return what members read of a slot; None while something is missing.

        That is the posts of all. If the server adds them, it is the server's answer instead, and
        the posts only in the first slot, in which sites join.
        """
        if self.manifest.aggregate == "sites":
            return self.posts(slot)
        joined = self._posts.get(slot, {}) if slot == 0 else {}
        return {SERVER: self._answers[slot], **joined} if slot in self._answers else None

    def posts(self, slot: int) -> dict[str, bytes] | None:
        """Return the posts of all members in a slot; None while some are missing."""
        return None if self.missing(slot) else dict(self._posts[slot])

    def read(self, slot: int) -> dict[str, bytes]:
        """Wait until a slot is complete; return what members read of it."""
        return self._wait(lambda: self.look(slot))

    def collect(self, slot: int) -> dict[str, bytes]:
        """Wait until all members have posted in a slot; return their posts, for the server."""
        return self._wait(lambda: self.posts(slot))

    def answer(self, slot: int, content: bytes) -> None:
        """Take the server's answer to the posts of a slot."""
        with self.turn:
            self._answers[slot] = content
            self.turn.notify_all()

    def _wait(self, look: Callable[[], dict[str, bytes] | None]) -> dict[str, bytes]:
        with self.turn:
            self.turn.wait_for(lambda: self._over is not None or look() is not None)
            found = look()
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
        """Wake all who wait, with an error."""
        with self.turn:
            self._over = why
            self.turn.notify_all()
