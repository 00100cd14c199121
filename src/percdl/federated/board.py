"""The board of a run: members post one message per slot, and read the messages of all.

A board only carries messages. It adds nothing up, computes nothing and decides nothing; where a
server is to do that (`percdl.federated.server`), it answers the posts of each slot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

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
        """Wait until a slot is complete; return its messages by site, see `Board.read`."""
        ...


class Board:
    """Posts of the members of a run, by slot, in memory and, with a folder, on disk.

    The first post of a member in a slot counts; another one is refused.
    """

    def __init__(self, manifest: Manifest, folder: Path | None = None):
        self.manifest, self._folder = manifest, folder
        self._posts: dict[int, dict[str, bytes]] = {}
        self._kinds: dict[int, dict[str, str]] = {}
        self._answers: dict[int, bytes] = {}
        self._changed = threading.Condition()
        self._over: str | None = None
        for path in [] if folder is None else sorted(folder.glob("*-*.post")):
            self._take(path.read_bytes())

    def post(self, content: bytes) -> None:
        """Take a post; raises if it is not signed by a member, or not the first one."""
        with self._changed:
            head = self._take(content)
            if self._folder is not None:
                make_private_folder(self._folder)
                path = self._folder / f"{head.slot:06d}-{head.site}.post"
                replace_file(path, content, PRIVATE)
            self._changed.notify_all()

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
        self._kinds.setdefault(head.slot, {})[head.site] = head.kind
        return head

    def read(self, slot: int, patience: float | None = None) -> dict[str, bytes] | None:
        """Return what members read of a slot; None if something is missing by then.

        That is the posts of all. If the server adds them, it is the server's answer instead, and
        the posts only in the first slot, in which sites join.
        """
        if self.manifest.aggregate == "sites":
            return self.collect(slot, patience)
        if not self._wait(lambda: slot in self._answers, patience):
            return None
        joined = dict(self._posts[slot]) if slot == 0 else {}
        return {SERVER: self._answers[slot], **joined}

    def collect(self, slot: int, patience: float | None = None) -> dict[str, bytes] | None:
        """Return the posts of all members in a slot; None if some are missing by then."""
        complete = self._wait(lambda: not self.missing(slot), patience)
        return dict(self._posts[slot]) if complete else None

    def answer(self, slot: int, content: bytes) -> None:
        """Take the server's answer to the posts of a slot."""
        with self._changed:
            self._answers[slot] = content
            self._changed.notify_all()

    def _wait(self, complete: Callable[[], bool], patience: float | None) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: complete() or self._over is not None, patience)
            if self._over is not None:
                raise WaitedError(self._over)
            return complete()

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
        kinds = list(self._kinds.get(self.latest, {}).values())
        return "refusal" in kinds or kinds.count("finish") == len(self.manifest.members)

    def end(self, why: str) -> None:
        """Wake all who wait, with an error."""
        with self._changed:
            self._over = why
            self._changed.notify_all()


class TakingTurns:
    """Connection of sites that are threads of this process: one of them works at a time."""

    def __init__(self, board: Board):
        self._board, self._turn = board, threading.Lock()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Hold the turn during a block, except while waiting for others."""
        with self._turn:
            yield

    def post(self, content: bytes) -> None:
        """Post a message."""
        self._board.post(content)

    def read(self, slot: int) -> dict[str, bytes]:
        """Let the others work until a slot is complete; return what is read of it."""
        return self._give_way(self._board.read, slot)

    def collect(self, slot: int) -> dict[str, bytes]:
        """Let the sites work until all have posted; return the posts, for the server."""
        return self._give_way(self._board.collect, slot)

    def answer(self, slot: int, content: bytes) -> None:
        """Take the server's answer."""
        self._board.answer(slot, content)

    def _give_way(self, wait: Callable[[int], dict[str, bytes] | None], slot: int) -> Any:
        self._turn.release()
        try:
            return wait(slot)
        finally:
            self._turn.acquire()
